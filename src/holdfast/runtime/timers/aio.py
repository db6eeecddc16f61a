"""Timers of asyncio that use real time, even if a test has frozen the loop's clock.

freezegun replaces the clock that event loops use. While that clock stands still, no timer of the
loop fires, and a timer that is set in that time never fires. While the clock is replaced, a thread
measures the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

from ..blocking import clock_patched
from ..starting.blocking import DaemonThread


def later(
    loop: asyncio.AbstractEventLoop, seconds: float, call: Callable[..., object], *args: Any
) -> asyncio.Handle:
    """Call a function in the loop after ``seconds``; cancel the handle to prevent it."""
    if clock_patched():
        return _Alarm(loop, seconds, call, args)
    return loop.call_later(seconds, call, *args)


async def sleep(seconds: float) -> None:
    """Suspend this task for ``seconds``."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    timer = later(loop, max(0.0, seconds), _resolve, done)
    try:
        await done
    finally:
        timer.cancel()


def time_limit(seconds: float) -> AbstractAsyncContextManager[object]:
    """A context that cancels its body after ``seconds`` and then raises ``TimeoutError``."""
    return _Limit(seconds) if clock_patched() else asyncio.timeout(seconds)


async def ended(futures: Iterable[asyncio.Future[Any]], seconds: float) -> None:
    """Wait for all futures, at most ``seconds``. Unfinished futures continue."""
    if not clock_patched():
        await asyncio.wait(futures, timeout=seconds)
        return
    with contextlib.suppress(TimeoutError):
        async with time_limit(seconds):
            await asyncio.wait(futures)


def _resolve(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


class _Limit:
    """Like ``asyncio.timeout``. It is a class, because a generator can't start while its loop
    ends."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        loop, over = asyncio.get_running_loop(), self._timeout.reschedule
        self._timer = later(loop, self._seconds, over, -math.inf)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        await self._timeout.__aexit__(kind, failure, trace)


class _Alarm(asyncio.Handle):
    """A timer that a thread fires in the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        call: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        super().__init__(call, args, loop)
        self._cut = threading.Event()
        DaemonThread(target=self._wait, args=(loop, seconds), name="holdfast-alarm").start()

    def cancel(self) -> None:
        """Prevent the call."""
        super().cancel()
        self._cut.set()

    def _wait(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        if not self._cut.wait(max(0.0, min(seconds, threading.TIMEOUT_MAX))):
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        if not self.cancelled():
            self._run()
