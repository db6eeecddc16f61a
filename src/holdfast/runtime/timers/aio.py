"""Timers of asyncio that go by real time, also where a test has frozen the clock of the loop.

freezegun replaces the clock that asyncio's own loops go by: there a timer of the loop never fires
while that stands still, and one that was set meanwhile never fires afterwards. So a thread rings
where the clock is not Python's own.
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
    """Have the loop call it after so many seconds, unless the handle is cancelled before."""
    if clock_patched():
        return _Alarm(loop, seconds, call, args)
    return loop.call_later(seconds, call, *args)


async def sleep(seconds: float) -> None:
    """Let time pass for this task."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    timer = later(loop, max(0.0, seconds), _resolve, done)
    try:
        await done
    finally:
        timer.cancel()


def time_limit(seconds: float) -> AbstractAsyncContextManager[object]:
    """A context that is cancelled after so many seconds; it then raises ``TimeoutError``."""
    return _Limit(seconds) if clock_patched() else asyncio.timeout(seconds)


async def ended(futures: Iterable[asyncio.Future[Any]], seconds: float) -> None:
    """Wait until all of them are done, for so many seconds at most; none of them is cancelled."""
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
    """As ``asyncio.timeout``; no generator, as those can't begin when their loop is ending."""

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
    """A handle that a thread rings, in its loop."""

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
        """Don't call it."""
        super().cancel()
        self._cut.set()

    def _wait(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        if not self._cut.wait(max(0.0, min(seconds, threading.TIMEOUT_MAX))):
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        if not self.cancelled():
            self._run()
