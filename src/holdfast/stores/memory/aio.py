"""The memory store under asyncio. Verbs run on the loop itself: each takes only microseconds."""

from __future__ import annotations

import asyncio
import contextlib

from ...runtime.timers.aio import later
from .blocking import space


class AioMailbox:
    """A mailbox, in which one task waits for a wake-up; any thread can send it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._fence: int | None = None
        self._waiter: asyncio.Future[None] | None = None

    def poke(self, fence: int) -> None:
        """Wake the waiting task with the fence of its grant, or with 1 in queues and guards."""
        self._fence = fence
        waiter = self._waiter
        if waiter is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, or ends at this moment
                self._loop.call_soon_threadsafe(_wake, waiter)

    async def wait(self, seconds: float) -> int | None:
        """Return the number in the wake-up, or None if no wake-up came within ``seconds``."""
        self._waiter = waiter = self._loop.create_future()
        timer = later(self._loop, max(0.0, seconds), _wake, waiter)
        try:
            if self._fence is None:
                await waiter
        finally:
            timer.cancel()
            self._waiter = None
        return self._fence


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class AioPort:
    """The port for an event loop."""

    def __init__(self, name: str) -> None:
        self.space = name
        self._space = space(name)
        self.call = self._space.call
        self.queue = self._space.queue
        self.queue_names = self._space.queue_names
        self.values = self._space.values

    def mailbox(self) -> AioMailbox:
        """Return a new mailbox on the running loop."""
        return AioMailbox()

    def forked(self) -> None:
        """In the child of a fork: start with no data."""
        self._space.forked()
