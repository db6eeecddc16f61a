"""The engine of queues for threads: the work is done on the caller's thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from .....url import StoreURL
from ..wake import Boxes, nothing
from .engine import JobEngine

T = TypeVar("T")
#: Seconds after which a take that can't be woken asks again.
JOBS_POLL_S = 0.05
CLOSE_S = 2.0


class ThreadJobs:
    """See :class:`holdfast.stores.sqlite.queues.JobPort`."""

    def __init__(self, url: StoreURL) -> None:
        self._boxes = Boxes()
        self.engine = JobEngine(url, self._boxes)

    async def call(self, work: Callable[..., T], *args: object) -> T:
        """Run ``work`` immediately."""
        return work(*args)

    async def sleep(self, take: str, seconds: float) -> bool:
        """Sleep until woken, or until the time-out has expired."""
        ear = self.engine.ear(take)
        if ear is None:
            time.sleep(min(seconds, JOBS_POLL_S))
            return False
        return self._boxes.wait(ear, nothing, (), seconds) is not None

    def unlisten(self, take: str) -> None:
        """Free the take's socket for another take."""
        self.engine.unlisten(take)

    def close(self) -> None:
        """Close the engine."""
        self.engine.close(CLOSE_S)
