"""Accepts jobs: all jobs of a put in one transaction, with the record that detects a repeated put.

A put is one round trip if this process knows which of the groups exist. An existing group has an
entry, so its jobs are only added. A new group gets a folder, and an entry for its first job. If the
process was wrong about a group, the server refuses the request, which is corrected and sent again.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

from ....core.queue.model import Job, Put
from ....errors import ConfigError, StoreUnavailable
from ..names import digest
from ..requests import Create, Delete, Found, Get, Look, Multi, No, Request, Stat, Sync
from ..requests import Put as Write
from .idle import Idle
from .names import entry_start, group_key
from .notes import job_note, ms, stamp
from .remembered import Remembered
from .space import Space
from .talk import REQUEST_BYTES_MAX, Talk, check_rights, too_large, why_not

#: Maximum number of attempts at a request, if other clients change the nodes meanwhile.
_ROUNDS = 12
#: Bytes of one part of a request in addition to its path and its data.
_PART_BYTES = 80


class Lane(NamedTuple):
    """The node of a producer: the number of its last put, and the node's version; -1: no node."""

    number: int
    version: int


#: A producer without a put yet.
_NEW = Lane(0, -1)


class Plan:
    """One put, and how to carry it out."""

    def __init__(self, put: Put) -> None:
        self.put = put
        #: For each job, True if it is new. Other jobs are left out.
        self.new = [True] * len(put.jobs)
        seen: set[str] = set()
        for at, job in enumerate(put.jobs):
            if job.known:
                self.new[at] = job.id not in seen
                seen.add(job.id)
        #: Groups that must be created.
        self.fresh: set[str] = set()
        #: Ids whose window has expired, with the version of the node that remembers them.
        self.stale: dict[str, int] = {}
        #: Number of waiters to wake.
        self.pokes = 0

    def jobs(self) -> list[tuple[int, Job]]:
        """Return the jobs that are accepted, with their positions."""
        return [(at, job) for at, job in enumerate(self.put.jobs) if self.new[at]]

    def groups(self) -> list[str]:
        """Return the groups of the accepted jobs."""
        return list(dict.fromkeys(job.group for _, job in self.jobs() if job.group))


class Putting:
    """Accepts jobs."""

    def __init__(self, talk: Talk, idle: Idle, depth: float) -> None:
        self._talk = talk
        self._idle = idle
        self._depth = depth
        self._remembered = Remembered(talk)
        #: The known node of each producer of this process; None while a put has no answer.
        self._lanes: dict[str, Lane | None] = {}

    async def put(self, put: Put, until: float) -> list[bool]:
        """Accept all jobs; see the contract."""
        talk = self._talk
        space = talk.space(put.queue)
        lane = self._lanes.get(put.lane, _NEW)
        if lane is None or put.number <= lane.number:
            lane, answers = await self._look(space, put, until)
            if answers is not None:
                return answers
        plan = Plan(put)
        plan.fresh = {one for one in plan.groups() if group_key(one) not in space.existing}
        for _ in range(_ROUNDS):
            await self._room(space, len(plan.jobs()), until)
            parts = self._parts(space, plan, lane)
            self._measure(plan, parts)
            self._lanes[put.lane] = None
            said, idle = await talk.ask([Multi(tuple(parts)), self._idle.look(space)], until)
            wrong = why_not(said)
            if not wrong:
                self._accepted(space, plan, lane, said, idle)
                with contextlib.suppress(StoreUnavailable):  # the jobs are accepted already
                    await self._sweep(space, plan, lane, until)
                return list(plan.new)
            self._lanes[put.lane] = lane
            check_rights(wrong, f"put into {put.queue!r}", talk.label)
            if not await self._mend(space, plan, parts, wrong, until):
                lane, answers = await self._look(space, put, until)
                if answers is not None:
                    return answers
        raise StoreUnavailable(f"{talk.label} refused to put {_ROUNDS} times")

    def _accepted(self, space: Space, plan: Plan, lane: Lane, said: list[Any], idle: Any) -> None:
        put = plan.put
        self._lanes[put.lane] = Lane(put.number, lane.version + 1)
        stats = [one for one in said if isinstance(one, Stat)]
        if plan.jobs():
            space.accepted = max(one.version for one in stats[-len(plan.jobs()) :])
            space.existing.update(group_key(one) for one in plan.groups())
        if not any(one.soonest() < 1 for one in space.lanes):
            space.dirty()
        self._idle.poke(space, idle, plan.pokes)
        if len(self._lanes) > 10_000:  # most are unused; the node of a used one is read again
            self._lanes = dict(list(self._lanes.items())[5000:])

    async def _sweep(self, space: Space, plan: Plan, lane: Lane, until: float) -> None:
        """Check some old records of producers and ids, because new ones were added."""
        if lane.version < 0:
            await self._remembered.sweep_lanes(space, plan.put.lane, until)
        if known := [job.id for _, job in plan.jobs() if job.known]:
            await self._remembered.sweep_ids(space, known, until)

    async def _look(self, space: Space, put: Put, until: float) -> tuple[Lane, list[bool] | None]:
        """Return the producer's node, and the answers if this put was carried out before.

        Requests are carried out in order: if the put was not carried out before the `Sync`, it
        never will be.
        """
        path = space.place.at("lanes", digest(put.lane))
        _, found = await self._talk.ask([Sync(path), Get(path)], until)
        if not isinstance(found, Found):
            return _NEW, None
        number, _, answers = found.data.partition(b" ")
        if not number.isdigit():  # damaged by another program: no earlier copy can be detected
            return Lane(-1, found.stat.version), None
        lane = Lane(int(number), found.stat.version)
        self._lanes[put.lane] = lane
        if lane.number > put.number:
            raise StoreUnavailable("a copy of an earlier put came late, and changes nothing")
        if lane.number == put.number:
            return lane, [one == ord("1") for one in answers]
        return lane, None

    # -- the parts of a put ------------------------------------------------------------------

    def _parts(self, space: Space, plan: Plan, lane: Lane) -> list[Any]:
        place, put = space.place, plan.put
        answers = "".join("1" if one else "0" for one in plan.new)
        told = f"{put.number} {answers}".encode()
        path = place.at("lanes", digest(put.lane))
        parts: list[Any] = [
            Write(path, told, lane.version) if lane.version >= 0 else Create(path, told)
        ]
        parts += [Write(place.at("accepted"), b"")] * len(plan.jobs())
        started = set(plan.groups()) - plan.fresh
        plan.pokes = len(plan.fresh)
        now = self._talk.port.now()
        for at, job in plan.jobs():
            if job.known:
                parts += self._known(space, plan, job)
            key = group_key(job.group) if job.group else ""
            due = self._talk.clock.most(now) + ms(job.delay) if job.delay else 0
            data = job_note(job, at, put.window).data()
            if key and job.group not in started:
                started.add(job.group)
                first = f"{due}!{0:010d}"
                parts.append(Create(place.at("groups", key)))
                parts.append(self._entry(space, key, first, due))
            if key:
                parts.append(Create(f"{place.at('groups', key)}/{due}!", data, numbered=True))
            else:
                node = f"{digest(put.lane)[:16]}-{put.number}-{at}"
                parts.append(Create(place.at("jobs", node), data))
                parts.append(self._entry(space, "", node, due))
                plan.pokes += 1
        return parts

    def _entry(self, space: Space, key: str, first: str, due: int) -> Create:
        start = entry_start(key, first, at=due)
        return Create(space.place.at("ready" if key else "plain", start), numbered=True)

    def _known(self, space: Space, plan: Plan, job: Job) -> list[Any]:
        """Return the parts that remember the id of a job."""
        path = space.place.known(job.id)
        told = f"{ms(plan.put.window)}".encode()
        if job.id in plan.stale:
            return [Delete(path, plan.stale[job.id]), Create(path, told)]
        return [Create(path, told)]

    # -- after a refusal ---------------------------------------------------------------------

    async def _mend(
        self, space: Space, plan: Plan, parts: list[Any], wrong: list[Any], until: float
    ) -> bool:
        """Find why the put was refused, and change the plan.

        Return False if the reason is the producer's node."""
        at, why = next(
            ((at, no) for at, no in enumerate(wrong) if isinstance(no, No) and no is not No.OTHER),
            (0, No.OTHER),
        )
        part = parts[min(at, len(parts) - 1)]
        place = space.place
        ids, groups = place.at("ids") + "/", place.at("groups") + "/"
        if part.path.startswith(ids):
            await self._look_at_ids(space, plan, until)
        elif part.path.startswith(groups):
            await self._look_at_groups(space, plan, until)
        elif why is No.NODE:
            await self._talk.make(place, until)
            return at > 0 or isinstance(part, Create)
        else:
            return at > 0
        return True

    async def _look_at_groups(self, space: Space, plan: Plan, until: float) -> None:
        names = plan.groups()
        paths = [space.place.at("groups", group_key(one)) for one in names]
        looks = await self._talk.ask([Look(path) for path in paths], until)
        plan.fresh = {one for one, look in zip(names, looks, strict=True) if look is No.NODE}

    async def _look_at_ids(self, space: Space, plan: Plan, until: float) -> None:
        """Find which ids are known. An id is free again after its job and its window have ended."""
        place = space.place
        known = [(at, job) for at, job in plan.jobs() if job.known]
        paths = [place.known(job.id) for _, job in known]
        asked: list[Request] = [Write(place.at("pulse"), b""), *(Get(path) for path in paths)]
        pulse, *found = await self._talk.ask(asked, until)
        folders = {path.rpartition("/")[0] for path in paths}
        await self._talk.ask([Create(path) for path in sorted(folders)], until)
        now = stamp(pulse.changed) if isinstance(pulse, Stat) else 0
        plan.stale = {}
        for (at, job), one in zip(known, found, strict=True):
            if not isinstance(one, Found):
                continue
            if self._remembered.faded(one, now):
                plan.stale[job.id] = one.stat.version
            else:
                plan.new[at] = False

    # -- limits ------------------------------------------------------------------------------

    def _measure(self, plan: Plan, parts: list[Any]) -> None:
        """Raise if the put is too large for one request.

        Such a request is never sent: the server would close the connection without an answer."""
        size = sum(len(one.path) + len(getattr(one, "data", b"")) + _PART_BYTES for one in parts)
        if size > REQUEST_BYTES_MAX:
            raise too_large(size, len(plan.jobs()), self._talk.label)

    async def _room(self, space: Space, jobs: int, until: float) -> None:
        """Raise if the queue has no room for these jobs.

        The known number of ended jobs can be too low, never too high. So counts that show enough
        room need no request."""
        if space.accepted >= 0 and space.accepted - space.gone + jobs <= self._depth:
            return
        folders = ("accepted", "done", "removed")
        looks = await self._talk.ask([Look(space.place.at(one)) for one in folders], until)
        counts = [one.version if isinstance(one, Stat) else 0 for one in looks]
        space.accepted, space.gone = counts[0], counts[1] + counts[2]
        here = space.accepted - space.gone
        if here + jobs > self._depth:
            raise ConfigError(
                f"{space.name!r} has {here} jobs, and {self._talk.label} takes no more than "
                f"{self._depth:g} in a queue, dead letters too: {jobs} more don't fit. Let the "
                "workers catch up, remove dead letters (holdfast queue dead, purge), or keep deep "
                "queues in another store"
            )
