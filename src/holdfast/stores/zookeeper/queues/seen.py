"""Reads the jobs of a queue and their states, for inspection and repair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ....core.queue.model import JobRecord, JobState
from ..requests import Children, Found, Get, Put, Request, Stat
from .names import Entry, entries, group_key, in_order
from .notes import JobNote, State, read_job, read_state, stamp
from .space import Space
from .taking import due_at
from .talk import Talk, check_rights

#: Maximum number of nodes read in one round trip.
_AT_ONCE = 500


class Row(NamedTuple):
    """One job, with its node and its record.

    ``entry``: the entry of the job or of its group; None for a dead letter in the folder ``dead``.
    ``first``: True if the job is the first one of its entry.
    """

    path: str
    node: str
    note: JobNote
    stat: Stat
    entry: Entry | None
    first: bool
    record: JobRecord

    @property
    def order(self) -> tuple[int, int]:
        """The sort key for the order of acceptance."""
        return (self.note.order or self.stat.czxid, self.note.turn)


class View(NamedTuple):
    """The nodes in the folders of a queue. ``now``: the leader's time at the read, in ms."""

    now: int
    ready: list[Entry]
    plain: list[Entry]
    taken: frozenset[str]
    dead: list[str]

    def entries(self) -> list[Entry]:
        """Return the entries of groups and of ungrouped jobs."""
        return [*self.ready, *self.plain]


class Seen:
    """Reads queues."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    async def view(self, space: Space, until: float) -> View | None:
        """Read the folders of a queue; None if there is no such queue."""
        place = space.place
        folders = ("ready", "plain", "taken", "dead")
        asked: list[Request] = [Put(place.at("pulse"), b"")]
        asked += [Children(place.at(one)) for one in folders]
        pulse, *said = await self._talk.ask(asked, until)
        check_rights([pulse, *said], f"look at {space.name!r}", self._talk.label)
        if not isinstance(pulse, Stat):
            return None
        ready, plain, taken, dead = (one if isinstance(one, list) else [] for one in said)
        lists = (entries(ready), entries(plain), frozenset(taken), sorted(dead))
        return View(stamp(pulse.changed), *lists)

    async def rows(
        self, space: Space, view: View, group: str | None, most: int | None, until: float
    ) -> list[Row]:
        """Return the jobs of ``group`` (None: all jobs) in the order of acceptance.

        The result has at most ``most`` jobs of each group, at most ``most`` ungrouped jobs, and all
        dead letters.
        """
        place = space.place
        key = None if group is None else group_key(group) if group else ""
        heads = [one for one in view.entries() if key is None or one.group == key]
        heads.sort(key=lambda one: one.birth)
        plain = [one for one in heads if not one.group]
        paths: list[tuple[str, str, Entry | None]] = []
        paths += [(place.job("", one.first), one.first, one) for one in plain[:most]]
        groups = [one for one in heads if one.group]
        lists = await self._ask([Children(place.at("groups", one.group)) for one in groups], until)
        for one, nodes in zip(groups, lists, strict=True):
            some = in_order(nodes if isinstance(nodes, list) else ())
            paths += [(place.job(one.group, node), node, one) for node in some[:most]]
        paths += [(place.at("dead", node), node, None) for node in view.dead]
        found = await self._ask([Get(path) for path, _, _ in paths], until)
        told = await self._told(space, view, heads, until)
        rows: list[Row] = []
        first: set[str] = set()
        for (path, node, entry), got in zip(paths, found, strict=True):
            if not isinstance(got, Found):
                continue
            head = entry is not None and entry.node not in first
            if head and entry is not None:
                first.add(entry.node)
            note = read_job(got.data)
            record = _record(view, note, got, entry if head else None, told)
            if group is None or note.group == group:
                rows.append(Row(path, node, note, got.stat, entry, head, record))
        rows.sort(key=lambda row: row.order)
        return rows

    async def _told(
        self, space: Space, view: View, heads: Sequence[Entry], until: float
    ) -> dict[str, tuple[Stat, State]]:
        """Read these entries; return their metadata and states, by the names of their nodes."""
        said = await self._ask([Get(space.place.entry(one)) for one in heads], until)
        return {
            one.node: (got.stat, read_state(got.data))
            for one, got in zip(heads, said, strict=True)
            if isinstance(got, Found)
        }

    async def _ask(self, requests: Sequence[Request], until: float) -> list[Any]:
        answers: list[Any] = []
        for start in range(0, len(requests), _AT_ONCE):
            answers += await self._talk.ask(requests[start : start + _AT_ONCE], until)
        return answers


def _record(
    view: View,
    note: JobNote,
    found: Found,
    entry: Entry | None,
    told: dict[str, tuple[Stat, State]],
) -> JobRecord:
    """Make the record of one job.

    ``entry``: the entry whose first job this is; None if the job is not the first of an entry.
    """
    state, due, expires_in, owner, reason = JobState.WAITING, 0, 0.0, "", note.reason
    attempts = note.attempts
    if note.delay and not note.accepted:
        due = stamp(found.stat.created) + note.delay
    if entry is not None and entry.node in told:
        stat, written = told[entry.node]
        due = due_at(entry, stat, found, note)
        attempts, reason = written.attempts or entry.attempts, written.reason
        if entry.node in view.taken:
            state, owner, expires_in = JobState.TAKEN, written.owner, written.ttl / 1000
        elif written.owner:
            reason = written.expired
        if entry.blocked:
            state = JobState.DEAD
    if note.order and note.attempts:
        state = JobState.DEAD
    due_in = 0.0
    if state is JobState.WAITING and due > view.now:
        state, due_in = JobState.DELAYED, (due - view.now) / 1000
    age = max(0.0, (view.now - (note.accepted or stamp(found.stat.created))) / 1000)
    what = (note.id, note.group, state, note.payload)
    return JobRecord(*what, attempts, age, due_in, expires_in, owner, reason)
