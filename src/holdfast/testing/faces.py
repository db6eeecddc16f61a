"""Both faces (threads, asyncio) with one interface: a test is written once, and runs on each.

A test is a coroutine that uses the interface of ``holdfast.aio``. On the face for asyncio the test
gets the real objects. On the face for threads each object is a :class:`Twin` around the real
blocking object. A call that asyncio would await blocks there, and the ``await`` gets its result. So
a test on the face for threads never suspends, and runs to its end in one thread, as the library's
own code does.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, Protocol, TypeVar, cast

import holdfast.aio
import holdfast.sync

from ..aio import AsyncClient
from ..runtime.blocking import boottime, run_sync
from ..sync import Client

R = TypeVar("R")

#: The classes of the face for threads; each has a twin on the face for asyncio.
_CLASSES = frozenset(
    cls
    for cls in (getattr(holdfast.sync, name) for name in holdfast.sync.__all__)
    if inspect.isclass(cls)
)


@functools.cache
def _awaited(cls: str, name: str) -> bool:
    """Return True if the asyncio twin of this method of a class for threads is awaited."""
    twin = getattr(getattr(holdfast.aio, f"Async{cls}"), name, None)
    if not inspect.isfunction(twin):
        return False
    answer = str(inspect.signature(twin).return_annotation)
    return inspect.iscoroutinefunction(twin) or answer.startswith("Pending")


class Twin:
    """An object of the face for threads that is used as its twin of the face for asyncio."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._thing, name)
        if type(value) in _CLASSES or not callable(value):
            return _dressed(value)
        if _awaited(type(self._thing).__name__, name):
            return functools.partial(_later, value)
        return lambda *args, **kwargs: _dressed(value(*_given(args), **kwargs))

    async def __aenter__(self) -> Any:
        return _dressed(self._thing.__enter__())

    async def __aexit__(self, *failure: object) -> Any:
        return self._thing.__exit__(*failure)

    def __call__(self, function: Callable[..., Awaitable[R]]) -> Callable[..., Awaitable[R]]:
        """Decorate: apply the real decorator to a blocking function with the same body."""
        decorated = self._thing(_blocking(function))

        @functools.wraps(function)
        async def call(*args: Any, **kwargs: Any) -> R:
            return cast(R, decorated(*args, **kwargs))

        return call

    def __reduce__(self) -> Any:
        return _dressed, (self._thing,)

    def __eq__(self, other: object) -> bool:
        return self._thing is (other._thing if isinstance(other, Twin) else other)

    def __hash__(self) -> int:
        return hash(self._thing)

    def __repr__(self) -> str:
        return repr(self._thing)


def _dressed(value: Any) -> Any:
    """Return a result in the form that the face for asyncio would return."""
    if type(value) in _CLASSES or isinstance(value, contextlib._GeneratorContextManager):
        return Twin(value)
    if isinstance(value, Iterator):
        return _walk(value)
    if type(value) in (tuple, list):
        return type(value)(_dressed(one) for one in value)
    return value


def _bare(args: tuple[Any, ...]) -> list[Any]:
    """Return arguments in the form that the face for threads expects."""
    return [arg._thing if isinstance(arg, Twin) else arg for arg in args]


def _given(args: tuple[Any, ...]) -> list[Any]:
    """Like ``_bare``, and with a blocking function in place of each coroutine function."""
    return [_blocking(arg) if inspect.iscoroutinefunction(arg) else arg for arg in _bare(args)]


async def _later(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the method when the result is awaited."""
    return _dressed(method(*_given(args), **kwargs))


async def _walk(items: Iterator[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield _dressed(item)


def _blocking(function: Callable[..., Awaitable[R]]) -> Callable[..., R]:
    """Turn a coroutine function into a blocking one for the face for threads."""
    if not inspect.iscoroutinefunction(function):
        return cast(Callable[..., R], function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> R:
        return run_sync(function(*map(_dressed, args), **kwargs))

    # Without this, `inspect` would still report a coroutine function, with other parameters.
    vars(call).pop("__wrapped__")
    vars(call)["__signature__"] = inspect.signature(function)
    return call


class Actor(Protocol):
    """A thread or a task that runs at the same time as the test."""

    @property
    def finished(self) -> bool:
        """True after the end of the actor, with a result or an exception."""
        ...

    async def result(self, within: float = 10.0) -> Any:
        """Return the actor's result or raise its exception; ``TimeoutError`` after ``within`` s."""
        ...

    def cancel(self) -> None:
        """Cancel the task; a thread can't be cancelled."""
        ...


class Flag(Protocol):
    """Something that one actor sets and others wait for."""

    def set(self) -> None:
        """Wake all waiters, the present and the later ones."""
        ...

    async def wait(self, within: float = 10.0) -> None:
        """Wait until the flag is set; ``TimeoutError`` after ``within`` seconds."""
        ...


class Face(Protocol):
    """One of the two faces, and its way to run several things at once."""

    name: str

    def client(self, url: str, **options: Any) -> AsyncClient:
        """A new client."""
        ...

    def start(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Actor:
        """Run ``work`` at the same time as the test."""
        ...

    def flag(self) -> Flag:
        """A new flag."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        ...

    async def outside(self, call: Callable[[], R]) -> R:
        """Make a blocking call that isn't a call of holdfast, without blocking an event loop."""
        ...

    def run(self, main: Callable[[], Coroutine[Any, Any, R]], within: float) -> R:
        """Run a test to its end; if the test hangs, it fails, and the failure shows the stack."""
        ...


class _Thread:
    def __init__(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._work = work
        self._value: Any = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    def _main(self) -> None:
        try:
            self._value = run_sync(self._work())
        except BaseException as failure:
            self._failure = failure

    @property
    def finished(self) -> bool:
        return not self._thread.is_alive()

    async def result(self, within: float = 10.0) -> Any:
        self._thread.join(within)
        if not self.finished:
            raise TimeoutError(f"still busy after {within:g} s:\n{self.stack()}")
        if self._failure is not None:
            raise self._failure
        return self._value

    def stack(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame))

    def cancel(self) -> None:
        raise AssertionError("a thread can't be cancelled: such a case is for asyncio alone")


class _Event:
    def __init__(self) -> None:
        self._event = threading.Event()
        self.set = self._event.set

    async def wait(self, within: float = 10.0) -> None:
        if not self._event.wait(within):
            raise TimeoutError(f"the flag was not set within {within:g} s")


class Threads:
    """The face for threads."""

    name = "sync"
    flag = staticmethod(_Event)
    start = staticmethod(_Thread)

    def client(self, url: str, **options: Any) -> AsyncClient:
        """A real ``Client`` in the form of its twin."""
        return cast(AsyncClient, Twin(Client(url, **options)))

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    async def outside(self, call: Callable[[], R]) -> R:
        """Make the call in this thread."""
        return call()

    def run(self, main: Callable[[], Coroutine[Any, Any, R]], within: float) -> R:
        """Run the test in a separate thread, so that a test that hangs can be abandoned."""
        return cast(R, run_sync(_Thread(main).result(within)))


class _Task:
    def __init__(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._task = asyncio.create_task(work())
        # Fetch the exception: otherwise a later garbage collection logs it. A collection can run
        # while a file is parsed, and CPython before 3.11.8 can't format a traceback during that.
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        self.cancel = self._task.cancel

    @property
    def finished(self) -> bool:
        return self._task.done()

    async def result(self, within: float = 10.0) -> Any:
        done, _ = await asyncio.wait([self._task], timeout=within)
        if not done:
            raise TimeoutError(f"still busy after {within:g} s: {self._task!r}")
        return self._task.result()


class _AioEvent:
    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.set = self._event.set

    async def wait(self, within: float = 10.0) -> None:
        async with asyncio.timeout(within):
            await self._event.wait()


class Tasks:
    """The face for asyncio."""

    name = "aio"
    flag = staticmethod(_AioEvent)
    start = staticmethod(_Task)
    client = staticmethod(AsyncClient)
    sleep = staticmethod(asyncio.sleep)

    async def outside(self, call: Callable[[], R]) -> R:
        """Make the call in another thread."""
        return await asyncio.to_thread(call)

    def run(self, main: Callable[[], Coroutine[Any, Any, R]], within: float) -> R:
        """Run the test in a separate event loop."""

        async def bounded() -> R:
            async with asyncio.timeout(within):
                return await main()

        return asyncio.run(bounded())


#: Both faces, by name.
FACES: dict[str, Face] = {"sync": Threads(), "aio": Tasks()}  # type: ignore[dict-item]

#: The clock of the tests: seconds that never jump.
now = boottime
