"""Handlers of a worker that fail or do no work, derived from the language and not from a list.

They raise each kind of exception that exists, end the thread or cancel the task in every way, or
return every kind of unfinished work, such as a coroutine. ``wrong_kinds`` returns things that look
like handlers, but whose body doesn't run when they are called.
"""

from __future__ import annotations

import asyncio
import builtins
import concurrent.futures
import contextlib
import functools
import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import Any, NoReturn

Handler = Callable[[Any], Any]


class Unshowable(Exception):
    """An exception that can't be shown, because its ``__str__`` fails."""

    def __str__(self) -> str:
        """Raise ``ValueError``."""
        raise ValueError("no text")


def exceptions() -> Iterator[BaseException]:
    """Yield one exception of each built-in kind, and some of kinds that programs define."""
    for kind in vars(builtins).values():
        if not (inspect.isclass(kind) and issubclass(kind, BaseException)):
            continue
        for given in ((), ("no text", "", 0, 1, ""), ("", b"", 0, 1, ""), ("", [ValueError()])):
            with contextlib.suppress(TypeError, ValueError):
                yield kind(*given)
                break
    yield asyncio.CancelledError()
    yield concurrent.futures.CancelledError()
    yield concurrent.futures.BrokenExecutor()
    yield BaseExceptionGroup("several", [KeyboardInterrupt(), ValueError()])
    yield type("OfTheUsers", (BaseException,), {})("own kind")
    yield Unshowable()
    yield RuntimeError("\ud800 half a pair, \0 and a long text" * 100)


def _raising(failure: BaseException) -> Handler:
    def handler(job: Any) -> NoReturn:
        raise failure

    return handler


def _failed_future() -> concurrent.futures.Future[None]:
    future: concurrent.futures.Future[None] = concurrent.futures.Future()
    future.set_exception(OSError("later"))
    return future


async def _coroutine(job: Any) -> None:
    raise AssertionError("this must not run")


def _generator(job: Any) -> Generator[None, None, None]:
    yield
    raise AssertionError("this must not run")


async def _async_generator(job: Any) -> AsyncGenerator[None, None]:
    yield
    raise AssertionError("this must not run")


class _Called:
    def __init__(self, call: Handler) -> None:
        self._call = call

    def method(self, job: Any) -> Any:
        """Call the wrapped handler."""
        return self._call(job)


class _AwaitsSelf:
    def __await__(self) -> Iterator[None]:
        return iter(())


def returned() -> dict[str, Handler]:
    """Return handlers that return unfinished work: an object that the caller would have to run."""
    return {
        "a coroutine": _coroutine,
        "a generator": _generator,
        "an async generator": _async_generator,
        "a lazy map": lambda job: map(_raising(OSError()), [job]),
        "a future that fails later": lambda job: _failed_future(),
        "a context that is not entered": contextlib.contextmanager(_generator),
        "an async context that is not entered": contextlib.asynccontextmanager(_async_generator),
        "a coroutine, through a method": _Called(_coroutine).method,
    }


async def _cancels_itself(job: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(30)


def _cancels_itself_at_once(job: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    raise OSError("cancelled myself")


async def _awaits_what_is_cancelled(job: Any) -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def _group_fails(job: Any) -> None:
    async def fails() -> None:
        raise OSError("in the group")

    async with asyncio.TaskGroup() as group:
        group.create_task(fails())
        await asyncio.sleep(30)


async def _times_out(job: Any) -> None:
    async with asyncio.timeout(0):
        await asyncio.sleep(30)


async def _forgets_to_await(job: Any) -> Any:
    return _coroutine(job)


def _later(handler: Handler) -> Handler:
    async def call(job: Any) -> Any:
        await asyncio.sleep(0)
        return handler(job)

    return call


def misdeeds(asyncio_too: bool) -> dict[str, Handler]:
    """Return handlers that never do their work, each with a description of its fault.

    With ``asyncio_too`` the handlers are for asyncio, otherwise for threads.
    """
    deeds = {f"raises {type(one).__name__}": _raising(one) for one in exceptions()}
    deeds["exits the interpreter"] = lambda job: sys.exit(3)
    wrong = returned()
    if not asyncio_too:
        wrong["an awaitable object"] = lambda job: _AwaitsSelf()
        return {**deeds, **{f"returns {name}": one for name, one in wrong.items()}}
    awaited = {f"{name}, later": _later(one) for name, one in deeds.items()}
    # On asyncio the worker runs the coroutine of these two handlers, and AssertionError is raised
    del wrong["a coroutine"], wrong["a coroutine, through a method"]
    return {
        **deeds,
        **awaited,
        **{f"returns {name}": one for name, one in wrong.items()},
        **{f"awaits, and returns {name}": _later(one) for name, one in returned().items()},
        "cancels itself": _cancels_itself,
        "cancels itself at once": _cancels_itself_at_once,
        "awaits what is cancelled": _awaits_what_is_cancelled,
        "has a group that fails": _group_fails,
        "times out": _times_out,
        "forgets to await": _forgets_to_await,
    }


def wrong_kinds(asyncio_too: bool) -> dict[str, Any]:
    """Return things that look like handlers, but whose call does no work."""

    class Object:
        def __init__(self, call: Handler) -> None:
            self.call = call

    kinds = {"generator": _generator, "async generator": _async_generator}
    if not asyncio_too:
        kinds["coroutine"] = _coroutine
    found: dict[str, Any] = {"nothing": None, "a name": "handle"}
    for name, function in kinds.items():
        found[f"a {name} function"] = function
        found[f"a partial of a {name} function"] = functools.partial(function)
        twice = functools.partial(functools.partial(function))
        found[f"a partial of a partial of a {name} function"] = twice
        made: Any = type("Made", (Object,), {"__call__": staticmethod(function)})
        found[f"an object that is a {name} function"] = made(function)
        bound: Any = type("Bound", (), {"method": _method(function)})()
        found[f"a method that is a {name} function"] = bound.method
        found[f"a partial of an object that is a {name} function"] = functools.partial(
            made(function)
        )
    return found


def _method(function: Any) -> Any:
    """Return a method of the same kind: coroutine function, generator or async generator."""

    async def coroutine(self: Any, job: Any) -> None:
        await function(job)

    async def async_generator(self: Any, job: Any) -> Any:
        yield

    def generator(self: Any, job: Any) -> Any:
        yield

    if inspect.iscoroutinefunction(function):
        return coroutine
    return async_generator if inspect.isasyncgenfunction(function) else generator
