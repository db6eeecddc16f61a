"""Takes jobs: chooses entries, tries to create their marks, and reads the answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....core.queue.model import Take, Taken
from ....core.queue.policy import rate_burst
from ..names import digest
from ..requests import Children, Create, Delete, Found, Get, Multi, No, Put, Request, Stat, Sync
from .idle import Idle
from .loans import Loan, Loans, Taker
from .lost import Lost
from .names import Entry, group_at, job_at, job_number
from .notes import JobNote, State, lent, read_job, stamp
from .space import GROUPED, PLAIN, STALE, Space
from .talk import Talk, check_rights, why_not
from .ways import Part

#: Maximum number of rounds in one take, each with a list and tries.
_ROUNDS = 6
_BOTH = (GROUPED, PLAIN)
_FOLDERS = ("ready", "plain")


class Taking:
    """Takes due jobs.

    If the list is recent, a take is one round trip: it creates the mark and reads the job. If the
    next job of the group isn't known, the same round trip lists the group. A new list of entries
    costs one more round trip.
    """

    def __init__(self, talk: Talk, loans: Loans, lost: Lost, idle: Idle) -> None:
        self._talk = talk
        self._loans = loans
        self._lost = lost
        self._idle = idle

    async def take(self, take: Take, until: float) -> Taken:
        """Take up to ``most`` deliveries; see the contract."""
        talk, taker = self._talk, self._loans.taker(take)
        if taker.buried:
            return Taken((), 1.0)
        space = talk.space(take.queue)
        if taker.doubts:
            await self.resolve(taker, until)
        try:
            if not taker.served:
                # A take that gets wake-ups repeats its request only because a wake-up can be lost.
                # All such takes of a process share one list.
                shared = self._idle.standing(take) and space.listed(talk.port.now())
                await self._find(space, taker, until, fresh=shared)
            if take.wait and not taker.loans and not self._idle.standing(take):
                await self._stand(space, taker, until)
        finally:
            taker.release(space.busy)
        if taker.loans:
            return Taken(tuple(one.delivered() for one in taker.loans.values()), 0.0)
        if not (taker.doubts or take.wait):
            self._loans.idle(take)
        now = talk.clock.least(talk.port.now())
        pause = self._pause(space, take, now)
        return Taken((), max(space.retry_in(now), min(pause / 1000, 1.0)))

    async def _find(self, space: Space, taker: Taker, until: float, fresh: bool = False) -> None:
        talk, take = self._talk, taker.take
        for _ in range(_ROUNDS):
            if not fresh and (lanes := space.stale(talk.port.now())):
                await self.look_up(space, until, lanes)
                fresh = len(lanes) == len(_BOTH)
            while chosen := await self.chosen(space, taker, until):
                await self._try(space, taker, chosen, until)
                if len(taker.loans) >= take.most or space.refusals >= STALE:
                    break
            if len(taker.loans) >= take.most or (fresh and (taker.loans or not space.refusals)):
                return
            await self.look_up(space, until)
            fresh = True

    async def _stand(self, space: Space, taker: Taker, until: float) -> None:
        """Register for a wake-up, then try again: a job may have become due in between."""
        take = taker.take
        if taker.buried:  # the take ended during the requests, so no client may wake it
            return
        stood = await self.look_up(space, until, first=self._idle.stand(space, take))
        if not self._idle.stood(take, stood):
            await self._talk.make(space.place, until)
            await self.look_up(space, until, first=self._idle.stand(space, take))
        await self._find(space, taker, until, fresh=True)

    async def look_up(
        self,
        space: Space,
        until: float,
        lanes: Sequence[int] = _BOTH,
        first: Sequence[Request] = (),
    ) -> list[Any]:
        """Send ``first``, then list the folders and the marks; return the answers to ``first``."""
        talk = self._talk
        begun = talk.port.now()
        answers = await talk.ask([*first, *self.lists(space, lanes)], until)
        self.listed(space, lanes, answers[len(first) :], begun)
        space.cost = talk.port.now() - begun
        if 0 < space.soonest() < math.inf:
            await talk.tell_time(space, until)
        return answers[: len(first)]

    def lists(self, space: Space, lanes: Sequence[int]) -> list[Request]:
        """Return the requests that list these folders, and the marks."""
        return [Children(space.place.at(one)) for one in (*(_FOLDERS[at] for at in lanes), "taken")]

    def listed(self, space: Space, lanes: Sequence[int], said: Sequence[Any], begun: float) -> None:
        """Store the answers to the requests of `lists`, which were sent at the time ``begun``."""
        check_rights([*said], f"list {space.place.base}", self._talk.label)
        found = [one if isinstance(one, list) else [] for one in said]
        # Entries created after `begun` may be missing. None of them is due before the listed ones.
        space.fill(dict(zip(lanes, found, strict=False)), found[-1], begun)

    async def chosen(self, space: Space, taker: Taker, until: float) -> list[Entry]:
        """Return the entries to try next."""
        take, talk = taker.take, self._talk
        rated = take.pace.rate < math.inf
        if rated:
            await talk.tell_time(space, until)
        if taker.buried:  # the take ended during the requests, so it gets nothing more
            return []
        if rated and space.pace is None:
            await self._read_pace(space, until)
        now = talk.clock.least(talk.port.now())
        if rated and self._pause(space, take, now) > 0:
            return []
        chosen: list[Entry] = []
        chance = sum(take.id.encode())
        for _ in range(1 if rated else take.most - len(taker.loans)):
            entry = space.pick(now, take.id, chance + space.refusals)
            if entry is None:
                break
            taker.tried.add(entry.node)
            chosen.append(entry)
        return chosen

    async def _try(self, space: Space, taker: Taker, chosen: Sequence[Entry], until: float) -> None:
        """Try to take these entries together, each in a separate transaction."""
        known = [one for one in chosen if one.first]
        for entry in chosen:
            if not entry.first:
                found = await self._lost.with_first(space, entry, until)
                if found is not None:
                    known.append(found)
        if known:
            await self._attempt(space, taker, known, [State(one.attempts) for one in known], until)

    async def _attempt(
        self,
        space: Space,
        taker: Taker,
        entries: Sequence[Entry],
        states: Sequence[State],
        until: float,
        version: int = 0,
    ) -> None:
        """Create the mark of each of these entries, if the entry has this version."""
        if taker.take.pace.rate < math.inf and space.pace is None:
            await self._read_pace(space, until)
        requests: list[Request] = []
        spans: list[int] = []
        for entry, state in zip(entries, states, strict=True):
            taker.doubts[entry.node] = entry
            parts = self.parts(space, taker.take, entry, state, version)
            more = [Multi(tuple(parts)), *self.reads(space, entry)]
            spans.append(len(more))
            requests += more
        answers = await self._talk.ask(requests, until)
        for entry, state, span in zip(entries, states, spans, strict=True):
            mine, answers = answers[:span], answers[span:]
            await self.digest(space, taker, entry, state, mine, until)

    async def digest(
        self,
        space: Space,
        taker: Taker,
        entry: Entry,
        state: State,
        answers: Sequence[Any],
        until: float,
    ) -> None:
        """Evaluate one try, by the answer to its transaction and then the answers to `reads`."""
        if len(answers) > 2:
            space.learn(entry, answers[2])
        if wrong := why_not(answers[0]):
            await self._refused(space, taker, entry, wrong, until)
        else:
            await self._got(space, taker, entry, state, answers[0], answers[1], until)
        taker.doubts.pop(entry.node, None)  # last: after an interrupt, `resolve` needs it

    def parts(
        self, space: Space, take: Take, entry: Entry, state: State, version: int = 0
    ) -> list[Part]:
        """Return the parts that take an entry, if it has this version."""
        place = space.place
        data = f"{digest(take.id)}\n{take.owner}".encode()
        told = lent(take, state.attempts + 1, state.reason).data()
        parts: list[Part] = [
            Create(place.at("taken", entry.node), data, ephemeral=True),
            Put(place.entry(entry), told, version),
        ]
        if take.pace.rate < math.inf and space.pace is not None:
            at, start = space.pace
            start = max(start, float(self._talk.clock.most(self._talk.port.now())))
            start += 1000 / take.pace.rate
            parts.append(Put(place.at("pace"), repr(start).encode(), at))
            space.pace = (at + 1, start)
        return parts

    def reads(self, space: Space, entry: Entry) -> list[Request]:
        """Return the reads to send with `parts`: the job, and the group's jobs if the next is
        unknown.
        """
        place = space.place
        requests: list[Request] = [Get(place.job(entry.group, entry.first))]
        if entry.group and not space.after(entry):
            requests.append(Children(place.at("groups", entry.group)))
        return requests

    async def _refused(
        self, space: Space, taker: Taker, entry: Entry, wrong: list[Any], until: float
    ) -> None:
        """Handle a refusal: another client was faster, or the entry was delivered before."""
        check_rights(wrong, f"take from {space.name!r}", self._talk.label)
        if len(wrong) > 2 and wrong[2] is No.VERSION:
            space.pace = None
            space.put_back(entry)
            return
        if len(wrong) > 1 and wrong[1] is No.VERSION:
            again = await self._lost.look(space, entry, until)
            if again is not None:
                found, state, version = again
                space.pace = None
                await self._attempt(space, taker, [found], [state], until, version)
                return
        space.pace = None
        space.refused()

    async def _got(
        self,
        space: Space,
        taker: Taker,
        entry: Entry,
        state: State,
        answers: list[Any],
        job: Any,
        until: float,
    ) -> None:
        """Record the delivery after our mark was created; undo it if the job isn't due yet."""
        stat = answers[1]
        if not isinstance(job, Found):  # the job was removed by hand
            await self._lost.drop(space, entry, until)
            return
        loan = self._loan(space, taker.take, entry, state.attempts + 1, stat, job)
        due = due_at(entry, stat, job, loan.note)
        if loan.taken < due:
            await self._too_early(loan, state, due, stamp(stat.created), until)
            return
        space.refusals = 0
        self._loans.add(loan)
        self._talk.port.alarm(loan.expires)

    def _loan(
        self, space: Space, take: Take, entry: Entry, attempt: int, stat: Stat, job: Found
    ) -> Loan:
        note = read_job(job.data)
        note = note._replace(group=group_at(entry.group, note.group))
        taken = stamp(stat.changed)
        accepted = note.accepted or stamp(job.stat.created)
        seq = job_number(entry.first) if entry.group else entry.birth
        return Loan(
            space=space,
            take=take,
            entry=entry,
            first=entry.first,
            note=note,
            seq=seq,
            attempt=attempt,
            fence=stat.mzxid,
            version=stat.version,
            age=max(0.0, (taken - accepted) / 1000),
            taken=taken,
            stat=job.stat,
            session=self._talk.port.session(),
            expires=self._talk.port.now() + take.ttl,
        )

    async def _too_early(
        self, loan: Loan, state: State, due: int, created: int, until: float
    ) -> None:
        """Undo the take of a job that isn't due yet: our estimate of the leader's clock was wrong.

        The job's delay and its group's pause are stored in two fields, because the delay must not
        hold back the jobs behind it."""
        space, entry = loan.space, loan.entry
        start = entry.next(entry.first, state.attempts, at=due)
        told = b"" if entry.attempts else State(rest=rest_at(entry, created)).data()
        again = Create(space.place.at(entry.folder, start), told, numbered=True)
        parts = (*loan.ours(), Delete(space.place.entry(entry)), again)
        self._loans.taker(loan.take).doubts[entry.node] = entry
        await self._talk.ask([Multi(parts)], until)
        self._loans.taker(loan.take).doubts.pop(entry.node, None)
        space.busy.pop(entry.node, None)
        space.dirty()

    # -- takes whose answer was lost ---------------------------------------------------------

    async def resolve(self, taker: Taker, until: float) -> None:
        """Find out which of the marks in ``doubts`` belong to the take. A transaction that was not
        carried out before the `Sync` is never carried out."""
        talk, take = self._talk, taker.take
        space = talk.space(take.queue)
        place = space.place
        for node, entry in list(taker.doubts.items()):
            asked: list[Request] = [Sync(place.base), Get(place.at("taken", node))]
            asked += [Get(place.entry(entry)), Get(place.job(entry.group, entry.first))]
            _, mark, written, job = await talk.ask(asked, until)
            ours = isinstance(mark, Found) and mark.data.startswith(digest(take.id).encode())
            # A mark of another session ends with that session.
            ours = ours and mark.stat.session == talk.port.session()
            if ours and isinstance(written, Found) and isinstance(job, Found):
                state = self._lost.state(written)
                loan = self._loan(space, take, entry, state.attempts, written.stat, job)
                due = due_at(entry, written.stat, job, loan.note)
                if loan.taken < due:
                    before, made = state._replace(attempts=state.attempts - 1), written.stat.created
                    await self._too_early(loan, before, due, stamp(made), until)
                else:
                    self._loans.add(loan)
                    talk.port.alarm(loan.expires)
            else:
                space.busy.pop(node, None)
                space.dirty()
            taker.doubts.pop(node, None)  # last: after an interrupt, the next call needs it

    # -- the rate ----------------------------------------------------------------------------

    async def _read_pace(self, space: Space, until: float) -> None:
        path = space.place.at("pace")
        (found,) = await self._talk.ask([Get(path)], until)
        if isinstance(found, Found):
            space.pace = (found.stat.version, float(found.data or b"0"))

    def _pause(self, space: Space, take: Take, now: int) -> float:
        """Return the milliseconds until the rate allows another delivery."""
        rate = take.pace.rate
        if rate == math.inf or space.pace is None:
            return 0.0
        return space.pace[1] - (rate_burst(rate) - 1) * 1000 / rate - now


def due_at(entry: Entry, stat: Stat, job: Found, note: JobNote) -> int:
    """Return the earliest delivery time of the entry's first job, in ms by the leader's clock.

    Stamps are cut to whole milliseconds. So a pause that counts from a stamp ends 1 ms later.
    """
    due = entry.at
    if entry.gap:
        due = max(due, stamp(stat.created) + entry.gap + 1)
    if note.delay and not note.accepted:
        due = max(due, stamp(job.stat.created) + note.delay + 1)
    return due


def rest_at(entry: Entry, created: int) -> int:
    """Return until when the group's last execution holds back an entry without data; 0: not at all.

    ``created``: the time of the entry's creation."""
    if entry.gap:
        return created + entry.gap + 1
    return entry.at if entry.first and entry.at != job_at(entry.first) else 0
