"""The runtime for asyncio: one event loop, tasks, futures."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Callable, Coroutine, Generator, Hashable
from typing import Any, ClassVar, Generic, TypeVar

from ..errors import ConfigError
from . import fork
from .blocking import boottime

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class AioLatch:
    """A latch that a task waits on and anybody sets, from any thread."""

    __slots__ = ("_flag", "_loop", "_waiter")

    def __init__(self) -> None:
        self._flag = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the waiter, now or when it comes."""
        self._flag = True
        loop, waiter = self._loop, self._waiter
        if loop is not None and waiter is not None and not loop.is_closed():
            loop.call_soon_threadsafe(_wake, waiter)

    async def wait(self, seconds: float | None) -> bool:
        """Sleep until set or until the time is over."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._loop, self._waiter = loop, waiter
        timer = None if seconds is None else loop.call_later(max(seconds, 0.0), _wake, waiter)
        try:
            if not self._flag:
                await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        was, self._flag = self._flag, False
        return was


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Errand(Generic[T]):
    """A coroutine that runs to its end by callbacks alone: no task, so nothing cancels it.

    Its first step is taken at once, so that what it has to send is on its way before anybody
    else runs. It keeps itself alive until it is done, also when ``asyncio.run`` ends and cancels
    every task that it can find.
    """

    _alive: ClassVar[set[Errand[Any]]] = set()

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[T] = self._loop.create_future()
        self._alive.add(self)
        self._step()

    def _step(self, _: object = None) -> None:
        try:
            yielded = self._work.send(None)
        except StopIteration as end:
            self._end()
            if not self.done.done():
                self.done.set_result(end.value)
        except BaseException as failure:
            self._end()
            if not self.done.done():
                self.done.set_exception(failure)
                self.done.exception()  # seen: whoever still waits gets it, nobody else need to
        else:
            if yielded is None:
                self._loop.call_soon(self._step)
            else:
                yielded._asyncio_future_blocking = False
                yielded.add_done_callback(self._step)

    def _end(self) -> None:
        self._alive.discard(self)


class Pending(Coroutine[Any, Any, T_co]):
    """An answer that must be awaited: asked for its truth, it refuses.

    So ``if lock.acquire():`` without ``await`` doesn't enter the body, it raises. Otherwise it is
    a coroutine, so that ``asyncio.create_task`` and its like take it.
    """

    __slots__ = ("_what", "_work")

    def __init__(self, work: Coroutine[Any, Any, T_co], what: str) -> None:
        self._work = work
        self._what = what

    def __await__(self) -> Generator[Any, None, T_co]:
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        """See ``Coroutine``."""
        return self._work.send(value)

    def throw(self, *failure: Any) -> Any:
        """See ``Coroutine``."""
        return self._work.throw(*failure)

    def close(self) -> None:
        """See ``Coroutine``."""
        self._work.close()

    def __bool__(self) -> bool:
        self._work.close()
        raise TypeError(f"{self._what} must be awaited: write `await lock.{self._what}`")


class TaskGuard:
    """Cancels the task that is inside a ``async with`` when its hold is lost."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise ConfigError("cancel_on_lost needs a running task to cancel")
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._before = task.cancelling()
        self._fired = False

    def lost(self, hold: object, reason: object) -> None:
        """Cancel the task, unless it is the one that has just noticed."""
        del hold, reason
        try:
            here = asyncio.current_task() is self._task
        except RuntimeError:
            here = False
        if not here and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._fire)

    def _fire(self) -> None:
        if not self._fired and not self._task.done():
            self._fired = True
            self._task.cancel("the lock was lost")

    def caused(self, failure: BaseException | None) -> bool:
        """Was the end of the body our cancellation, and only ours?"""
        if not self._fired:
            self._fired = True  # from now on it is too late to cancel
            return False
        ours = self._task.uncancel() <= self._before
        return ours and isinstance(failure, asyncio.CancelledError)


class AioRuntime:
    """Time, identity and concurrency for one event loop."""

    now = staticmethod(boottime)
    epoch = staticmethod(fork.epoch)
    jitter = staticmethod(random.random)
    latch = AioLatch
    guard = TaskGuard

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def bind(self) -> None:
        """Belong to the running loop; refuse a second one."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None:
                raise ConfigError(
                    "this AsyncClient belongs to another event loop; make one client per loop"
                )
            self._loop = loop

    def forked(self) -> None:
        """The child of a fork has its own loop."""
        self._loop, self._tasks = None, set()

    @staticmethod
    def new_id() -> str:
        """128 random bits from the system: fresh after a fork too."""
        return os.urandom(16).hex()

    @staticmethod
    def flow() -> Hashable:
        """The task object, which belongs to one thread; outside of tasks the thread object."""
        return asyncio.current_task() or threading.current_thread()

    @staticmethod
    async def sleep(seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(max(seconds, 0.0))

    @staticmethod
    async def finish(work: Coroutine[Any, Any, T]) -> T:
        """Start the work at once and wait for its end; cancelled, it goes on without us."""
        return await asyncio.shield(Errand(work).done)

    def background(
        self, main: Callable[[], Coroutine[Any, Any, None]], over: Callable[[], None], name: str
    ) -> Callable[[], object]:
        """Start a task; it ends with the loop."""
        task = asyncio.get_running_loop().create_task(main(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: over())
        return task.cancel
