"""The runtime for asyncio: one event loop, tasks, futures."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import random
import signal
import socket
import threading
from asyncio.events import _get_running_loop
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable
from typing import Any, Generic, TypeVar

from ..errors import ConfigError
from . import fork
from .blocking import boottime
from .timers.aio import later, sleep

#: A loop that still runs this many seconds after its tasks were cancelled isn't ending.
RUNS_ON_S = 0.02

log = logging.getLogger("holdfast")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class AioLatch:
    """A latch for a waiting task; any thread can set it."""

    __slots__ = ("_flag", "_loop", "_waiter")

    def __init__(self) -> None:
        self._flag = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the waiter, now or when it begins to wait."""
        self._flag = True
        loop, waiter = self._loop, self._waiter
        if loop is not None and waiter is not None:
            call_in(loop, _wake, waiter)

    async def wait(self, seconds: float | None) -> bool:
        """Sleep until set or until the time-out."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._loop, self._waiter = loop, waiter
        timer = None if seconds is None else later(loop, max(seconds, 0.0), _wake, waiter)
        try:
            if not self._flag:
                await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        was, self._flag = self._flag, False
        return was


def call_in(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: Any) -> None:
    """Let the loop call a function, from any thread. If the loop has ended, or ends now, nothing
    happens: a wake-up must not fail because its waiter has gone."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *args)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Errand(Generic[T]):
    """A shielded task: a coroutine that callbacks run to its end. Nothing can cancel it, because it
    isn't a task of asyncio.

    Its first step runs immediately, so that its request is sent before anything else runs. The set
    ``fellows`` contains it until it is done, even if ``asyncio.run`` ends and cancels all tasks.
    """

    def __init__(self, work: Coroutine[Any, Any, T], fellows: set[Errand[Any]]) -> None:
        self._work = work
        self._fellows = fellows
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[T] = self._loop.create_future()
        fellows.add(self)
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
                self.done.exception()  # marks it as retrieved: no warning if no caller waits
        else:
            if yielded is None:
                self._loop.call_soon(self._step)
            else:
                yielded._asyncio_future_blocking = False
                yielded.add_done_callback(self._step)

    def _end(self) -> None:
        self._fellows.discard(self)


class Pending(Coroutine[Any, Any, T_co]):
    """A reply that must be awaited: its truth value can't be used.

    So ``if lock.acquire():`` without ``await`` raises and doesn't enter the body. The reply is a
    coroutine, so that ``asyncio.create_task`` and similar functions accept it.
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


class TaskCancelScope:
    """Cancels a task inside an ``async with`` when the hold is lost; see ``CancelScope``."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise ConfigError("cancel_on_lost needs a running task to cancel")
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._before = task.cancelling()
        self._fired = False

    def lost(self, hold: object, reason: object) -> None:
        """Cancel the task, unless this is called in that task itself."""
        del hold, reason
        try:
            here = asyncio.current_task() is self._task
        except RuntimeError:
            here = False
        if not here:
            call_in(self._loop, self._fire)

    def _fire(self) -> None:
        if not self._fired and not self._task.done():
            self._fired = True
            self._task.cancel("the lock was lost")

    def caused(self, failure: BaseException | None) -> bool:
        """See ``CancelScope``."""
        if not self._fired:
            self._fired = True  # after this, no loss cancels the task
            return False
        ours = self._task.uncancel() <= self._before
        return ours and isinstance(failure, asyncio.CancelledError)


def sever(transport: Any) -> None:
    """Close a transport whose event loop has ended, so that no callback of the loop can close
    it."""
    tls = getattr(transport, "_ssl_protocol", None)
    inner: Any = transport if tls is None else getattr(tls, "_transport", None)
    with contextlib.suppress(Exception):
        transport.abort()  # does nothing if the transport was closing when its loop ended
        if not inner._loop.is_closed():
            return
    with contextlib.suppress(Exception):
        inner._call_connection_lost(None)


def require_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop of asyncio; ``ConfigError`` if there is none, for example under
    trio."""
    loop = _get_running_loop()
    if loop is None:
        raise ConfigError(
            "an AsyncClient needs a running event loop of asyncio, and here is none. Under trio, "
            "or anyio over trio, use a Client in a thread (trio.to_thread.run_sync), or run it "
            "under asyncio (trio-asyncio, anyio's backend 'asyncio'); in plain code use a Client"
        )
    return loop


def require_readers(loop: asyncio.AbstractEventLoop, label: str) -> None:
    """Raise ``ConfigError`` if this loop can't watch a socket that other code reads from."""
    try:
        probe = socket.socket()
    except OSError:
        return  # then connecting fails as well, and reports the cause
    with probe:
        try:
            loop.add_reader(probe, int)
        except NotImplementedError:
            raise ConfigError(
                f"{label} can't be used from {type(loop).__name__}, which has no add_reader(), as "
                "the loop that Windows has by default. Run it under a selector loop: "
                "asyncio.run(main(), loop_factory=asyncio.SelectorEventLoop); before Python 3.12: "
                "asyncio.Runner(loop_factory=asyncio.SelectorEventLoop).run(main())"
            ) from None
        loop.remove_reader(probe)


def another_loop() -> ConfigError:
    """Return the error for a hold or a delivery of one event loop that is used in another loop."""
    return ConfigError(
        "this hold or delivery belongs to the event loop in which it was taken, and this is "
        "another one: release it there; detach() and adopt() hand a hold over"
    )


def _cancels(handle: asyncio.Handle, task: asyncio.Task[Any] | None) -> bool:
    """Return True if this timer can cancel the task: it calls ``task.cancel``, or a method of an
    object of ``asyncio.timeout`` or ``anyio`` that refers to the task."""
    one = getattr(getattr(handle, "_callback", None), "__self__", None)
    if one is None or handle.cancelled():
        return False
    known = [one, getattr(one, "_task", None), *(getattr(one, "_tasks", None) or ())]
    return any(some is task for some in known)


async def _awaited(made: Awaitable[object], what: str) -> None:
    try:
        await made
    except BaseException as stop:
        if AioRuntime.interrupts(stop):
            raise
        log.exception("%s raised", what)


class AioRuntime:
    """Time, identity and concurrency for one event loop."""

    now = staticmethod(boottime)
    epoch = staticmethod(fork.epoch)
    jitter = staticmethod(random.random)
    latch = AioLatch
    cancel_scope = TaskCancelScope
    #: The result of a callback is awaited in a task.
    awaits = True

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._followed: set[asyncio.Task[None]] = set()
        #: The shielded tasks under way. Each runtime has a separate set: if the loop is closed
        #: early, the tasks end together with the runtime.
        self._errands: set[Errand[Any]] = set()

    def bind(self) -> None:
        """Bind to the running loop; raise for a second loop, or if no loop runs."""
        loop = require_loop()
        if self._loop is not loop:
            if self._loop is not None:
                raise another_loop()
            self._loop = loop

    def forked(self) -> None:
        """Forget the parent's loop in the child of a fork."""
        self._loop, self._tasks, self._followed = None, set(), set()

    @staticmethod
    def new_id() -> str:
        """Return 128 random bits from the system; they differ after a fork, too."""
        return os.urandom(16).hex()

    @staticmethod
    def flow() -> Hashable:
        """Return the task object, which belongs to one thread; outside of tasks, return the
        thread."""
        return asyncio.current_task() or threading.current_thread()

    @staticmethod
    def interrupts(failure: BaseException) -> bool:
        """Return True for Ctrl-C, and for a cancellation of this task, not only of the object that
        it awaits. An ``asyncio.Runner`` turns Ctrl-C into a cancellation; otherwise Ctrl-C is
        raised in the main thread."""
        if isinstance(failure, asyncio.CancelledError):
            task = asyncio.current_task()
            return task is None or task.cancelling() > 0
        return (
            isinstance(failure, KeyboardInterrupt)
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )

    @staticmethod
    def hurried() -> bool:
        """Return True if a timer can cancel this task. If the loop doesn't show its timers (such as
        a loop of uvloop), there can be such a timer."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        timers = getattr(loop, "_scheduled", None)
        if timers is None:
            return True
        return any(_cancels(handle, task) for handle in [*timers, *getattr(loop, "_ready", ())])

    @staticmethod
    async def sleep(seconds: float) -> None:
        """Suspend this task."""
        await sleep(max(seconds, 0.0))

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Start the work immediately and wait for its end. A cancellation ends only the wait."""
        return await asyncio.shield(Errand(work, self._errands).done)

    def follow(self, made: object, what: str) -> None:
        """Await the result in a separate task of our loop, from any thread; the loop's end cancels
        the task. If our loop doesn't run, the loop of the caller awaits the result."""
        if not inspect.isawaitable(made):
            return
        running, loop = _get_running_loop(), self._loop
        if loop is None or loop is running or (running and not loop.is_running()):
            self._await(made, what)
        else:
            call_in(loop, self._await, made, what)

    def _await(self, made: Awaitable[object], what: str) -> None:
        task = asyncio.get_running_loop().create_task(_awaited(made, what), name=what)
        self._followed.add(task)
        task.add_done_callback(self._followed.discard)

    def background(
        self, main: Callable[[], Coroutine[Any, Any, None]], over: Callable[[], None], name: str
    ) -> Callable[[], object]:
        """Start a task in our loop, from any thread; it ends with the loop."""
        running, loop = _get_running_loop(), self._loop
        if loop is None or loop is running:
            return self._begin(main, over, name).cancel
        if loop.is_closed():
            raise RuntimeError("its event loop is closed")
        begun: list[asyncio.Task[None]] = []
        call_in(loop, lambda: begun.append(self._begin(main, over, name)))
        return lambda: call_in(loop, lambda: [one.cancel() for one in begun])

    def _begin(
        self, main: Callable[[], Coroutine[Any, Any, None]], over: Callable[[], None], name: str
    ) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(main(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self._ended(task, over))
        return task

    @staticmethod
    def _ended(task: asyncio.Task[None], over: Callable[[], None]) -> None:
        """Call ``over`` after the end of a task. If the task was cancelled, the loop is perhaps
        about to end: it would destroy a task that ``over`` starts. So ``over`` is then called
        later, if the loop still runs."""
        if task.cancelled():
            later(task.get_loop(), RUNS_ON_S, over)
        else:
            over()
