"""One asyncio client, created at module level, in several event loops."""

from __future__ import annotations

import asyncio
import gc
import secrets
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import AsyncClient, LockLost, StoreUnavailable

STORES = ["memory", "sqlite", "redis", "redis+plain", "postgresql", "mysql", "zookeeper"]
on_each_store = pytest.mark.parametrize("store", STORES)


@pytest.fixture
def name() -> str:
    return f"loops-{secrets.token_hex(6)}"


@pytest.fixture
def client(store: str, urls: dict[str, str]) -> Iterator[AsyncClient]:
    """A client that is created outside any loop, as at module level."""
    made = AsyncClient(urls[store], ttl=10)
    yield made
    asyncio.run(made.close())


def in_own_loop(main: Callable[[], Any]) -> Any:
    """Run a coroutine in a new loop, as pytest-asyncio or a test client does."""

    async def bounded() -> Any:
        async with asyncio.timeout(30):
            return await main()

    return asyncio.run(bounded())


@on_each_store
def test_a_client_made_at_import_time_serves_one_loop_after_the_other(
    client: AsyncClient, name: str
) -> None:
    lock = client.lock(name, timeout=5)

    @client.lock(name + ":{number}", timeout=5)
    async def decorated(number: int) -> int:
        return number

    async def main() -> int:
        async with lock as hold:
            hold.check()
            assert await client.lock(name).acquire(blocking=False) is None
            async with client.all(name + "x", client.lock(name + "y"), timeout=5):
                assert await decorated(7) == 7
        held = await lock.acquire()
        assert held is not None
        assert await lock.release()
        return len(await client.inspect(name))

    assert [in_own_loop(main) for _ in range(4)] == [0] * 4


@pytest.mark.parametrize("store", [one for one in STORES if one != "redis+plain"])
def test_a_queue_and_a_guard_made_at_import_time_serve_several_loops(
    client: AsyncClient, name: str
) -> None:
    queue = client.queue(name)
    done: list[Any] = []

    async def handle(job: Any) -> None:
        done.append(job.payload)

    async def take() -> None:
        job = await queue.take(timeout=10)
        assert job is not None
        done.append(job.payload)
        assert await job.ack()

    worker = queue.worker(handle, drain=True)
    in_own_loop(lambda: queue.put_many(["one", "two"], group="g"))
    in_own_loop(take)
    in_own_loop(worker.run)
    assert done == ["one", "two"]
    if not client.supports("guards"):
        return

    @client.cached(name + ":{key}", ttl=60)
    async def cached(key: str) -> str:
        done.append(key)
        return key

    assert [in_own_loop(lambda: cached("k")) for _ in range(3)] == ["k"] * 3
    assert in_own_loop(lambda: cached.invalidate("k")) == 1
    assert in_own_loop(lambda: cached("k")) == "k"
    assert done[2:] == ["k", "k"]


def test_a_loop_that_moves_to_another_thread_takes_its_own_parts_along(name: str) -> None:
    # Given a client that was used in a loop of this thread
    client, loop = AsyncClient("memory://" + name), asyncio.new_event_loop()
    inside, over = threading.Event(), threading.Event()

    async def parts() -> Any:
        async with client.lock(name):
            return client._here()

    async def parts_for_long() -> Any:
        inside.set()
        assert await asyncio.to_thread(over.wait, 20)
        return await parts()

    first = loop.run_until_complete(parts())
    # When that loop runs in another thread, and another loop in this thread
    with ThreadPoolExecutor(1) as elsewhere:
        moved = elsewhere.submit(loop.run_until_complete, parts_for_long())
        try:
            assert inside.wait(20)
            second = asyncio.run(parts())
        finally:
            over.set()
        assert moved.result(20) is first is not second
        elsewhere.submit(loop.run_until_complete, client.close()).result(20)
    loop.close()


class SilentLoop(asyncio.SelectorEventLoop):
    """A loop that doesn't publish the thread in which it runs, like some loops of others."""

    _thread_id = property(lambda self: None, lambda self, value: None)  # type: ignore[assignment]


def test_a_loop_that_does_not_say_where_it_runs_is_served_as_well(name: str) -> None:
    client, loop = AsyncClient("memory://" + name), SilentLoop()

    async def use() -> object:
        async with client.lock(name):
            assert await client.lock(name).acquire(blocking=False) is None
        return await client.guard(name, ttl=60, local_ttl=60).get(loop_time)

    async def loop_time() -> float:
        return loop.time()

    assert loop.run_until_complete(use()) == loop.run_until_complete(use())
    loop.run_until_complete(client.close())
    loop.close()


@on_each_store
def test_what_a_loop_forgot_to_release_is_free_when_it_has_ended(
    client: AsyncClient, name: str
) -> None:
    hold = in_own_loop(lambda: client.lock(name).acquire())

    async def next_one() -> None:
        async with client.lock(name, timeout=3):
            pass

    with pytest.raises(LockLost):
        hold.check()
    in_own_loop(next_one)


@on_each_store
def test_closing_a_client_closes_it_in_every_loop(
    store: str, urls: dict[str, str], name: str
) -> None:
    client = AsyncClient(urls[store], ttl=10)
    started, go_on = threading.Event(), threading.Event()
    found: list[Any] = []

    async def refused() -> None:
        with pytest.raises(StoreUnavailable, match="closed"):
            await client.lock(name).acquire(blocking=False)

    async def first() -> None:
        found.append(await client.lock(name).acquire())
        started.set()
        await asyncio.to_thread(go_on.wait, 20)
        await refused()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(in_own_loop, first)
        assert started.wait(20)
        try:
            in_own_loop(client.close)
            with pytest.raises(LockLost):
                found[0].check()
        finally:
            go_on.set()
        running.result()
    in_own_loop(refused)


@pytest.mark.parametrize("store", ["memory", "sqlite", "redis"])
def test_a_client_forgets_ended_loops(client: AsyncClient, name: str) -> None:
    async def main() -> weakref.ReferenceType[Any]:
        async with client.lock(name, timeout=10):
            return weakref.ref(asyncio.get_running_loop())

    seen = [in_own_loop(main) for _ in range(20)]
    gc.collect()
    assert sum(one() is not None for one in seen) <= 2


@pytest.mark.parametrize("store", ["memory", "sqlite", "redis"])
def test_a_generator_that_ends_with_the_loop_releases_its_own_lock(
    client: AsyncClient, name: str
) -> None:
    left: list[BaseException | None] = []

    async def holding(number: int) -> Any:
        try:
            async with client.lock(f"{name}:{number}", timeout=5) as hold:
                try:
                    yield
                finally:
                    await asyncio.sleep(0)
                    hold.check()  # what it does at its end is protected as well
        except BaseException as wrong:
            left.append(None if isinstance(wrong, GeneratorExit) else wrong)
            raise

    async def main() -> None:
        for number in range(20):  # in whatever order the loop ends them
            kept.append(holding(number))
            await anext(kept[-1])

    kept: list[Any] = []
    in_own_loop(main)
    assert left == [None] * 20
