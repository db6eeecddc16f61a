"""Inspection of queues on Redis, in small parts, so that no call blocks the server for long."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator
from typing import Any

from ...core.queue.model import BATCH_MAX, JobRecord, JobState, QueueRecord
from . import queue_replies as replies
from .port import Port
from .queue_calls import QueueRequests
from .queue_keys import Layout, queue_in, queue_pattern

#: Maximum number of jobs that are read in one call.
_ROWS = 100
#: A job as a tuple: the job that was accepted last is the smallest tuple. Of jobs that were
#: accepted at the same time, the last one has the number farthest from 0: jobs with a delay have
#: the numbers -1, -2 and so on.
_Last = tuple[float, int, int, bytes]
#: Maximum number of dead letters that are read in one call.
_PART = 500


class Looking:
    """Reads queues and jobs for inspection and repair."""

    def __init__(self, port: Port, prefix: str, layout: Layout, requests: QueueRequests) -> None:
        self._port = port
        self._prefix = prefix
        self._shards = range(layout.shards)
        self._requests = requests

    async def _look(self, queue: str, shard: int, within: float, *args: bytes) -> list[Any]:
        reply = await self._port.ask(self._requests.look(queue, shard, *args), within)
        return replies.listed(reply, self._port.label)

    # -- queues ------------------------------------------------------------------------------

    async def survey(self, prefix: str, within: float, exact: bool) -> list[QueueRecord]:
        """The queues whose name begins with ``prefix``; with ``exact``, the queue of this name."""
        names = [prefix]
        if not exact:
            keys = await self._port.scan(queue_pattern(self._prefix, prefix.encode()), within)
            found = {queue_in(self._prefix, key) for key in keys}
            names = sorted(name for name in found if name is not None and name.startswith(prefix))
        records = [await self._record(name, within) for name in names]
        return [one for one in records if one is not None]

    async def _record(self, name: str, within: float) -> QueueRecord | None:
        calls = [self._requests.look(name, shard, b"sizes") for shard in self._shards]
        said = await self._port.ask_many(calls, within)
        parts = [replies.listed(reply, self._port.label) for reply in said]
        jobs, taken, dead, groups, accepted, done = map(sum, zip(*parts, strict=True))
        if not (jobs or accepted):
            return None
        waiting = max(0, jobs - taken - dead)
        oldest = 0.0
        if waiting:
            ages = [await self._oldest(name, shard, within) for shard in self._shards]
            oldest = max(ages)
        return QueueRecord(name, waiting, taken, dead, groups, oldest, accepted, done)

    async def _oldest(self, name: str, shard: int, within: float) -> float:
        oldest, groups, others = 0.0, b"0", b"0"
        while groups != b"-1" or others != b"-1":
            part = await self._look(name, shard, within, b"oldest", groups, others)
            groups, others, age = part
            oldest = max(oldest, age / 1e6)
        return oldest

    # -- jobs --------------------------------------------------------------------------------

    async def jobs(
        self, queue: str, state: JobState | None, group: str | None, most: int, within: float
    ) -> list[JobRecord]:
        """At most ``most`` jobs in the order of acceptance."""
        firsts: list[_Last] = []
        async for shard, (field, _, at, _) in self._seen(queue, state, within):
            if group is None or replies.split(field)[1] == group:
                _among(firsts, most, shard, field, at)
        wanted: dict[int, list[bytes]] = {shard: [] for shard in self._shards}
        for _, _, shard, field in firsts:
            wanted[shard].append(field)
        found = [
            one
            for shard, fields in wanted.items()
            for one in await self._rows(queue, shard, fields, within)
        ]
        found.sort(key=lambda one: one[0])
        return [one for _, one in found if state is None or one.state is state]

    async def _rows(
        self, queue: str, shard: int, fields: list[bytes], within: float
    ) -> list[tuple[float, JobRecord]]:
        found = []
        fields.sort(key=replies.split)
        for start in range(0, len(fields), _ROWS):
            part = await self._look(queue, shard, within, b"rows", *fields[start : start + _ROWS])
            found += replies.shown(part, self._port.label)
        return found

    async def _seen(
        self, queue: str, state: JobState | None, within: float
    ) -> AsyncIterator[tuple[int, tuple[bytes, str, float, str]]]:
        """Yield each job in this state once, in no order: its shard; its field, state, time, id."""
        for shard in self._shards:
            known: set[bytes] = set()
            cursor = b"0"
            while True:
                part = await self._look(queue, shard, within, b"scan", cursor)
                cursor = part[0]
                for one in replies.seen(part[1:], self._port.label):
                    if (state is None or one[1] == state) and one[0] not in known:
                        known.add(one[0])
                        yield shard, one
                if cursor == b"0":
                    break

    async def oldest(
        self,
        queue: str,
        state: JobState | None,
        ids: frozenset[str] | None,
        most: int,
        within: float,
    ) -> dict[int, list[bytes]]:
        """The fields, by shard, of the jobs that were accepted first: at most ``most`` jobs that
        have this state and one of these ids, and aren't taken. None: any state, any id."""
        firsts: list[_Last] = []
        async for shard, (field, stands, at, id_) in self._seen(queue, state, within):
            if stands != JobState.TAKEN and (ids is None or id_ in ids):
                _among(firsts, most, shard, field, at)
        found: dict[int, list[bytes]] = {}
        for _, _, shard, field in sorted(firsts, reverse=True):
            found.setdefault(shard, []).append(field)
        return found

    async def ids_of_letters(self, queue: str, within: float) -> list[str]:
        """The ids of all dead letters, per group in the order in which they were given up."""
        # Jobs of two shards can have the same field: each shard numbers its jobs by itself.
        found = {(at, field): id_ async for at, field, id_ in self._dead(queue, within)}
        return [found[one] for one in sorted(found, key=lambda one: replies.split(one[1]))]

    async def _dead(self, queue: str, within: float) -> AsyncIterator[tuple[int, bytes, str]]:
        """All dead letters: shard, field, id."""
        for shard in self._shards:
            start = 0
            while True:
                ends = b"%d" % start, b"%d" % (start + _PART - 1)
                part = await self._look(queue, shard, within, b"dead", *ends)
                for field, raw in zip(part[::2], part[1::2], strict=True):
                    yield shard, field, raw.decode()
                start += _PART
                if len(part) < 2 * _PART:
                    break

    async def letters(
        self, queue: str, ids: frozenset[str] | None, within: float
    ) -> dict[int, list[bytes]]:
        """The fields, by shard, of at most 1,000 dead letters (any, or with these ids). The letters
        of each group are in order."""
        found: dict[int, list[bytes]] = {}
        left = BATCH_MAX if ids is None else min(BATCH_MAX, len(ids))
        async for shard, field, id_ in self._dead(queue, within):
            if ids is None or id_ in ids:
                found.setdefault(shard, []).append(field)
                left -= 1
                if not left:
                    break
        for fields in found.values():
            fields.sort(key=replies.split)
        return found


def _among(firsts: list[_Last], most: int, shard: int, field: bytes, at: float) -> None:
    """Add a job to ``firsts`` if it is one of the ``most`` jobs that were accepted first."""
    one = (-at, -abs(replies.split(field)[0]), shard, field)
    if len(firsts) < most:
        heapq.heappush(firsts, one)
    else:
        heapq.heappushpop(firsts, one)
