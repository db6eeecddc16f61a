"""Inspects queues, and repairs them for an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.queue.model import BATCH_MAX, JobRecord, JobState, QueueRecord
from ..names import decoded
from ..requests import Check, Children, Create, Delete, Found, Get, Look, Multi, Put, Request, Stat
from .idle import Idle
from .lost import free
from .names import QUEUES, Entry, entry_start, group_key, in_order
from .notes import read_state, stamp
from .seen import Row, Seen, View
from .space import Space
from .taking import rest_at
from .talk import Talk, why_not
from .ways import Part, Ways, entry_node, known_over

#: The search for the oldest job reads at most this many groups: the groups that wait longest.
_GROUPS = 200
#: Maximum number of requests that are sent before the first answer has come.
_AT_ONCE = 100


class Mending:
    """Inspects and repairs queues for an operator."""

    def __init__(self, talk: Talk, ways: Ways, idle: Idle) -> None:
        self._talk = talk
        self._ways = ways
        self._idle = idle
        self._seen = Seen(talk)

    # -- inspection --------------------------------------------------------------------------

    async def survey(self, prefix: str, exact: bool, until: float) -> list[QueueRecord]:
        """Return the counts of the jobs, by queue and state; see the contract."""
        names = [prefix]
        if not exact:
            (nodes,) = await self._talk.ask([Children(f"{self._talk.root}/{QUEUES}")], until)
            found = map(decoded, nodes if isinstance(nodes, list) else ())
            names = sorted(one for one in found if one is not None and one.startswith(prefix))
        records = [await self._survey(self._talk.space(name), until) for name in names]
        return [one for one in records if one is not None]

    async def _survey(self, space: Space, until: float) -> QueueRecord | None:
        view = await self._seen.view(space, until)
        if view is None:
            return None
        folders = ("accepted", "done", "removed")
        looks = await self._talk.ask([Look(space.place.at(one)) for one in folders], until)
        accepted, done, removed = (one.version if isinstance(one, Stat) else 0 for one in looks)
        dead = len(view.dead) + sum(one.blocked for one in view.ready)
        taken = len(view.taken)
        waiting = max(0, accepted - done - removed - dead - taken)
        groups = len({one.group for one in view.ready if one.first})
        oldest = await self._oldest(space, view, until) if waiting else 0.0
        return QueueRecord(space.name, waiting, taken, dead, groups, oldest, accepted, done)

    async def _oldest(self, space: Space, view: View, until: float) -> float:
        """Return the age in seconds of the longest waiting job.

        In a group the longest waiting job is the first, or the second if the first is delivered or
        dead.
        """
        place = space.place
        heads = view.ready[:_GROUPS]
        plain = [one for one in view.plain if one.node not in view.taken]
        if plain:  # `birth` is the order of acceptance, so the least one is the oldest
            heads.append(min(plain, key=lambda one: one.birth))
        free = [one for one in heads if one.node not in view.taken and not one.blocked]
        lone = [one for one in free if one.first]
        behind = [one for one in heads if one.group and one not in lone]
        paths = [place.job(one.group, one.first) for one in lone]
        lists = await self._talk.ask(
            [Children(place.at("groups", one.group)) for one in behind], until
        )
        for one, nodes in zip(behind, lists, strict=True):
            rest = [n for n in in_order(nodes if isinstance(nodes, list) else ()) if n != one.first]
            paths += [place.job(one.group, node) for node in rest[:1]]
        looks = await self._talk.ask([Look(path) for path in paths], until)
        times = [stamp(one.created) for one in looks if isinstance(one, Stat)]
        return max(0.0, (view.now - min(times)) / 1000) if times else 0.0

    async def jobs(
        self, space: Space, state: JobState | None, group: str | None, most: int, until: float
    ) -> list[JobRecord]:
        """Return some jobs of a queue; see the contract."""
        view = await self._seen.view(space, until)
        if view is None:
            return []
        if state is JobState.DEAD:
            view = view._replace(ready=[one for one in view.ready if one.blocked], plain=[])
        elif state is JobState.TAKEN:
            view = _on_loan(view)
        each = {None: most, JobState.DEAD: 1, JobState.TAKEN: 1}.get(state)
        rows = await self._seen.rows(space, view, group, each, until)
        return [row.record for row in rows if state is None or row.record.state is state][:most]

    # -- repair ------------------------------------------------------------------------------

    async def letters(self, space: Space, until: float) -> list[str]:
        """Return the ids of all dead letters; see the contract."""
        return [row.note.id for row in await self._dead(space, until)]

    async def _dead(self, space: Space, until: float) -> list[Row]:
        """Return all dead letters, in the order in which they were given up."""
        view = await self._seen.view(space, until)
        if view is None:
            return []
        view = view._replace(ready=[one for one in view.ready if one.blocked], plain=[])
        rows = await self._seen.rows(space, view, None, 1, until)
        rows.sort(key=lambda row: row.node)  # the server numbers dead letters in this order
        return [row for row in rows if row.record.state is JobState.DEAD]

    async def revive(self, space: Space, ids: Sequence[str] | None, until: float) -> int:
        """Make dead letters ordinary jobs again; see the contract."""
        known = None if ids is None else frozenset(ids)
        rows = await self._dead(space, until)
        left = [row for row in rows if known is None or row.note.id in known][:BATCH_MAX]
        count = 0
        while left:
            # One letter of each group at a time, so that a group keeps the order of the failures.
            apart: dict[str, Row] = {}
            for row in left:
                apart.setdefault(row.note.group or row.path, row)
            some = list(apart.values())[:_AT_ONCE]
            count += await self._revive(space, some, until)
            tried = {row.path for row in some}
            left = [row for row in left if row.path not in tried]
        await self._wake(space, count, until)
        return count

    async def _revive(self, space: Space, rows: Sequence[Row], until: float) -> int:
        """Revive letters of different groups, or ungrouped ones; return how many."""
        pending = [self._again(space, row) for row in rows]
        count = 0
        for turn in range(8):  # a group may appear and disappear meanwhile
            done = await self._all([ways[turn % len(ways)] for ways in pending], until)
            count += sum(done)
            pending = [
                ways for ways, ok in zip(pending, done, strict=True) if len(ways) > 1 and not ok
            ]
            if not pending:
                break
        return count

    def _again(self, space: Space, row: Row) -> list[list[Part]]:
        """Return transactions to try in turn, each of which revives a letter.

        If the letter has a group, there are two transactions: the first is for a group that exists,
        the second for a group that doesn't exist. A letter that blocks its group, or has no group,
        needs only one."""
        if row.entry is not None:
            return [[*free(space, row.entry), entry_node(space, row.entry, row.entry.first)]]
        place = space.place
        note = row.note._replace(attempts=0, reason="")
        gone = Delete(row.path)
        if not note.group:
            node = f"again-{row.node}-{row.stat.czxid:x}"
            entry = Create(place.at("plain", entry_start("", node)), numbered=True)
            return [[gone, Create(place.job("", node), note.data()), entry]]
        key = group_key(note.group)
        job = Create(f"{place.at('groups', key)}/0!", note.data(), numbered=True)
        first = entry_start(key, f"0!{0:010d}")
        entry = Create(place.at("ready", first), numbered=True)
        return [[gone, job], [gone, Create(place.at("groups", key)), entry, job]]

    async def purge(
        self,
        space: Space,
        state: JobState | None,
        ids: Sequence[str] | None,
        most: int,
        until: float,
    ) -> int:
        """Remove jobs; see the contract."""
        view = await self._seen.view(space, until)
        if view is None:
            return 0
        rows = [
            row
            for row in await self._seen.rows(space, view, None, None, until)
            if row.record.state is not JobState.TAKEN
            and (state is None or row.record.state is state)
            and (ids is None or row.note.id in ids)
        ][: min(most, BATCH_MAX)]
        # The first job of a group comes last: the removal of the others checks the group's entry.
        later = [row for row in rows if not row.first]
        count = sum(await self._all([self._middle(space, row) for row in later], until))
        firsts = [(row, row.entry) for row in rows if row.first and row.entry is not None]
        for start in range(0, len(firsts), _AT_ONCE):
            count += await self._purge_firsts(space, firsts[start : start + _AT_ONCE], until)
        space.dirty()
        await self._wake(space, count, until)
        return count

    def _middle(self, space: Space, row: Row) -> list[Part]:
        """Return the parts that remove a dead letter, or a job that isn't first in its group."""
        parts: list[Part] = [Delete(row.path), *known_over(space, row.note)]
        if row.entry is not None:
            parts.insert(0, Check(space.place.entry(row.entry)))
        return [*parts, Put(space.place.at("removed"), b"")]

    async def _purge_firsts(
        self, space: Space, rows: Sequence[tuple[Row, Entry]], until: float
    ) -> int:
        """Remove the first jobs of groups, or ungrouped jobs; return how many."""
        groups = [entry for _, entry in rows if entry.group]
        asked: list[Request] = []
        for entry in groups:
            asked += Children(space.place.at("groups", entry.group)), Get(space.place.entry(entry))
        found = await self._talk.ask(asked, until) if asked else []
        seen = {entry.node: found[2 * at + 1] for at, entry in enumerate(groups)}
        for at, entry in enumerate(groups):
            space.learn(entry, found[2 * at])
        now = self._talk.port.now()
        least = self._talk.clock.least(now)
        many: list[list[Part]] = []
        for row, entry in rows:
            known = entry if entry.first else entry._replace(first=row.node)
            at = _rest(known, seen.get(entry.node), least)
            many.append(
                [
                    *free(space, entry),
                    Delete(row.path),
                    *known_over(space, row.note),
                    Put(space.place.at("removed"), b""),
                    *self._ways.onward(space, known, 0, at, now),
                ]
            )
        return sum(await self._all(many, until))

    async def _all(self, many: Sequence[list[Part]], until: float) -> list[bool]:
        found: list[bool] = []
        for start in range(0, len(many), _AT_ONCE):
            some = [Multi(tuple(parts)) for parts in many[start : start + _AT_ONCE]]
            answers = await self._talk.ask(some, until)
            found += [not why_not(answer) for answer in answers]
        return found

    async def _wake(self, space: Space, count: int, until: float) -> None:
        if count:
            (waiting,) = await self._talk.ask([self._idle.look(space)], until)
            self._idle.poke(space, waiting, count)


def _on_loan(view: View) -> View:
    return view._replace(
        ready=[one for one in view.ready if one.node in view.taken],
        plain=[one for one in view.plain if one.node in view.taken],
        dead=[],
    )


def _rest(entry: Entry, found: Any, now: int) -> int:
    """Return until when the group's last execution holds back the next one; 0: not at all.

    ``found``: the answer to the read of the entry."""
    if not isinstance(found, Found):
        return 0
    created = stamp(found.stat.created)
    due = rest_at(entry, created)
    if found.data:
        state = read_state(found.data)
        due = max(state.rest, created + state.gap + 1 if state.gap else 0)
    return due if due > now else 0
