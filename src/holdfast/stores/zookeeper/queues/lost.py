"""Handles entries that were delivered before, and entries without a known first job.

An entry was delivered before if its worker died, or if its job was released or will be retried.
Each change of an entry also creates the entry's mark and deletes this mark again, in one
transaction. So the change succeeds only if the entry isn't delivered at that moment.
"""

from __future__ import annotations

from typing import Any

from ..requests import Children, Create, Delete, Found, Get, Look, Multi, No, Request, Stat
from .names import Entry, job_at
from .notes import State, read_job, read_state, stamp
from .space import Space
from .talk import Talk, why_not
from .ways import Part, Ways, dead_letter, entry_node

#: Maximum number of attempts, if other clients change the nodes meanwhile.
_ROUNDS = 4


def free(space: Space, entry: Entry, version: int = -1) -> list[Part]:
    """Return the parts that check that an entry isn't delivered, and that remove the entry."""
    mark = space.place.at("taken", entry.node)
    alone: list[Part] = [Create(mark, ephemeral=True), Delete(mark)]
    return [*alone, Delete(space.place.entry(entry), version)]


class Lost:
    """Examines entries that were delivered before."""

    def __init__(self, talk: Talk, ways: Ways) -> None:
        self._talk = talk
        self._ways = ways

    def state(self, found: Found) -> State:
        """Parse the data of an entry."""
        return read_state(found.data)

    async def look(
        self, space: Space, entry: Entry, until: float
    ) -> tuple[Entry, State, int] | None:
        """Examine an entry with data and no mark. If the entry may be taken, return the entry, its
        state and its version, else None.

        If the entry was delivered to a worker, that attempt counts, and may have been the last
        allowed attempt. A `min_interval` that counts from the settle then counts from now, because
        the time of the worker's death is unknown.
        """
        path, job = space.place.entry(entry), space.place.job(entry.group, entry.first)
        found, held = await self._talk.ask([Get(path), Get(job)], until)
        if not isinstance(found, Found) or not isinstance(held, Found):
            space.dirty()
            return None
        state, version = read_state(found.data), found.stat.version
        if not state.owner:
            return entry, state, version
        now = self._talk.port.now()
        gap, at = 0, 0
        if entry.group and state.gap and state.from_take:
            at = stamp(found.stat.changed) + state.gap + 1
        elif entry.group:
            gap = state.gap
        if state.attempts >= state.most:
            parts = self._last(space, entry, state, held, gap, at)
        elif gap or at > self._talk.clock.least(now):
            due, told = (
                self._ways.hint(gap, at, now),
                State(reason=state.expired, gap=gap, rest=at).data(),
            )
            parts = [entry_node(space, entry, entry.first, state.attempts, gap, due, told)]
        else:
            return entry, State(state.attempts, reason=state.expired), version
        await self._talk.ask([Multi((*free(space, entry, version), *parts))], until)
        space.dirty()
        return None

    def _last(
        self, space: Space, entry: Entry, state: State, held: Found, gap: int, at: int
    ) -> list[Part]:
        """Return the parts that make a job a dead letter, after its last attempt was lost."""
        if state.blocks and entry.group:
            start = entry.next(entry.first, state.attempts, blocked=True)
            told = State(reason=state.expired).data()
            return [Create(space.place.at(entry.folder, start), told, numbered=True)]
        note = read_job(held.data)
        letter = dead_letter(space, note, state.attempts, state.expired, held.stat)
        job = Delete(space.place.job(entry.group, entry.first))
        return [job, letter, *self._ways.onward(space, entry, gap, at, self._talk.port.now())]

    async def with_first(self, space: Space, entry: Entry, until: float) -> Entry | None:
        """Find the first job for an entry without a job, and return the entry with this job.

        Return None if no job is due. A group without jobs is removed once its entry's pause has
        ended.
        """
        place = space.place
        group = place.at("groups", entry.group)
        for _ in range(_ROUNDS):
            asked: list[Request] = [Children(group), Look(place.entry(entry))]
            nodes, stat = await self._talk.ask(asked, until)
            if not isinstance(stat, Stat):
                return None
            space.learn(entry, nodes)
            now = self._talk.clock.least(self._talk.port.now())
            due = max(entry.at, stamp(stat.created) + entry.gap + 1 if entry.gap else 0)
            first = space.first(entry)
            if first:
                due = max(due, job_at(first))
            if due > now:
                space.lanes[0].put_off(entry, due)
                return None
            if first:
                return entry._replace(first=first)
            (said,) = await self._talk.ask([Multi((*free(space, entry), Delete(group)))], until)
            if No.CHILDREN not in why_not(said):
                return None
        return None

    async def drop(self, space: Space, entry: Entry, until: float) -> None:
        """Delete an entry whose job was removed by hand; its group gets a new entry.

        The mark of the entry must be ours."""
        mark = space.place.at("taken", entry.node)
        parts: list[Any] = [Delete(mark), Delete(space.place.entry(entry))]
        if entry.group:
            parts.append(entry_node(space, entry, ""))
        await self._talk.ask([Multi(tuple(parts))], until)
        space.busy.pop(entry.node, None)
        space.dirty()
