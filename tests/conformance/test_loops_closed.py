"""A client that is closed, or invalidates a value, while it is used in several event loops."""

from __future__ import annotations

import asyncio
import gc
import logging
import operator
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import AsyncClient, Client, Loss, StoreUnavailable
from holdfast.aio import loops
from tests.servers.process import until

SOON_S = 20.0
#: Number of descriptors by which the open connections of two closed loops may differ.
SPARE = 8
STORES = ("sqlite", "redis", "redis+plain", "postgresql", "mysql", "zookeeper")


class Elsewhere:
    """An event loop in a separate thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def do(self, work: Any) -> Any:
        async def awaited() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(SOON_S)

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(SOON_S)
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


@pytest.fixture
def others() -> Iterator[list[Elsewhere]]:
    made = [Elsewhere() for _ in range(3)]
    yield made
    for one in made:
        one.end()


def test_an_error_of_one_loop_leaves_the_client_open_in_no_other(
    others: list[Elsewhere], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = AsyncClient("memory://one-fails", ttl=60)
    holds = [one.do(client.lock(f"x{n}").acquire()) for n, one in enumerate(others)]

    async def fails() -> None:
        raise StoreUnavailable("no answer")

    for hold in holds[:2]:
        monkeypatch.setattr(hold._ctx.store, "close", fails)

    async def main() -> None:
        hold = await client.lock("mine").acquire()
        with pytest.raises(StoreUnavailable, match="no answer") as caught:
            await client.close()
        (note,) = caught.value.__notes__
        assert note == "also, in another event loop: StoreUnavailable: no answer"
        assert hold.lost is Loss.CLOSED
        assert hold._ctx.ended

    asyncio.run(main())
    assert [hold._ctx.ended for hold in holds] == [False, False, True]
    with Client("memory://one-fails") as other:
        assert not other.inspect()


def test_a_slow_close_in_another_loop_continues_there(
    others: list[Elsewhere], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "ELSEWHERE_S", 0.1)
    client = AsyncClient("memory://slow", ttl=60)
    hold = others[0].do(client.lock("x").acquire())
    store, go = hold._ctx.store, threading.Event()
    end, cut = store.close, []

    async def slow() -> None:
        try:
            while not go.is_set():
                await asyncio.sleep(0.01)
        except asyncio.CancelledError as cancelled:
            cut.append(cancelled)
            raise
        await end()

    monkeypatch.setattr(store, "close", slow)
    asyncio.run(client.close())
    assert not hold._ctx.ended
    go.set()
    until(lambda: hold._ctx.ended or cut, "it ends")
    assert not cut
    with Client("memory://slow") as other:
        assert not other.inspect()


def test_what_a_loop_held_that_was_closed_without_ado_is_free_with_the_next_loop() -> None:
    client = AsyncClient("memory://without-ado", ttl=60)
    loop = asyncio.new_event_loop()
    hold = loop.run_until_complete(client.lock("x").acquire())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()

    async def main() -> None:
        async with client.lock("x", timeout=SOON_S) as again:
            again.check()

    asyncio.run(main())
    assert hold.lost is Loss.CLOSED
    asyncio.run(client.close())


def test_an_invalidation_empties_the_layer_of_its_own_loop() -> None:
    client, calls = AsyncClient("memory://"), 0
    guard = client.guard("layered", ttl=60, local_ttl=60)

    async def compute() -> int:
        nonlocal calls
        calls += 1
        return calls

    async def asked() -> int:
        return int(await guard.get(compute))

    with asyncio.Runner() as one, asyncio.Runner() as other:
        assert [one.run(asked()), other.run(asked())] == [1, 1]
        assert one.run(guard.invalidate()) == 1
        # Then that loop computes a new value at once; the other may keep the old one for a while
        assert [one.run(asked()), other.run(asked())] == [2, 1]
        one.run(client.close())


@pytest.mark.parametrize("store", STORES)
def test_nothing_outlives_loops_that_were_closed_with_something_held(
    store: str, urls: dict[str, str], own_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pytest keeps log records and exceptions, whose frames refer to the client's objects.
    monkeypatch.setattr(logging.getLogger("holdfast"), "disabled", True)
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    in_careless_loops(urls[store], own_name)
    gc.collect()  # a collected object warns that its loop was closed


def in_careless_loops(url: str, name: str) -> None:
    client = AsyncClient(url, ttl=10)

    def careless(number: int) -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(client.lock(f"{name}:{number}").acquire())
        given_up = loop.create_task(client.lock(f"{name}:{number}").acquire())
        loop.run_until_complete(asyncio.sleep(0))
        given_up.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()  # during that undo, and the release of the former loop's hold

    def parts() -> tuple[int, int]:
        gc.collect()
        # A thread of the whole file, started by a waiter at the file mutex, belongs to no loop.
        threads = [one for one in threading.enumerate() if one.name != "holdfast-gate"]
        return len(threads), len(os.listdir("/proc/self/fd"))

    careless(0)
    careless(1)
    threads, descriptors = parts()
    most, end = (threads, descriptors + SPARE), time.monotonic() + SOON_S
    for number in range(2, 42):
        careless(number)
    while any(map(operator.gt, parts(), most)) and time.monotonic() < end:
        time.sleep(0.05)  # a driver's thread may be ending yet
    assert not any(map(operator.gt, parts(), most)), f"{parts()} of {most}"
    asyncio.run(client.close())
