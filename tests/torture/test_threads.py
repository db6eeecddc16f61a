"""Many threads on one client, and holds without any reference."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import threading
import time
from collections.abc import Iterator

import pytest

from holdfast import AsyncClient, Client
from holdfast.testing.faults import dice
from tests.torture.scale import times

THREADS = 8


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as one:
        yield one


def beside(many: int, work: object) -> None:
    """Run this number of threads to their end; raise the first error of a thread."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)  # type: ignore[operator]
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures, failures[0]
    assert not any(thread.is_alive() for thread in threads)


def test_threads_on_one_name_hold_it_one_after_the_other(client: Client) -> None:
    # Given one lock object that eight threads share
    lock = client.lock("x")
    inside: list[int] = []
    fences: list[int] = []

    def work(number: int) -> None:
        for _ in range(times(400, 100)):
            with lock as hold:
                inside.append(number)
                assert inside == [number]
                fences.append(hold.fence)
                inside.remove(number)

    beside(THREADS, work)
    assert len(fences) == THREADS * times(400, 100)
    assert fences == sorted(set(fences))
    assert client.inspect() == []


def test_threads_on_many_names_keep_permits_and_reentry_separate(client: Client) -> None:
    # Given threads that use several primitives on a few names, in a random mixture
    chance = dice("threads")
    seeds = [chance.random() for _ in range(THREADS)]
    inside = {f"s{n}": 0 for n in range(3)}
    mutex = threading.Lock()

    def permits(name: str) -> None:
        with client.semaphore(name, 3, weight=2, timeout=60):
            with mutex:
                inside[name] += 2
                assert inside[name] <= 3
            with mutex:
                inside[name] -= 2

    def work(number: int) -> None:
        mine = random.Random(seeds[number])
        for _ in range(times(300, 60)):
            name = mine.randrange(3)
            kind = mine.randrange(4)
            if kind == 0:
                permits(f"s{name}")
            elif kind == 1:
                lock = client.lock(f"r{name}", reentrant=True, timeout=60)
                with lock as outer, lock as inner:
                    assert outer is inner
            elif kind == 2:
                read = client.rwlock(f"w{name}", timeout=60).read
                with read, read:
                    pass
            else:
                with client.all(f"a{name}", f"a{(name + 1) % 3}", timeout=60):
                    pass

    beside(THREADS, work)
    assert client.inspect() == []


def test_a_thread_started_inside_inherits_nothing(client: Client) -> None:
    # Given a thread that is inside a reentrant lock, and inside a read
    lock, sides = client.lock("x", reentrant=True), client.rwlock("w")
    got: list[object] = []

    def other(_: int) -> None:
        got.append(lock.acquire(blocking=False))
        got.append(sides.write.acquire(blocking=False))

    with lock, sides.read:
        assert lock.acquire(blocking=False) is not None
        # When another thread tries, then it gets nothing
        beside(1, other)
        assert lock.release()
    assert got == [None, None]


def test_a_task_started_inside_inherits_nothing(url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as client:
            lock, sides = client.lock("x", reentrant=True), client.rwlock("w")
            async with lock, sides.read:
                assert await lock.acquire(blocking=False) is not None
                other = asyncio.create_task(lock.acquire(blocking=False))
                assert await other is None
                other = asyncio.create_task(sides.write.acquire(blocking=False))
                assert await other is None
                assert await lock.release()

    asyncio.run(main())


def test_forgotten_holds_warn_are_renewed_no_more_and_expire(client: Client) -> None:
    # Given holds without any reference
    def forget() -> None:
        for number in range(times(200, 50)):
            client.lock(f"x{number}", ttl=0.5).acquire()
        gc.collect()
        client.lock("y").acquire().release()

    with pytest.warns(ResourceWarning, match="collected without release"):
        forget()
    # When their ttl has expired
    begun = time.monotonic()
    while client.inspect():
        assert time.monotonic() < begun + 5
        time.sleep(0.01)
    # Then all are gone, and the renewer has no work
    assert client._ctx.keeper.pending() == 0


def test_holds_forgotten_by_tasks_expire_too(url: str, caplog: pytest.LogCaptureFixture) -> None:
    many = times(100, 20)

    async def main() -> None:
        async with AsyncClient(url) as client:
            for number in range(many):
                await client.lock(f"x{number}", ttl=0.5).acquire()
            gc.collect()
            begun = time.monotonic()
            while await client.inspect():
                assert time.monotonic() < begun + 5
                await asyncio.sleep(0.02)
            async with client.lock("y"):
                pass

    with caplog.at_level(logging.WARNING, "holdfast"), pytest.warns(ResourceWarning):
        asyncio.run(main())
    said = [record for record in caplog.records if "collected without release" in record.message]
    assert len(said) == many
