"""The engine for threads: the work is done on the caller's thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ....core.model import Claim, Granted, Waiting
from ....runtime.blocking import boottime
from ....url import StoreURL
from .engine import Engine
from .wake import Boxes

if TYPE_CHECKING:
    from ..guards import ValuePort
    from ..queues import JobPort
    from .queues.port import ThreadJobs
    from .values.port import ThreadValues

T = TypeVar("T")
#: Seconds between two polls of a waiter that can't be woken: first value, and maximum.
POLL_FIRST_S = 0.001
POLL_LAST_S = 0.050
CLOSE_S = 2.0


class ThreadPort:
    """See :class:`holdfast.stores.sqlite.store.Port`."""

    def __init__(self, url: StoreURL) -> None:
        self.boxes = Boxes()
        self.engine = Engine(url, self.boxes)
        self._url = url
        self._jobs: ThreadJobs | None = None
        self._values: ThreadValues | None = None

    def jobs(self) -> JobPort:
        """The port of the serial queues, made at its first use."""
        if self._jobs is None:
            from .queues.port import ThreadJobs  # because few programs have queues

            self._jobs = ThreadJobs(self._url)
        return self._jobs

    def values(self) -> ValuePort:
        """The port of the refresh guards, made at its first use."""
        if self._values is None:
            from .values.port import ThreadValues  # because few programs have guards

            self._values = ThreadValues(self._url)
        return self._values

    async def call(self, work: Callable[..., T], *args: object) -> T:
        """Run ``work`` immediately."""
        return work(*args)

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until woken, until a watched session has ended, or for ``seconds``."""
        if self.boxes.known(claim.id) is not None:
            return self.boxes.wait(claim.id, self.engine.alarm, waiting.watch, seconds)
        end = boottime() + seconds
        nap = POLL_FIRST_S
        while (left := end - boottime()) > 0:
            time.sleep(min(nap, left))
            nap = min(nap * 1.5, POLL_LAST_S)
            fence = self.engine.peek(claim, waiting, left)
            if fence is not None:
                return Granted(fence) if fence else None
        return None

    def unlisten(self, claim: Claim) -> None:
        """Free the claim's socket for another claim."""
        self.boxes.release(claim.id)

    async def close(self) -> None:
        """Close queues, values and locks."""
        try:
            for beside in (self._jobs, self._values):
                if beside is not None:
                    beside.close()
        finally:
            self.engine.close(CLOSE_S)

    def forked(self) -> None:
        """Start again in the child of a fork."""
        self.engine.forked()
        if self._jobs is not None:
            self._jobs.engine.forked()
        if self._values is not None:
            self._values.forked()
