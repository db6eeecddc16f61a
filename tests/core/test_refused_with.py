"""``with`` on an object of asyncio, and ``async with`` on one for threads, name the remedy."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncClient, Client

URL = "memory://refused-with"
#: Objects that each face has, made from a client.
MADE: dict[str, Callable[[Any], Any]] = {
    "client": lambda client: client,
    "lock": lambda client: client.lock("x"),
    "semaphore": lambda client: client.semaphore("x", permits=2),
    "read": lambda client: client.rwlock("x").read,
    "all": lambda client: client.all("x", "y"),
    "election": lambda client: client.election("x"),
}
#: Objects without any `with`: a part of their remedy.
BARE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "rwlock": (lambda client: client.rwlock("x"), "has no `with`: enter its `read` or its `write`"),
    "guard": (lambda client: client.guard("x", ttl=5), r"has no `with`: call get\(compute\)"),
}


def enter(thing: Any) -> None:
    with thing:
        raise AssertionError("the body ran")


async def aenter(thing: Any) -> None:
    async with thing:
        raise AssertionError("the body ran")


@pytest.mark.parametrize("kind", MADE)
def test_with_on_an_object_of_asyncio_recommends_async_with(kind: str) -> None:
    async def main() -> None:
        async with AsyncClient(URL) as client:
            thing = MADE[kind](client)
            with pytest.raises(TypeError, match=r"^<Async.* has no `with`: .* write `async with`$"):
                enter(thing)
            assert_no_other(thing, "__enter__")

    asyncio.run(main())


@pytest.mark.parametrize("kind", MADE)
def test_async_with_on_an_object_for_threads_recommends_with(kind: str) -> None:
    with Client(URL) as client:
        thing = MADE[kind](client)
        with pytest.raises(TypeError, match=r"^<.* has no `async with`: .* write `with`$"):
            asyncio.run(aenter(thing))
        assert_no_other(thing, "__aenter__")


def assert_no_other(thing: Any, method: str) -> None:
    """Libraries that choose by the methods of an object see only its own `with`."""
    assert not hasattr(thing, method)
    assert not hasattr(type(thing), method)
    assert isinstance(thing, contextlib.AbstractContextManager) is (method == "__aenter__")
    assert isinstance(thing, contextlib.AbstractAsyncContextManager) is (method == "__enter__")


def test_holds_and_deliveries_say_it_too() -> None:
    async def main() -> None:
        async with AsyncClient(URL) as client:
            await client.queue("x").put(1)
            job = await client.queue("x").take(timeout=0)
            for thing in (await client.lock("x").acquire(), await client.all("y").acquire(), job):
                assert thing is not None
                with pytest.raises(TypeError, match="write `async with`"):
                    enter(thing)
                async with thing:
                    pass

    asyncio.run(main())


@pytest.mark.parametrize("kind", BARE)
@pytest.mark.parametrize("face", [Client, AsyncClient])
def test_an_object_without_any_with_names_its_call(face: Any, kind: str) -> None:
    async def main() -> None:
        make, remedy = BARE[kind]
        thing = make(face(URL))
        with pytest.raises(TypeError, match=remedy):
            enter(thing)
        with pytest.raises(TypeError, match=remedy):
            await aenter(thing)

    asyncio.run(main())
