"""One asyncio client, created at module level, in several event loops."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncClient, ConfigError, LockLost, NotAcquired, StoreUnavailable

STORES = ["memory", "sqlite", "redis", "redis+plain", "postgresql", "mysql", "zookeeper"]
WITH_QUEUES = ["memory", "sqlite", "redis", "postgresql", "mysql", "zookeeper"]
WITH_GUARDS = ["memory", "sqlite", "redis", "postgresql", "mysql"]


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


def sockets() -> int:
    return sum(os.readlink(one).startswith("socket:") for one in _descriptors())


def _descriptors() -> Iterator[Path]:
    for one in Path("/proc/self/fd").iterdir():
        if one.is_symlink():
            yield one


@pytest.mark.parametrize("store", STORES)
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


@pytest.mark.parametrize("store", STORES)
def test_two_loops_in_two_threads_exclude_each_other_through_one_client(
    client: AsyncClient, name: str
) -> None:
    lock = client.lock(name, timeout=20)
    inside, most, rounds = 0, 0, 6

    async def main() -> None:
        nonlocal inside, most
        for _ in range(rounds):
            async with lock as hold:
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.002)
                hold.check()
                inside -= 1

    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(in_own_loop, main) for _ in range(2)]:
            one.result()
    assert most == 1


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
        # Then each loop has its own parts of the client
        assert moved.result(20) is first is not second
        elsewhere.submit(loop.run_until_complete, client.close()).result(20)
    loop.close()


class SilentLoop(asyncio.SelectorEventLoop):
    """A loop that doesn't publish the thread in which it runs, like some loops of others."""

    @property
    def _thread_id(self) -> None:
        return None

    @_thread_id.setter
    def _thread_id(self, value: int | None) -> None:
        pass


def test_a_loop_that_does_not_say_where_it_runs_is_served_as_well(name: str) -> None:
    client, loop = AsyncClient("memory://" + name), SilentLoop()

    async def use() -> object:
        async with client.lock(name):
            assert await client.lock(name).acquire(blocking=False) is None
        hold = await client.lock(name).acquire()
        assert await hold.release()
        return await client.guard(name, ttl=60, local_ttl=60).get(loop_time)

    async def loop_time() -> float:
        return loop.time()

    assert loop.run_until_complete(use()) == loop.run_until_complete(use())
    loop.run_until_complete(client.close())
    loop.close()


@pytest.mark.parametrize("store", [one for one in STORES if one != "memory"])
def test_no_connection_of_a_loop_outlives_it(client: AsyncClient, name: str) -> None:
    async def main() -> None:
        async with client.lock(name, timeout=10):
            pass

    in_own_loop(main)
    before = sockets()
    for _ in range(5):
        in_own_loop(main)
    assert sockets() <= before


@pytest.mark.parametrize("store", [one for one in STORES if one != "memory"])
def test_no_connection_outlives_a_loop_that_was_closed_without_ado(
    client: AsyncClient, name: str
) -> None:
    async def main() -> None:
        async with client.lock(name, timeout=10):
            pass

    def careless() -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
        loop.close()

    careless()
    careless()
    before = sockets()
    for _ in range(5):
        careless()
    end = time.monotonic() + 20
    while sockets() > before and time.monotonic() < end:  # a driver's thread may be ending yet
        gc.collect()
        time.sleep(0.05)
    assert sockets() <= before


@pytest.mark.parametrize("store", STORES)
def test_a_hold_stays_with_the_loop_that_took_it(client: AsyncClient, name: str) -> None:
    started, go_on = threading.Event(), threading.Event()
    found: list[Any] = []

    async def first() -> None:
        async with client.lock(name, timeout=10) as hold:
            found.append(hold)
            started.set()
            await asyncio.to_thread(go_on.wait, 20)
            hold.check()

    async def second() -> None:
        with pytest.raises(ConfigError, match="belongs to the event loop"):
            await found[0].release()
        with pytest.raises(NotAcquired):
            async with client.lock(name, timeout=1):
                pytest.fail("it is held")

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(in_own_loop, first)
        assert started.wait(20)
        try:
            in_own_loop(second)
        finally:
            go_on.set()
        running.result()


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("way", ["lock", "hold", "all"])
def test_a_body_ended_in_another_loop_releases_in_the_loop_of_its_lock(
    client: AsyncClient, name: str, way: str
) -> None:
    async def body() -> Any:
        lock: Any = client.all(name, timeout=10) if way == "all" else client.lock(name, timeout=10)
        async with await lock.acquire() if way == "hold" else lock:
            yield

    async def main() -> None:
        generator = body()
        await anext(generator)
        await asyncio.to_thread(in_own_loop, generator.aclose)
        async with client.lock(name, timeout=20):
            pass
        assert await client.inspect(name) == []

    in_own_loop(main)


@pytest.mark.parametrize("store", STORES)
def test_what_a_loop_forgot_to_release_is_free_when_it_has_ended(
    client: AsyncClient, name: str
) -> None:
    kept: list[Any] = []

    async def forgets() -> None:
        kept.append(await client.lock(name).acquire())

    async def next_one() -> None:
        async with client.lock(name, timeout=3):
            pass

    in_own_loop(forgets)
    with pytest.raises(LockLost):
        kept[0].check()
    in_own_loop(next_one)


@pytest.mark.parametrize("store", WITH_QUEUES)
def test_a_queue_made_at_import_time_serves_several_loops(client: AsyncClient, name: str) -> None:
    queue = client.queue(name)
    done: list[Any] = []

    async def handle(job: Any) -> None:
        done.append(job.payload)

    worker = queue.worker(handle, drain=True)

    async def put() -> None:
        await queue.put("one", group="g")
        await queue.put("two", group="g")

    async def take() -> None:
        job = await queue.take(timeout=10)
        assert job is not None
        done.append(job.payload)
        assert await job.ack()

    async def work() -> None:
        await worker.run()

    in_own_loop(put)
    in_own_loop(take)
    in_own_loop(work)
    assert done == ["one", "two"]


@pytest.mark.parametrize("store", WITH_GUARDS)
def test_a_guard_made_at_import_time_serves_several_loops(client: AsyncClient, name: str) -> None:
    calls = 0

    @client.cached(name + ":{key}", ttl=60)
    async def cached(key: str) -> str:
        nonlocal calls
        calls += 1
        return key

    assert [in_own_loop(lambda: cached("k")) for _ in range(3)] == ["k"] * 3
    assert calls == 1
    assert in_own_loop(lambda: cached.invalidate("k")) == 1
    assert in_own_loop(lambda: cached("k")) == "k"
    assert calls == 2


@pytest.mark.parametrize("store", STORES)
def test_closing_a_client_closes_it_in_every_loop(
    store: str, urls: dict[str, str], name: str
) -> None:
    client = AsyncClient(urls[store], ttl=10)
    started, go_on = threading.Event(), threading.Event()
    found: list[Any] = []

    async def first() -> None:
        found.append(await client.lock(name).acquire())
        started.set()
        await asyncio.to_thread(go_on.wait, 20)
        with pytest.raises(StoreUnavailable, match="closed"):
            await client.lock(name).acquire(blocking=False)

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
    with pytest.raises(StoreUnavailable, match="closed"):
        in_own_loop(lambda: client.lock(name).acquire(blocking=False))


@pytest.mark.parametrize("store", ["memory", "sqlite", "redis"])
def test_a_client_forgets_ended_loops(client: AsyncClient, name: str) -> None:
    async def main() -> weakref.ReferenceType[Any]:
        async with client.lock(name, timeout=10):
            return weakref.ref(asyncio.get_running_loop())

    seen = [in_own_loop(main) for _ in range(20)]
    gc.collect()
    assert sum(one() is not None for one in seen) <= 2


@pytest.mark.parametrize("store", ["memory", "sqlite", "redis"])
def test_a_coroutine_may_be_made_before_its_loop(client: AsyncClient, name: str) -> None:
    lock = client.lock(name)
    for _ in range(3):
        hold = asyncio.run(_released(lock.acquire()))
        assert hold is not None


async def _released(acquiring: Any) -> Any:
    hold = await acquiring
    await hold.release()
    return hold


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
        except GeneratorExit:
            left.append(None)
            raise
        except BaseException as wrong:
            left.append(wrong)
            raise

    async def main() -> None:
        for number in range(20):  # in whatever order the loop ends them
            kept.append(holding(number))
            await anext(kept[-1])

    kept: list[Any] = []
    in_own_loop(main)
    assert left == [None] * 20
