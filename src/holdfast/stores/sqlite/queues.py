"""Serial queues of the embedded store, for threads and for asyncio.

Each verb is passed to the port, as in ``store.py``. ``blocking/queues/jobs.py`` defines the verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ...core.model import Gone, Held
from ...core.queue.model import (
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

T = TypeVar("T")


class Engine(Protocol):
    """The verbs as functions that can block; the last argument is the time limit in seconds."""

    def put(self, put: Put, within: float) -> list[bool]:
        """Accept jobs."""
        ...

    def take(self, take: Take, within: float) -> Taken:
        """Get jobs that are due."""
        ...

    def give_back(self, take: Take, within: float) -> int:
        """Release the deliveries of a take."""
        ...

    def settle(self, settles: Sequence[Settle], within: float) -> list[bool | Exception]:
        """Settle a batch of deliveries."""
        ...

    def extend(self, extends: Sequence[Extend], within: float) -> list[Held | Gone | Exception]:
        """Renew the leases of a batch of deliveries."""
        ...

    def survey(self, prefix: str, exact: bool, within: float) -> list[QueueRecord]:
        """The records of the queues whose name begins with ``prefix``, or equals it (``exact``)."""
        ...

    def jobs(
        self, queue: str, state: JobState | None, group: str | None, most: int, within: float
    ) -> list[JobRecord]:
        """The records of the jobs of one queue."""
        ...

    def letters(self, queue: str, within: float) -> list[str]:
        """The ids of all dead letters."""
        ...

    def revive(self, queue: str, ids: Sequence[str] | None, within: float) -> int:
        """Retry dead letters."""
        ...

    def purge(
        self,
        queue: str,
        state: JobState | None,
        ids: Sequence[str] | None,
        most: int,
        within: float,
    ) -> int:
        """Remove jobs."""
        ...


class JobPort(Protocol):
    """The runtime, threads or asyncio: it runs the verbs of queues, and waits for wake-ups."""

    @property
    def engine(self) -> Engine:
        """The engine that this port runs."""
        ...

    async def call(self, work: Callable[..., T], *args: object) -> T:
        """Run ``work`` after all earlier calls; see ``store.Port``."""
        ...

    async def sleep(self, take: str, seconds: float) -> bool:
        """Sleep until this take is woken, or ``seconds`` have passed; True: the take was woken."""
        ...

    def unlisten(self, take: str) -> None:
        """Free the resources with which a take waited."""
        ...


class SqliteQueues:
    """See :class:`holdfast.core.queue.ports.Queues`."""

    limits = QueueLimits()

    def __init__(self, port: JobPort) -> None:
        self._port = port
        self._engine = port.engine
        self._call = port.call

    async def put(self, put: Put, within: float) -> list[bool]:
        """Accept all jobs, in order; see the contract."""
        return await self._call(self._engine.put, put, within)

    async def take(self, take: Take, within: float) -> Taken:
        """Get jobs that are due; see the contract."""
        return await self._call(self._engine.take, take, within)

    async def give_back(self, take: Take, within: float) -> int:
        """Release all deliveries of this take; see the contract."""
        return await self._call(self._engine.give_back, take, within)

    async def settle(self, settles: Sequence[Settle], within: float) -> list[bool | Exception]:
        """Settle a batch in one transaction; see the contract."""
        return await self._call(self._engine.settle, settles, within)

    async def extend(
        self, extends: Sequence[Extend], within: float
    ) -> list[Held | Gone | Exception]:
        """Renew a batch of leases in one transaction; see the contract."""
        return await self._call(self._engine.extend, extends, within)

    async def wait(self, take: Take, seconds: float) -> bool:
        """Sleep until woken, or until ``seconds`` have passed; see the contract."""
        return await self._port.sleep(take.id, seconds)

    def unlisten(self, take: Take) -> None:
        """Remove the waiter of this take; see the contract."""
        self._port.unlisten(take.id)

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[QueueRecord]:
        """The records of the queues whose name begins with the prefix; see the contract."""
        return await self._call(self._engine.survey, prefix, exact, within)

    async def jobs(
        self, queue: str, state: JobState | None, group: str | None, most: int, within: float
    ) -> list[JobRecord]:
        """The records of the jobs of a queue; see the contract."""
        return await self._call(self._engine.jobs, queue, state, group, most, within)

    async def letters(self, queue: str, within: float) -> list[str]:
        """The ids of all dead letters; see the contract."""
        return await self._call(self._engine.letters, queue, within)

    async def revive(self, queue: str, ids: Sequence[str] | None, within: float) -> int:
        """Retry dead letters; see the contract."""
        return await self._call(self._engine.revive, queue, ids, within)

    async def purge(
        self,
        queue: str,
        state: JobState | None,
        ids: Sequence[str] | None,
        most: int,
        within: float,
    ) -> int:
        """Remove jobs; see the contract."""
        return await self._call(self._engine.purge, queue, state, ids, most, within)
