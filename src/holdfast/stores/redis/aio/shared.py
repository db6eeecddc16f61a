"""Work that many tasks wait for, each with its own time limit: connecting, subscribing.

The work runs in a separate task. So a caller that is cancelled or runs out of time doesn't end the
work for the other callers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar
from weakref import WeakMethod

from ....errors import HoldfastError, StoreUnavailable
from ....runtime.timers.aio import later

A = TypeVar("A")
T = TypeVar("T")


class Shared(Generic[T]):
    """Runs the work at most once at a time. After its end, the next `wait` starts it again."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[T]] = []
        #: The failure of the last run.
        self._last = ""

    async def wait(self, within: float, late: str) -> T:
        """Return the result of the work. If it takes longer than ``within`` seconds, raise
        ``StoreUnavailable`` with a text that begins with ``late``."""
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done():  # done: cancelled before it began
            self._task = loop.create_task(self._run())
        answer: asyncio.Future[T] = loop.create_future()
        self._waiting.append(answer)
        text = f"{late} within {within:.3g} s{self._last}"
        timer = later(loop, within, _fail, answer, StoreUnavailable(text))
        try:
            return await answer
        finally:
            timer.cancel()

    async def _run(self) -> None:
        try:
            result = await self._work()
        except HoldfastError as failure:
            self._last = f"; the last attempt: {failure}"
            for answer in self._over():
                _fail(answer, type(failure)(*failure.args))
        except asyncio.CancelledError:
            for answer in self._over():
                _fail(answer, StoreUnavailable("the event loop or the client is ending"))
            raise
        except Exception as wrong:
            for answer in self._over():
                _fail(answer, wrong)
        else:
            self._last = ""
            for answer in self._over():
                if not answer.done():
                    answer.set_result(result)

    def _over(self) -> list[asyncio.Future[T]]:
        self._task = None
        waiting, self._waiting = self._waiting, []
        return waiting

    async def cancel(self) -> None:
        """Cancel the work, and return when it has ended."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


def _fail(answer: asyncio.Future[Any], failure: Exception) -> None:
    if not answer.done():
        answer.set_exception(failure)


def weakly(method: Callable[[A], T]) -> Callable[[A], T | None]:
    """Return a function that calls the method and doesn't keep its object alive.

    After the end of the object, the function returns None.
    """
    weak = WeakMethod(method)

    def call(what: A) -> T | None:
        found = weak()
        return None if found is None else found(what)

    return call
