"""Serial queues under asyncio."""

from __future__ import annotations

from ....runtime.timers.aio import sleep
from ....url import StoreURL
from ..blocking.queues.engine import JobEngine
from .loop import Loop

#: Seconds after which a take that can't be woken asks again.
JOBS_POLL_S = 0.05


class LoopJobs(Loop[JobEngine]):
    """See :class:`holdfast.stores.sqlite.queues.JobPort`.

    It has a separate worker, because a put waits for the disk and must not delay renewals of locks.
    """

    def __init__(self, url: StoreURL) -> None:
        super().__init__(lambda mail: JobEngine(url, mail))

    async def sleep(self, take: str, seconds: float) -> bool:
        """Sleep until woken, or until the time-out has expired."""
        ear = self.engine.ear(take)
        if ear is None:
            self._here()
            await sleep(min(seconds, JOBS_POLL_S))
            return False
        return await self._sleep(ear, seconds) is not None

    def unlisten(self, take: str) -> None:
        """Free the resources with which the take waited."""
        self.engine.unlisten(take)
