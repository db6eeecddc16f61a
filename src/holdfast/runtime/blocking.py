"""The runtime for threads. Nothing here suspends, so one step runs a coroutine to its end."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from types import BuiltinFunctionType, CodeType, CoroutineType, FrameType
from typing import Any, TypeVar

from ..core.ports import CancelScope
from ..errors import ConfigError
from . import fork
from .greenlets import greenlets
from .starting.blocking import DaemonThread

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


#: The thread that is running, as an object.
current_thread = threading.current_thread
_opening = threading.RLock()


def opening() -> threading.RLock:
    """Return the lock to hold while a store is found and opened, because both import modules.
    ``ConfigError`` if blocking calls are only partly patched, so that no client can work.

    Two threads that import a package and a part of it at the same time can wait for each other.
    Then the interpreter gives one of them an unfinished module, or raises.
    """
    greenlets()
    return _opening


def _after_fork() -> None:
    global _opening
    _opening = threading.RLock()  # another thread of the parent can have held it


if sys.platform != "win32" and hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


#: The code of functions that run verbs of a store: see `nested`.
_INSIDE: list[CodeType] = []


def inside(function: F) -> F:
    """Mark a function that runs verbs of a store: code that interrupts it must call no verb."""
    _INSIDE.append(function.__code__)
    return function


@inside
def run_sync(coro: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine over blocking ports to its end: one step, because no port suspends.

    If the coroutine suspends, it is closed and reported: then the store uses an asyncio port.
    """
    try:
        coro.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coro.close()
    raise RuntimeError("a blocking port suspended; this is a fault in the store, please report it")


def outside(call: Callable[..., T], *args: Any) -> T:
    """Call the user's code, such as a handler, from a coroutine of holdfast."""
    return call(*args)


def nested(frame: FrameType | None) -> bool:
    """Return True if this frame interrupts a verb of a store, as a signal handler can, or the close
    of a generator by the garbage collector. Such code must call no verb: the interrupted verb can
    have taken a lock."""
    while frame is not None and (code := frame.f_code) is not _OUTSIDE:
        if any(code is one for one in _INSIDE):  # hashing a code object reads all of it
            return True
        frame = frame.f_back
    return False


_OUTSIDE = outside.__code__


def _clock(*names: str, otherwise: Callable[[], float]) -> Callable[[], float]:
    """Return the first of these clocks that the system has, as a call that freezegun doesn't patch:
    freezegun replaces the functions of `time` in each module that has imported one."""
    if sys.platform != "win32" and hasattr(time, "clock_gettime"):
        for name in names:
            if hasattr(time, name):
                return partial(time.clock_gettime, getattr(time, name))
    return partial(otherwise)


#: Seconds that never jump and continue while the machine sleeps, where the system has such a clock.
#: All of holdfast uses it, so that a test that freezes time doesn't extend a hold or a wait.
#: (A bare callable, because each lock calls it a dozen times.)
boottime = _clock("CLOCK_BOOTTIME", "CLOCK_MONOTONIC", otherwise=time.monotonic)
#: The time of day, only for comparison with other clocks. No wait uses it.
walltime = _clock("CLOCK_REALTIME", otherwise=time.time)


def clock_patched() -> bool:
    """Return True if other code has replaced the clock of event loops, as freezegun does."""
    return type(time.monotonic) is not BuiltinFunctionType


class BlockingLatch:
    """A latch on a bare lock: it can be set anywhere, also in a signal handler."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Wake the waiter, now or when it begins to wait."""
        try:
            self._lock.release()
        except RuntimeError:
            return  # it was set already

    async def wait(self, seconds: float | None) -> bool:
        """Sleep until set or until the time-out."""
        if seconds is None:
            return self._lock.acquire()
        return self._lock.acquire(timeout=min(max(seconds, 0.0), threading.TIMEOUT_MAX))


class Bell:
    """An event for threads that no interrupt damages.

    The event of ``threading`` is written in Python around a lock: Ctrl-C inside its ``set`` or
    ``wait`` can leave that lock taken. Then each later call of any thread waits without a time
    limit.
    """

    __slots__ = ("_rung", "_waiters")

    def __init__(self) -> None:
        self._rung = False
        self._waiters: set[threading.Lock] = set()

    def is_set(self) -> bool:
        """Return True if it was set, and not cleared since."""
        return self._rung

    def set(self) -> None:
        """Wake all present and later waiters. If an interrupt comes, some may stay asleep."""
        self._rung = True
        for waiter in list(self._waiters):
            with contextlib.suppress(RuntimeError):  # it was woken already
                waiter.release()

    def clear(self) -> None:
        """Unset the event: later waiters wait for the next `set`."""
        self._rung = False

    def wait(self, seconds: float) -> bool:
        """Sleep until it is set; return False after the time-out."""
        mine = threading.Lock()
        mine.acquire()
        try:
            self._waiters.add(mine)
            bounded = min(max(seconds, 0.0), threading.TIMEOUT_MAX)
            return self._rung or mine.acquire(timeout=bounded)
        finally:
            self._waiters.discard(mine)


class Turn:
    """A lock for one thread at a time that no interrupt leaves locked.

    With a usual lock, Ctrl-C can come after ``acquire`` has returned and before the ``try`` whose
    ``finally`` releases the lock. Here, the ``try`` itself takes the lock, under a key that the
    ``finally`` already has.
    """

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: dict[None, object] = {}

    def taken(self) -> bool:
        """Return True if the lock is taken."""
        return bool(self._taken)

    def take(self, key: object) -> bool:
        """Take the lock for this key, without waiting; False if it is taken for another key."""
        return self._taken.setdefault(None, key) is key

    def leave(self, key: object) -> None:
        """Release the lock, if it is taken for this key."""
        if self._taken.get(None) is key:
            del self._taken[None]


class BlockingRuntime:
    """Time, identity and concurrency for threads."""

    now = staticmethod(boottime)
    epoch = staticmethod(fork.epoch)
    jitter = staticmethod(random.random)
    latch = BlockingLatch
    #: A thread runs no coroutines.
    awaits = False

    def __init__(self) -> None:
        self._greenlets = greenlets()

    @staticmethod
    def bind() -> None:
        """Do nothing: any thread may use it."""

    @staticmethod
    def forked() -> None:
        """Do nothing: no state belongs to a process."""

    @staticmethod
    def new_id() -> str:
        """Return 128 random bits from the system; they differ after a fork, too."""
        return os.urandom(16).hex()

    @staticmethod
    def flow() -> Hashable:
        """Return the thread object; inside asyncio, a pair of the thread and the task."""
        aio = sys.modules.get("asyncio")  # looked up, as importing it would cost 40 ms
        thread = threading.current_thread()
        if aio is None or aio._get_running_loop() is None:
            return thread
        return thread, aio.current_task()

    @staticmethod
    def interrupts(failure: BaseException) -> bool:
        """Return True for Ctrl-C, which is raised only in the main thread."""
        main = threading.current_thread() is threading.main_thread()
        return main and isinstance(failure, KeyboardInterrupt)

    @staticmethod
    def hurried() -> bool:
        """Return True for a greenlet (a patched thread): it can have a hidden timer that ends its
        wait, such as ``gevent.Timeout``. A real thread always waits for the requested time."""
        return threading.get_ident.__module__ != "_thread"

    @staticmethod
    def cancel_scope() -> CancelScope:
        """Refuse: a thread can't be cancelled."""
        raise ConfigError(
            "cancel_on_lost needs asyncio (AsyncClient): a thread can't be cancelled. "
            "Call hold.check() in the work, or pass on_lost="
        )

    @staticmethod
    async def sleep(seconds: float) -> None:
        """Block this thread."""
        time.sleep(max(seconds, 0.0))

    @staticmethod
    async def finish(work: Coroutine[Any, Any, T]) -> T:
        """Run the work directly: a thread can't be cancelled between two steps."""
        return await work

    @staticmethod
    def follow(made: object, what: str) -> None:
        """Refuse a coroutine, because nothing awaits it here."""
        if isinstance(made, CoroutineType):
            made.close()
            raise ConfigError(
                f"{what} returned a coroutine, which nothing awaits among threads: give it a "
                "plain function, or use an AsyncClient"
            )

    def background(
        self, main: Callable[[], Coroutine[Any, Any, None]], over: Callable[[], None], name: str
    ) -> Callable[[], object]:
        """Start a thread; it ends with the process, and can't be cancelled."""
        if greenlets() != self._greenlets:
            raise ConfigError(
                "this client was made before gevent or eventlet patched the program, so its "
                "renewer would block all greenlets. Patch before anything else is imported, or "
                "make the client later"
            )

        def run() -> None:
            try:
                run_sync(main())
            finally:
                over()

        DaemonThread(target=run, name=name).start()
        return lambda: None
