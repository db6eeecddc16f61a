"""The runtime for threads: nothing here suspends, so a coroutine over it runs in one go."""

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

from ..core.ports import Guard
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
    """Hold it while a store is looked for and opened, as both import. ``ConfigError`` where no
    client could work, because only a part of what it blocks in is patched.

    Two threads that begin to import a package and a part of it at once may wait for each other;
    then the interpreter shows one of them a module that is not finished, or gives up.
    """
    greenlets()
    return _opening


def _after_fork() -> None:
    global _opening
    _opening = threading.RLock()  # another thread of our parent's may have held it


if sys.platform != "win32" and hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


#: The code of functions that run verbs of a store: see `nested`.
_INSIDE: list[CodeType] = []


def inside(function: F) -> F:
    """Mark a function as one that runs verbs of a store: what interrupts it must not call one."""
    _INSIDE.append(function.__code__)
    return function


@inside
def run_sync(coro: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine whose ports block, to its end: one step, as none of them suspends.

    One that does suspend is closed and reported: it would be a store with an asyncio port.
    """
    try:
        coro.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coro.close()
    raise RuntimeError("a blocking port suspended; this is a fault in the store, please report it")


def outside(call: Callable[..., T], *args: Any) -> T:
    """Call the caller's own code, such as a handler, from within a coroutine of ours."""
    return call(*args)


def nested(frame: FrameType | None) -> bool:
    """Is this frame called from inside of a store? A signal handler may be, or a generator that
    the collector finds: it must not call the store, which may have a lock taken."""
    while frame is not None and (code := frame.f_code) is not _OUTSIDE:
        if any(code is one for one in _INSIDE):  # hashing a code object reads all of it
            return True
        frame = frame.f_back
    return False


_OUTSIDE = outside.__code__


def _clock(*names: str, otherwise: Callable[[], float]) -> Callable[[], float]:
    """The first of these clocks that the system has, as a call that freezegun doesn't patch:
    freezegun replaces functions of `time` in each module that has one."""
    if sys.platform != "win32" and hasattr(time, "clock_gettime"):
        for name in names:
            if hasattr(time, name):
                return partial(time.clock_gettime, getattr(time, name))
    return partial(otherwise)


#: Seconds that never jump and continue while the machine sleeps, where the system has such a clock.
#: All of holdfast uses it, so that a test that freezes time keeps no hold and no wait alive.
#: (Not a function of ours, because it is asked a dozen times for each lock.)
boottime = _clock("CLOCK_BOOTTIME", "CLOCK_MONOTONIC", otherwise=time.monotonic)
#: The time of day, only to compare it with the clocks of others. No wait uses it.
walltime = _clock("CLOCK_REALTIME", otherwise=time.time)


def clock_patched() -> bool:
    """Has something replaced the clock that event loops use, as freezegun does?"""
    return type(time.monotonic) is not BuiltinFunctionType


class BlockingLatch:
    """A latch on a bare lock: set from anywhere, a signal handler included."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Wake the waiter, now or when it comes."""
        try:
            self._lock.release()
        except RuntimeError:
            return  # it was set already

    async def wait(self, seconds: float | None) -> bool:
        """Sleep until set or until the time has expired."""
        if seconds is None:
            return self._lock.acquire()
        return self._lock.acquire(timeout=min(max(seconds, 0.0), threading.TIMEOUT_MAX))


class Bell:
    """An event for threads that no interrupt breaks.

    The one of ``threading`` is written in Python around a lock: Ctrl-C amid its ``set`` or its
    ``wait`` may leave that lock taken, and then every later call of any thread waits without a time
    limit.
    """

    __slots__ = ("_rung", "_waiters")

    def __init__(self) -> None:
        self._rung = False
        self._waiters: set[threading.Lock] = set()

    def is_set(self) -> bool:
        """Was it set, and not cleared since?"""
        return self._rung

    def set(self) -> None:
        """Wake all who wait, now or when they come. A caller who is interrupted may wake a part."""
        self._rung = True
        for waiter in list(self._waiters):
            with contextlib.suppress(RuntimeError):  # it was woken already
                waiter.release()

    def clear(self) -> None:
        """Whoever comes now waits for the next time."""
        self._rung = False

    def wait(self, seconds: float) -> bool:
        """Sleep until it is set; False when the time has expired first."""
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

    Ctrl-C may come after ``acquire`` of a lock has returned, and before the ``try`` that releases
    it. A turn is taken inside that ``try``, under a key that its ``finally`` knows beforehand.
    """

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: dict[None, object] = {}

    def taken(self) -> bool:
        """Has anybody taken it?"""
        return bool(self._taken)

    def take(self, key: object) -> bool:
        """Take it for this key, unless another key has it. It doesn't wait."""
        return self._taken.setdefault(None, key) is key

    def leave(self, key: object) -> None:
        """Release it, if this key has it."""
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
        """Threads may come from anywhere."""

    @staticmethod
    def forked() -> None:
        """Nothing here belongs to a process."""

    @staticmethod
    def new_id() -> str:
        """128 random bits from the system: fresh after a fork too."""
        return os.urandom(16).hex()

    @staticmethod
    def flow() -> Hashable:
        """The thread object; and the task, should threads' locks be used inside of asyncio."""
        aio = sys.modules.get("asyncio")  # looked up, as importing it would cost 40 ms
        thread = threading.current_thread()
        if aio is None or aio._get_running_loop() is None:
            return thread
        return thread, aio.current_task()

    @staticmethod
    def interrupts(failure: BaseException) -> bool:
        """Ctrl-C comes to the main thread alone."""
        main = threading.current_thread() is threading.main_thread()
        return main and isinstance(failure, KeyboardInterrupt)

    @staticmethod
    def hurried() -> bool:
        """A thread waits as long as it said. One that is patched may have a timer that ends it, as
        that of ``gevent.Timeout``, and shows nobody."""
        return threading.get_ident.__module__ != "_thread"

    @staticmethod
    def guard() -> Guard:
        """A thread can't be cancelled."""
        raise ConfigError(
            "cancel_on_lost needs asyncio (AsyncClient): a thread can't be cancelled. "
            "Call hold.check() in the work, or pass on_lost="
        )

    @staticmethod
    async def sleep(seconds: float) -> None:
        """Let time pass."""
        time.sleep(max(seconds, 0.0))

    @staticmethod
    async def finish(work: Coroutine[Any, Any, T]) -> T:
        """Nothing can be cancelled between two steps of a thread: just do it."""
        return await work

    @staticmethod
    def follow(made: object, what: str) -> None:
        """Nobody awaits a coroutine here."""
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
                "this client was made before gevent or eventlet patched the program, so its keeper "
                "would hold up all greenlets. Patch before anything else is imported, or make the "
                "client later"
            )

        def run() -> None:
            try:
                run_sync(main())
            finally:
                over()

        DaemonThread(target=run, name=name).start()
        return lambda: None
