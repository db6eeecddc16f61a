"""A decorator and ``on_lost`` refuse functions whose body would run without the lock."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import io
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from holdfast import AsyncClient, Client, ConfigError, Loss
from holdfast.testing.promise import promised

ran: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ran.clear()


def plain() -> None:
    ran.append("plain")


async def coroutine() -> None:
    ran.append("coroutine")


def generator() -> Iterator[None]:
    ran.append("generator")
    yield


async def asyncgen() -> AsyncIterator[None]:
    ran.append("asyncgen")
    yield


def _object(call: Callable[..., Any]) -> object:
    return type("Made", (), {"__call__": staticmethod(call)})()


SHAPES: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "plain": lambda function: function,
    "partial": functools.partial,
    "partial of a partial": lambda function: functools.partial(functools.partial(function)),
    "object": _object,
    "partial of an object": lambda function: functools.partial(_object(function)),
}
LATE: dict[str, Any] = {
    "generator": generator,
    "asyncgen": asyncgen,
    "managed": contextlib.contextmanager(generator),
    "amanaged": contextlib.asynccontextmanager(asyncgen),
}
BY: dict[str, Callable[[Any], Any]] = {
    "lock": lambda locks: locks.lock("x"),
    "semaphore": lambda locks: locks.semaphore("x", 2),
    "cached": lambda locks: locks.cached("x", ttl=9),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("late", [*LATE, "coroutine"])
@pytest.mark.parametrize("by", BY)
def test_among_threads_no_decorator_takes_what_runs_later(by: str, late: str, shape: str) -> None:
    function = SHAPES[shape]({**LATE, "coroutine": coroutine}[late])
    refused = pytest.raises(ConfigError, match=r"Take it in the body|AsyncClient")
    with Client("memory://decorated") as locks, refused:
        BY[by](locks)(function)
    assert ran == []


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("by", BY)
def test_under_asyncio_no_decorator_takes_what_runs_later(by: str, late: str, shape: str) -> None:
    with pytest.raises(ConfigError, match=r"Take it in the body|of a Client"):
        BY[by](AsyncClient("memory://decorated"))(SHAPES[shape](LATE[late]))
    assert ran == []


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_a_function_that_runs_when_called_is_decorated(shape: str) -> None:
    with Client("memory://decorated") as locks:
        function = SHAPES[shape](plain)
        functools.update_wrapper(function, plain) if shape != "plain" else None
        locks.lock("x")(function)()
    assert ran == ["plain"]

    async def main() -> None:
        async with AsyncClient("memory://decorated") as locks:
            await locks.lock("x")(SHAPES[shape](coroutine))()

    asyncio.run(main())
    assert ran == ["plain", "coroutine"]


class Awaited:
    """An object that can be awaited."""

    def __await__(self) -> Iterator[None]:
        ran.append("awaited")
        yield


LATER: dict[str, Callable[[], Any]] = {
    "generator": generator,
    "asyncgen": asyncgen,
    "coroutine": coroutine,
    "future": concurrent.futures.Future,
    "awaitable": Awaited,
    "manager": contextlib.contextmanager(generator),
    "map": lambda: map(ran.append, ["map"]),
}


@pytest.mark.parametrize("later", LATER)
def test_work_that_a_plain_function_returned_is_refused(later: str) -> None:
    with Client("memory://decorated") as locks:
        decorated: Any = locks.lock("x")(lambda: LATER[later]())  # noqa: PLW0108
        with promised("no work runs unheld without a word"):
            try:
                found = decorated()
            except ConfigError as refused:
                found = str(refused)
            assert "returned a" in str(found)
    assert ran == []


@pytest.mark.parametrize("made", [[1], "text", {"a": 1}, {1}, object(), io.StringIO("text")])
def test_a_returned_value_is_passed_through_unchanged(made: object) -> None:
    with Client("memory://decorated") as locks:
        assert locks.lock("x")(lambda: made)() is made


async def _told(hold: object, reason: Loss) -> None:
    await asyncio.sleep(0)
    ran.append(str(reason))


async def _raising(hold: object, reason: Loss) -> None:
    raise ValueError("planted")


@pytest.mark.parametrize("shape", SHAPES)
def test_among_threads_a_coroutine_function_is_no_on_lost(shape: str) -> None:
    call = SHAPES[shape](_told)
    with Client("memory://decorated") as locks:
        for make in (locks.lock, locks.election, locks.rwlock):
            with pytest.raises(ConfigError, match="plain function, or use an AsyncClient"):
                make("x", on_lost=call)
        with locks.lock("x") as hold, pytest.raises(ConfigError, match="AsyncClient"):
            hold.on_lost(call)


@pytest.mark.parametrize("call", [generator, asyncgen, functools.partial(generator), 7])
def test_what_nothing_would_run_is_no_on_lost(call: Any) -> None:
    with Client("memory://decorated") as locks, pytest.raises(ConfigError, match="on_lost"):
        locks.lock("x", on_lost=call)
    with pytest.raises(ConfigError, match="on_lost"):
        AsyncClient("memory://decorated").lock("x", on_lost=call)


def test_among_threads_a_coroutine_that_on_lost_returned_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Client("memory://decorated") as locks:
        hold = locks.lock("x", on_lost=lambda *news: _told(*news)).acquire()  # noqa: PLW0108
        locks._ctx.keeper._let_go(hold._lease, Loss.BROKEN)
        hold.release()
    assert "nothing awaits among threads" in caplog.text
    assert ran == []


async def lost(call: Any, how: str, until: Callable[[], object]) -> None:
    """Lose a hold whose ``on_lost`` is this call, and wait for its effect."""
    async with AsyncClient("memory://decorated") as locks:
        hold = await locks.lock("x", on_lost=call if how == "option" else None).acquire()
        if how == "method":
            hold.on_lost(call)
        hold._ctx.keeper._let_go(hold._lease, Loss.BROKEN)
        if how == "late":
            hold.on_lost(call)
        async with asyncio.timeout(20):
            while not until():
                await asyncio.sleep(0.001)
        await hold.release()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("how", ["option", "method", "late"])
def test_under_asyncio_a_coroutine_function_is_awaited_when_the_hold_is_lost(
    shape: str, how: str
) -> None:
    asyncio.run(lost(SHAPES[shape](_told), how, lambda: ran))
    assert ran == [str(Loss.BROKEN)]


def test_what_an_awaited_on_lost_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(lost(_raising, "option", lambda: "planted" in caplog.text))
    assert "the on_lost callback of 'x' raised" in caplog.text


@pytest.mark.parametrize("shape", ["plain", "partial", "partial of a partial"])
def test_a_lock_of_asyncio_refuses_a_plain_function_at_once(shape: str) -> None:
    with pytest.raises(ConfigError, match="plain isn't a coroutine function"):
        AsyncClient("memory://").lock("x")(SHAPES[shape](plain))
    assert not ran


def test_an_asyncio_lock_refuses_a_call_whose_result_cannot_be_awaited() -> None:
    call = AsyncClient("memory://").lock("refused-object")(_object(plain))
    with pytest.raises(ConfigError, match="NoneType, which can't be awaited"):
        asyncio.run(call())
    assert ran == ["plain"]


@pytest.mark.parametrize("main", ["main", None, generator, asyncgen, coroutine])
def test_an_election_for_threads_refuses_what_it_can_t_run_as_the_leader(main: Any) -> None:
    refused = pytest.raises(ConfigError, match=r"run\(\) takes a function|inside of run\(\)")
    with Client("memory://decorated") as locks, refused:
        locks.election("x", timeout=0).run(main)
    assert ran == []


@pytest.mark.parametrize("main", ["main", None, generator, asyncgen])
def test_an_election_of_asyncio_refuses_what_it_can_t_run_as_the_leader(main: Any) -> None:
    async def elect() -> None:
        async with AsyncClient("memory://decorated") as locks:
            await locks.election("x", timeout=0).run(main)

    with pytest.raises(ConfigError, match=r"run\(\) takes a function|inside of run\(\)"):
        asyncio.run(elect())
    assert ran == []
