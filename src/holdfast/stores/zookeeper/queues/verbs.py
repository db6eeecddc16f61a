"""The verbs of serial queues on ZooKeeper; the package docstring describes the nodes."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.model import Gone, Held
from ....core.queue.model import (
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
from ..port import Port
from .idle import Idle
from .loans import Loans
from .lost import Lost
from .mending import Mending
from .onward import Onward
from .putting import Putting
from .settling import Settling
from .taking import Taking
from .talk import Talk
from .ways import Ways

#: Maximum number of jobs in one queue. Each list of the queue's nodes then stays below 1 MiB, the
#: largest answer that ZooKeeper's own clients accept. So ZooKeeper's tools can list and repair the
#: queue.
DEPTH_MAX = 20_000
LIMITS = QueueLimits(depth=DEPTH_MAX)


class ZooKeeperQueues:
    """See :class:`holdfast.core.queue.ports.Queues`."""

    limits = LIMITS

    def __init__(self, port: Port, root: str) -> None:
        self._port = port
        self._root = root
        self._start()

    def _start(self) -> None:
        self._talk = talk = Talk(self._port, self._root)
        self._loans = Loans()
        self._idle = Idle(talk)
        ways = Ways(talk.clock)
        lost = Lost(talk, ways)
        self._taking = Taking(talk, self._loans, lost, self._idle)
        self._settling = Settling(talk, self._loans, ways, lost, self._idle)
        self._onward = Onward(talk, self._loans, self._settling, self._taking, self._idle)
        self._putting = Putting(talk, self._idle, self.limits.depth)
        self._mending = Mending(talk, ways, self._idle)

    def _until(self, within: float) -> float:
        return self._port.now() + within

    async def put(self, put: Put, within: float) -> list[bool]:
        """Accept all jobs; see the contract."""
        return await self._putting.put(put, self._until(within))

    async def take(self, take: Take, within: float) -> Taken:
        """Take due jobs; see the contract."""
        return await self._taking.take(take, self._until(within))

    async def give_back(self, take: Take, within: float) -> int:
        """Release the deliveries of this take; see the contract."""
        return await self._settling.give_back(take, self._taking, self._until(within))

    async def settle(self, settles: Sequence[Settle], within: float) -> list[bool | Exception]:
        """Settle a batch; see the contract."""
        return await self._settling.settle(settles, self._until(within))

    async def settle_and_take(
        self, settles: Sequence[Settle], take: Take, within: float
    ) -> tuple[list[bool | Exception], Taken]:
        """Settle, then take due jobs; see the contract."""
        return await self._onward.settle_and_take(settles, take, self._until(within))

    async def extend(
        self, extends: Sequence[Extend], within: float
    ) -> list[Held | Gone | Exception]:
        """Renew a batch of leases; see the contract."""
        return await self._settling.extend(extends, self._until(within))

    async def wait(self, take: Take, seconds: float) -> bool:
        """Sleep until a job may be due; see the contract."""
        return await self._idle.wait(take, seconds)

    def unlisten(self, take: Take) -> None:
        """Stop waiting by this take; see the contract."""
        self._idle.unlisten(take)
        self._loans.idle(take)

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[QueueRecord]:
        """Return the counts of the jobs, by queue and state; see the contract."""
        return await self._mending.survey(prefix, exact, self._until(within))

    async def jobs(
        self, queue: str, state: JobState | None, group: str | None, most: int, within: float
    ) -> list[JobRecord]:
        """Return some jobs of a queue; see the contract."""
        space = self._talk.space(queue)
        return await self._mending.jobs(space, state, group, most, self._until(within))

    async def letters(self, queue: str, within: float) -> list[str]:
        """Return the ids of all dead letters; see the contract."""
        return await self._mending.letters(self._talk.space(queue), self._until(within))

    async def revive(self, queue: str, ids: Sequence[str] | None, within: float) -> int:
        """Make dead letters ordinary jobs again; see the contract."""
        return await self._mending.revive(self._talk.space(queue), ids, self._until(within))

    async def purge(
        self,
        queue: str,
        state: JobState | None,
        ids: Sequence[str] | None,
        most: int,
        within: float,
    ) -> int:
        """Remove jobs; see the contract."""
        space = self._talk.space(queue)
        return await self._mending.purge(space, state, ids, most, self._until(within))

    def on_alarm(self) -> None:
        """Handle the alarm: a delivery may have expired."""
        self._settling.on_alarm()

    def forget(self) -> None:
        """Forget all state, when the client is closed or in the child of a fork."""
        self._start()
