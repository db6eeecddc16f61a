"""The verbs of serial queues on PostgreSQL: each sends a call and translates the reply.

The port wakes a waiter for a job like a waiter for a lock. The id of the `Take` takes the place of
the id of a claim.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...core.model import Gone, Held
from ...core.queue.model import (
    BATCH_MAX,
    Extend,
    JobRecord,
    JobState,
    Put,
    QueueLimits,
    QueueRecord,
    Settle,
    Take,
    Taken,
)
from ...errors import StoreUnavailable
from . import queue_replies as replies
from .calls import span
from .config import Settings
from .queue_calls import ALL, Marks, QueueCalls

if TYPE_CHECKING:
    from .store import Port

log = logging.getLogger("holdfast")

#: Minimum seconds between two puts of a client that also remove expired records. It is also, for
#: each queue, the time between two takes that search further back than usual. Usually a take
#: searches from the *marks*: times of the server that the take before it returned. But a job can
#: become visible late, with a time before the marks. So a take that searches further back begins
#: `BACK_US` microseconds before the marks, or at the beginning if the take before it got nothing.
SWEEP_S = 1.0
BACK_US = 10_000_000
#: Seconds after which a take searches everywhere in any case.
SWEEP_ALL_S = 30.0
#: Maximum number of queues whose marks are remembered.
_QUEUES_MAX = 1000
#: The number that a wake-up contains after the id; always the same.
_POKED = 1


class _Place:
    """State of a queue in this client: where a take searches, and which jobs it serves first."""

    __slots__ = ("all_swept", "busy", "marks", "swept", "turn")

    def __init__(self, turn: int) -> None:
        self.marks = Marks()
        self.swept = self.all_swept = -math.inf
        self.busy = False
        self.turn = turn

    def since(self, now: float) -> Marks:
        """Return the marks for a take that begins now."""
        if now - self.all_swept >= (SWEEP_ALL_S if self.busy else SWEEP_S):
            self.swept = self.all_swept = now
            return Marks()
        if now - self.swept >= SWEEP_S:
            self.swept = now
            return Marks(*(max(0, mark - BACK_US) for mark in self.marks))
        return self.marks

    def found(self, taken: Taken, marks: Marks) -> None:
        """Record the result of a take, and the marks for the next take."""
        self.marks = marks
        self.busy = bool(taken.deliveries)
        if taken.deliveries:
            self.turn = 0 if taken.deliveries[-1].group == "" else 1


class PostgresQueues:
    """See :class:`holdfast.core.queue.ports.Queues`."""

    limits = QueueLimits()

    def __init__(self, port: Port, settings: Settings) -> None:
        self._port = port
        self._label = settings.label
        self._calls = QueueCalls(settings)
        self._turns = itertools.cycle((0, 1))
        self.forget()

    def forget(self) -> None:
        """Begin without state, at the start and in the child of a fork."""
        self._places: dict[str, _Place] = {}
        #: Ids of the takes that the server lists as waiters.
        self._asleep: set[str] = set()
        #: Ids of takes that no longer wait, but that the server may still list.
        self._stale: deque[str] = deque(maxlen=100)
        self._tidied = -math.inf

    async def put(self, put: Put, within: float) -> list[bool]:
        """See the contract."""
        now = self._port.now()
        tidy = now - self._tidied >= SWEEP_S
        if tidy:
            self._tidied = now
        rows = await self._port.ask(self._calls.put(put, tidy), within)
        return replies.accepted(rows, len(put.jobs), self._label)

    async def take(self, take: Take, within: float) -> Taken:
        """See the contract."""
        address = self._port.seat(take.id) if take.wait else ""
        taken = await self._take(take, address, within)
        if taken.deliveries or not take.wait or address or self._port.deaf:
            return taken
        try:
            await self._port.listen(within / 2)
        except StoreUnavailable as wrong:
            log.debug("%s: no waiter can be woken now: %s", self._label, wrong)
        address = self._port.seat(take.id)
        return await self._take(take, address, within / 2) if address else taken

    async def _take(self, take: Take, address: str, within: float) -> Taken:
        place = self._place(take.queue)
        marks = place.since(self._port.now())
        if address:
            self._asleep.add(take.id)
        elif not take.wait and take.id in self._asleep:
            self._asleep.discard(take.id)
            self._stale.append(take.id)
        stale = self._no_more()
        call = self._calls.take(take, address, place.turn, *marks, stale)
        rows = await self._port.ask(call, within)
        taken, marks = replies.taken(rows, self._label)
        place.found(taken, marks)
        if taken.deliveries:
            self._asleep.discard(take.id)
        return taken

    def _place(self, queue: str) -> _Place:
        place = self._places.get(queue)
        if place is None:
            if len(self._places) >= _QUEUES_MAX:
                self._places.clear()
            place = self._places[queue] = _Place(next(self._turns))
        return place

    def _no_more(self) -> list[str]:
        """Return the takes that no longer wait, for the next request to the server.

        If that request fails, the server assumes for a short time that they wait.
        """
        stale = []
        while self._stale:
            with contextlib.suppress(IndexError):  # another thread has taken it
                stale.append(self._stale.popleft())
        return stale

    async def give_back(self, take: Take, within: float) -> int:
        """See the contract."""
        rows = await self._port.ask(self._calls.give_back(take), within)
        return replies.number(rows, self._label)

    async def settle(self, settles: Sequence[Settle], within: float) -> list[bool | Exception]:
        """See the contract."""
        order = sorted(
            range(len(settles)),
            key=lambda at: (settles[at].queue.encode(), settles[at].group.encode()),
        )
        rows = await self._port.ask(self._calls.settle([settles[at] for at in order]), within)
        ours = replies.yes_or_no(rows, len(settles), self._label)
        found = dict(zip(order, ours, strict=True))
        return [found[at] for at in range(len(settles))]

    async def extend(
        self, extends: Sequence[Extend], within: float
    ) -> list[Held | Gone | Exception]:
        """See the contract."""
        rows = await self._port.ask(self._calls.extend(extends), within)
        return replies.extended(rows, extends, self._label)

    async def wait(self, take: Take, seconds: float) -> bool:
        """See the contract."""
        poked = await self._port.wait(take.id, _POKED, seconds) is not None
        if poked:
            # This wake-up must not end the next wait, too.
            self._asleep.discard(take.id)
            self._port.unlisten(take.id)
        return poked

    def unlisten(self, take: Take) -> None:
        """See the contract."""
        self._port.unlisten(take.id)
        if take.id in self._asleep:
            self._asleep.discard(take.id)
            self._stale.append(take.id)

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[QueueRecord]:
        """See the contract."""
        call = self._calls.survey(*span(prefix, exact))
        return replies.surveyed(await self._port.ask(call, within))

    async def jobs(
        self, queue: str, state: JobState | None, group: str | None, most: int, within: float
    ) -> list[JobRecord]:
        """See the contract."""
        call = self._calls.jobs(queue, state, group, most)
        return replies.listed(await self._port.ask(call, within))

    async def letters(self, queue: str, within: float) -> list[str]:
        """Return the ids of all dead letters; see the contract."""
        call = self._calls.letters(queue, JobState.DEAD, None, ALL)
        return replies.ids(await self._port.ask(call, within))

    async def revive(self, queue: str, ids: Sequence[str] | None, within: float) -> int:
        """See the contract."""
        rows = await self._port.ask(self._calls.revive(queue, ids), within)
        return replies.number(rows, self._label)

    async def purge(
        self,
        queue: str,
        state: JobState | None,
        ids: Sequence[str] | None,
        most: int,
        within: float,
    ) -> int:
        """See the contract."""
        call = self._calls.purge(queue, state, ids, min(most, BATCH_MAX))
        rows = await self._port.ask(call, within)
        return replies.number(rows, self._label)
