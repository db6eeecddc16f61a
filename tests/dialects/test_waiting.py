"""Waiting on a plain key: any client that frees it wakes the waiter, soon and at little cost."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import threading
import time
from collections.abc import Callable

import pytest
import redis

from holdfast import AsyncClient, Client
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import DROP_PUSH, RESP, Proxy
from tests.dialects.conftest import Ours
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer, old_program
from tests.torture.scale import figures, times

lag.watch()
ROUNDS = times(300, 20)
#: Maximum median of the seconds from another client's release until holdfast holds.
WOKEN_S = 0.015
#: The cost test observes a waiter for ``WATCHED_S`` seconds, after ``BEFORE_S`` without counting.
WATCHED_S, BEFORE_S = 3.0, 0.5


def woken_in_threads(locks: Client, release: Callable[[], object]) -> float:
    got: list[float] = []

    def wait() -> None:
        with locks.lock("x", timeout=20):
            got.append(time.perf_counter())

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.05)  # so that it waits; if it doesn't yet, it only looks better
    begun = time.perf_counter()
    release()
    waiter.join(20)
    return got[0] - begun


def test_a_thread_is_woken_by_the_release_of_another_client(
    ours: Ours, raw: redis.Redis, prefix: str
) -> None:
    locks = ours()
    begun, took = boottime(), []
    for _ in range(ROUNDS):
        theirs = raw.lock(prefix + "x", timeout=30)
        assert theirs.acquire(blocking=False)
        took.append(woken_in_threads(locks, theirs.release))
    print(figures("woken", took))
    assert statistics.median(took) < WOKEN_S + lag.since(begun) / ROUNDS


def test_a_task_is_woken_by_the_release_of_another_client(
    shared_redis: RedisServer, raw: redis.Redis, prefix: str
) -> None:
    took: list[float] = []

    async def main() -> None:
        url = f"redis+plain://127.0.0.1:{shared_redis.port}/0?prefix={prefix}"
        async with AsyncClient(url) as locks:

            async def wait() -> float:
                async with locks.lock("x", timeout=20):
                    return time.perf_counter()

            for _ in range(ROUNDS):
                theirs = raw.lock(prefix + "x", timeout=30)
                assert theirs.acquire(blocking=False)
                waiter = asyncio.create_task(wait())
                await asyncio.sleep(0.05)
                begun = time.perf_counter()
                theirs.release()
                took.append(await waiter - begun)

    begun = boottime()
    asyncio.run(main())
    print(figures("woken", took))
    assert statistics.median(took) < WOKEN_S + lag.since(begun) / ROUNDS


@pytest.mark.parametrize("protocol", [3, 2])
def test_a_waiter_sends_few_commands(protocol: int, new_redis: NewRedis) -> None:
    server = new_redis()
    url = f"redis+plain://127.0.0.1:{server.port}/0?protocol={protocol}"
    with Client(url) as holder, Client(url) as waiting:
        with holder.lock("x"):
            served = threading.Thread(target=lambda: waiting.lock("x").acquire().release())
            served.start()
            time.sleep(BEFORE_S)
            before, begun = server.calls(), boottime()
            time.sleep(WATCHED_S)
            after, took = server.calls(), boottime() - begun
        served.join(20)
    sent = {name: calls - before.get(name, 0) for name, calls in after.items()}
    sent = {name: calls for name, calls in sent.items() if calls and "info" not in name}
    print(sent)
    # Commands inside scripts count too; without notifications the first pauses are short.
    assert sum(sent.values()) <= 2 * took + (2 if protocol == 2 else 0)


@pytest.mark.parametrize("protocol", [3, 2])
def test_a_dead_holder_is_followed_when_its_key_expires(
    protocol: int, ours: Ours, raw: redis.Redis, prefix: str, own_name: str
) -> None:
    locks = ours(protocol=str(protocol))
    raw.set(prefix + own_name, "dead", px=700)
    begun = boottime()
    with locks.lock(own_name, timeout=20):
        assert boottime() - begun < 0.7 + 0.65 + lag.since(begun)


@pytest.mark.parametrize("protocol", [3, 2])
def test_a_holder_without_an_end_is_waited_for(
    protocol: int, ours: Ours, raw: redis.Redis, prefix: str, own_name: str
) -> None:
    locks = ours(protocol=str(protocol))
    theirs = raw.lock(prefix + own_name, thread_local=False)  # as redis-py has it without a word
    assert theirs.acquire(blocking=False)
    assert locks.lock(own_name).acquire(timeout=0.3) is None
    given: list[float] = []

    def give() -> None:
        given.append(boottime())
        # redis-py repeats a request whose reply was lost, and then its token is no longer there
        with contextlib.suppress(redis.exceptions.LockNotOwnedError):
            theirs.release()

    later = threading.Timer(0.4, give)
    begun = boottime()
    later.start()
    with locks.lock(own_name, timeout=20):
        assert given, "it was had before it was given back"
        assert boottime() - begun < 0.4 + 5.0 + lag.since(begun)


def test_a_message_that_is_lost_costs_no_more_than_the_next_try(
    shared_redis: RedisServer, raw: redis.Redis, prefix: str, own_name: str
) -> None:
    with Proxy(shared_redis.host, shared_redis.port, RESP) as proxy:
        url = f"redis+plain://127.0.0.1:{proxy.port}/0?prefix={prefix}"
        with Client(url) as locks:
            raw.set(prefix + own_name, "theirs", px=30_000)
            lost = proxy.arm(b"invalidate", DROP_PUSH)
            later = threading.Timer(0.3, raw.delete, (prefix + own_name,))
            later.start()
            begun = boottime()
            with locks.lock(own_name, timeout=20):
                assert boottime() - begun < 0.3 + 5.0 + lag.since(begun)
            assert lost.hits == 1


def test_many_waiters_are_all_served(ours: Ours) -> None:
    inside: list[int] = []
    served: list[int] = []

    def work(number: int) -> None:
        with ours().lock("x", ttl=5, timeout=30):
            inside.append(number)
            time.sleep(0.001)
            assert inside == [number]
            inside.clear()
            served.append(number)

    crew = [threading.Thread(target=work, args=(number,)) for number in range(9)]
    for one in crew:
        one.start()
    for one in crew:
        one.join(40)
    assert sorted(served) == list(range(9))


def test_a_waiter_on_the_oldest_server_is_woken_too(new_redis: NewRedis) -> None:
    server = new_redis(server=old_program())
    with server.client() as raw, Client(f"redis+plain://127.0.0.1:{server.port}/0") as locks:
        took = []
        for _ in range(3):
            theirs = raw.lock("x", timeout=30)
            assert theirs.acquire(blocking=False)
            begun = boottime()
            woken = woken_in_threads(locks, theirs.release)
            took.append(woken - lag.since(begun))
        assert sorted(took)[1] < 0.25
        assert not locks.inspect("x", exact=True)
