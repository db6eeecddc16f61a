"""The verbs of serial queues on MySQL and MariaDB: their statements, and what the replies mean.

There are no wake-ups: a waiter polls, with growing pauses. A *look* is one poll.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence

from ...core.model import Gone, Held, Loss
from ...core.queue.model import (
    BATCH_MAX,
    Delivered,
    Extend,
    JobRecord,
    JobState,
    Put,
    QueueLimits,
    QueueRecord,
    Settle,
    Take,
    Taken,
    TooLarge,
)
from ...errors import HoldfastError, StoreUnavailable
from . import queue_looks as looks
from . import replies
from .port import LOOK_FIRST_S, LOOK_MORE, Port, look_until
from .queue_calls import QueueCalls, by_track
from .queue_looks import Place, QueueLooks
from .replies import Rows

#: The longest pause of a waiter between two looks, in seconds.
LOOK_LAST_S = 0.2
#: Maximum seconds by which the pause of a waiter delays its next take after a take without a job.
HASTE_S = 0.1
#: Maximum length of a statement, and the length above which the server's limit is read first, in
#: bytes. A server closes the connection on a statement above its limit, and the error that it sends
#: can be lost.
STATEMENT_MAX, STATEMENT_ASKED = 15 * 1024 * 1024, 512 * 1024
#: Seconds after which a pause that no take has continued is forgotten.
PAUSE_S = 1.0
#: Number of jobs that a client puts or takes between two sweeps for records no longer needed.
SWEEP_EVERY = 128
SWEEP_MAX = 2000
#: Maximum number of queues whose pauses and turns are remembered.
QUEUES_MAX = 1000
_MICRO = 1e-6


class MysqlQueues:
    """See :class:`holdfast.core.queue.ports.Queues`."""

    limits = QueueLimits()

    def __init__(self, port: Port, prefix: str) -> None:
        self._port = port
        self._calls = QueueCalls(prefix)
        self._looks = QueueLooks(prefix)
        self.forget()

    def forget(self) -> None:
        """Begin without state, at the start and in the child of a fork."""
        #: For each waiting take: its next pause.
        self._pauses: dict[str, float] = {}
        #: For each queue: time and pause of each take that stopped waiting. The next take that
        #: waits continues with one of these pauses. So a worker whose takes find no job polls less
        #: and less often.
        self._left: dict[str, list[tuple[float, float]]] = {}
        #: For each queue: the jobs that the next take serves first, grouped (0) or ungrouped (1).
        self._turns: dict[str, int] = {}
        self._since = 0
        #: The longest statement that the server accepts; 0: not queried yet.
        self._room = 0

    async def put(self, put: Put, within: float) -> list[bool]:
        """Accept jobs, all or none; see the contract."""
        until = self._port.now() + within
        await self._sweep(put.queue, until)
        self._since += len(put.jobs)
        sql = self._calls.put(put)
        if len(sql) > STATEMENT_ASKED:
            await self._fits(len(sql), len(put.jobs), until)
        rows = await self._port.call(sql, until - self._port.now())
        if replies.said(rows) is None:
            raise StoreUnavailable("a copy of an earlier put came late, and changes nothing")
        return _flags(rows)

    async def _fits(self, length: int, jobs: int, until: float) -> None:
        """Refuse a statement that is too long for the server."""
        if not self._room:
            rows = await self._port.call("SELECT @@max_allowed_packet", until - self._port.now())
            self._room = min(STATEMENT_MAX, int(replies.said(rows)) - 1)
        if length > self._room:
            raise TooLarge(
                f"{jobs} jobs of {length // 2} bytes are too much for one request to the server, "
                f"which accepts {self._room // 2} (max_allowed_packet): put fewer at once"
            )

    async def take(self, take: Take, within: float) -> Taken:
        """Take at most ``take.most`` due jobs; see the contract."""
        until = self._port.now() + within
        await self._sweep(take.queue, until)
        lane = self._turns.get(take.queue)
        sql = self._calls.take(take, int(take.id[-1], 16) % 2 if lane is None else lane)
        taken = _taken(replies.said(await self._port.call(sql, until - self._port.now())))
        if taken.deliveries:
            if len(self._turns) > QUEUES_MAX:
                self._turns.clear()
            self._turns[take.queue] = 1 if taken.deliveries[-1].group else 0
            self._since += len(taken.deliveries)
            self._pauses.pop(take.id, None)
        if taken.deliveries or not take.wait:
            return taken
        pause = self._pauses.get(take.id) or self._left_pause(take.queue)
        self._pauses[take.id] = _longer(pause)
        return Taken((), max(taken.retry_in, min(pause, HASTE_S)))

    async def _sweep(self, queue: str, until: float) -> None:
        """Sweep if a sweep is due. Remove at most twice as many records as this client made."""
        if self._since >= SWEEP_EVERY:
            rows = min(SWEEP_MAX, 2 * self._since)
            self._since = 0
            with contextlib.suppress(HoldfastError):  # the next sweep can do it
                await self._port.call(self._calls.sweep(queue, rows), until - self._port.now())

    async def give_back(self, take: Take, within: float) -> int:
        """Release all deliveries of a take; see the contract."""
        return int(replies.said(await self._port.call(self._calls.give_back(take), within)))

    async def settle(self, settles: Sequence[Settle], within: float) -> list[bool | Exception]:
        """Settle a batch, one statement for each queue; see the contract."""
        until = self._port.now() + within
        found: dict[int, bool | Exception] = {}
        for queue, places in _by_queue(settles):
            sql = self._calls.settle(queue, [settles[at] for at in places])
            try:
                rows = await self._port.call(sql, until - self._port.now())
                found.update(zip(places, _flags(rows), strict=True))
            except HoldfastError as wrong:
                if len(places) == len(settles):
                    raise
                found.update((at, wrong) for at in places)
        return [found[at] for at in range(len(settles))]

    async def extend(
        self, extends: Sequence[Extend], within: float
    ) -> list[Held | Gone | Exception]:
        """Renew a batch of leases, one statement for each queue; see the contract."""
        until = self._port.now() + within
        found: dict[int, Held | Gone | Exception] = {}
        for queue, places in _by_queue(extends):
            sql = self._calls.extend(queue, [extends[at] for at in places])
            try:
                rows = await self._port.call(sql, until - self._port.now())
            except HoldfastError as wrong:
                if len(places) == len(extends):
                    raise
                found.update((at, wrong) for at in places)
                continue
            for at, fence in zip(places, replies.numbers(rows) or [], strict=True):
                found[at] = Held(fence, extends[at].ttl) if fence else Gone(Loss.EXPIRED)
        return [found[at] for at in range(len(extends))]

    async def wait(self, take: Take, seconds: float) -> bool:
        """Look repeatedly until a job is due or the time is up; see the contract."""
        looks = self._port, self._looks.due(take.queue), self._pauses, take.id
        return await look_until(*looks, bool, seconds, LOOK_LAST_S) is not None

    def unlisten(self, take: Take) -> None:
        """Forget a take that no longer waits, and keep its pause; see the contract."""
        pause = self._pauses.pop(take.id, None)
        if pause is not None:
            if len(self._left) > QUEUES_MAX:
                self._left.clear()
            self._left.setdefault(take.queue, []).append((self._port.now(), pause))

    def _left_pause(self, queue: str) -> float:
        """Return the first pause of a take that begins to wait."""
        now = self._port.now()
        left = self._left.pop(queue, [])
        fresh = [one for one in left if one[0] > now - PAUSE_S]
        if not fresh:
            return LOOK_FIRST_S
        _, pause = fresh.pop()
        if fresh:
            self._left[queue] = fresh
        return pause

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[QueueRecord]:
        """Return the queues whose name begins with, or equals, ``prefix``; see the contract."""
        rows = await self._port.call(self._looks.survey(prefix, exact), within)
        return looks.surveyed(rows)

    async def jobs(
        self, queue: str, state: JobState | None, group: str | None, most: int, within: float
    ) -> list[JobRecord]:
        """Return jobs in the order of acceptance; see the contract."""
        rows = await self._port.call(self._looks.jobs(queue, state, group, most), within)
        return looks.listed(rows)

    async def letters(self, queue: str, within: float) -> list[str]:
        """Return the ids of all dead letters; see the contract."""
        rows = await self._port.call(self._looks.letters(queue), within)
        return [bytes(one).decode("utf-8", "replace") for (one,) in rows]

    async def revive(self, queue: str, ids: Sequence[str] | None, within: float) -> int:
        """Try dead letters again; see the contract. One statement finds them, one revives them."""
        return await self._mend(self._calls.revive, queue, JobState.DEAD, ids, BATCH_MAX, within)

    async def purge(
        self,
        queue: str,
        state: JobState | None,
        ids: Sequence[str] | None,
        most: int,
        within: float,
    ) -> int:
        """Remove jobs; see the contract. One statement finds them, one removes them."""
        most = min(most, BATCH_MAX)
        return await self._mend(self._calls.purge, queue, state, ids, most, within)

    async def _mend(
        self,
        call: Callable[[str, Sequence[Place]], str],
        queue: str,
        state: JobState | None,
        ids: Sequence[str] | None,
        most: int,
        within: float,
    ) -> int:
        until = self._port.now() + within
        if ids is not None and not ids:
            return 0
        sql = self._looks.places(queue, state, ids, most)
        found = looks.placed(await self._port.call(sql, within))
        if not found:
            return 0
        rows = await self._port.call(call(queue, found), until - self._port.now())
        return int(replies.said(rows))


def _longer(pause: float) -> float:
    return min(pause * LOOK_MORE, LOOK_LAST_S)


def _by_queue(asked: Sequence[Settle] | Sequence[Extend]) -> list[tuple[str, list[int]]]:
    """Return the indexes of the requests by queue, for each queue in the order of its groups."""
    groups = itertools.groupby(by_track(asked), lambda at: asked[at].queue)
    return [(queue, list(places)) for queue, places in groups]


def _flags(rows: Rows) -> list[bool]:
    """Return a reply of zeros and ones as booleans."""
    return [one == ord("1") for one in _raw(replies.said(rows))]


def _raw(found: object) -> bytes:
    return found.encode() if isinstance(found, str) else bytes(found)  # type: ignore[call-overload]


def _taken(answer: object) -> Taken:
    """Return the reply to a take.

    The reply begins with the time until another take is useful. For each delivery, seven numbers
    follow, each with a blank after it, and then three texts. The last three numbers are the lengths
    of the texts.
    """
    raw = _raw(answer)
    wait, _, raw = raw.partition(b" ")
    found = []
    at = 0
    while at < len(raw):
        numbers = []
        for _ in range(7):
            end = raw.index(b" ", at)
            numbers.append(int(raw[at:end]))
            at = end + 1
        seq, attempt, fence, age, *sizes = numbers
        parts = []
        for size in sizes:
            parts.append(raw[at : at + size])
            at += size
        known, group, payload = parts
        names = known.decode("utf-8", "replace"), group.decode("utf-8", "replace")
        found.append(Delivered(seq, *names, payload, attempt, fence, max(0, age) * _MICRO))
    return Taken(tuple(found), int(wait) * _MICRO)
