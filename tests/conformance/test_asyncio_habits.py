"""CPython's tests of ``asyncio``'s locks and semaphores, adapted to holdfast's.

CPython's tests can't run here unchanged. They read private queues, and call ``release()`` and
``locked()`` without ``await``. So each test that applies here is rewritten under its name.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncClient

_numbers = itertools.count()


class Bench:
    """Locks of one client, and a method that waits for waiters in a line."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client

    def lock(self) -> Any:
        return self.client.lock(f"habit {next(_numbers)}")

    def semaphore(self, value: int) -> Any:
        return self.client.semaphore(f"habit {next(_numbers)}", value)

    async def waiting(self, lock: Any, number: int) -> None:
        async with asyncio.timeout(10):
            while True:
                lines = await self.client.inspect(lock.name, exact=True)
                if sum(len(line.waiters) for line in lines) == number:
                    return
                await asyncio.sleep(0.001)


Text = Callable[[Bench], Awaitable[None]]


@pytest.fixture(params=["memory", "sqlite"])
def run(request: pytest.FixtureRequest, no_disk: Path) -> Callable[[Text], None]:
    urls = {"memory": "memory://asyncio habits", "sqlite": f"sqlite://{no_disk}/asyncio-habits.db"}

    def act(text: Text) -> None:
        async def main() -> None:
            async with asyncio.timeout(60), AsyncClient(urls[request.param]) as client:
                await text(Bench(client))
                assert await client.inspect() == []

        asyncio.run(main())

    return act


Run = Callable[[Text], None]


def test_lock(run: Run) -> None:
    async def text(bench: Bench) -> None:
        lock = bench.lock()
        with pytest.raises(TypeError, match="await"):
            await lock
        assert not await lock.locked()

    run(text)


def test_acquire(run: Run) -> None:
    async def text(bench: Bench) -> None:
        lock, result = bench.lock(), []
        assert await lock.acquire()

        async def work(number: int) -> bool:
            if await lock.acquire():
                result.append(number)
            return True

        tasks = []
        for number in (1, 2, 3):
            tasks.append(asyncio.create_task(work(number)))
            await bench.waiting(lock, number)
        assert result == []
        for number, task in enumerate(tasks, 1):
            await lock.release()
            assert await task is True
            assert result == [*range(1, number + 1)]
        await lock.release()

    run(text)


def test_acquire_cancel(run: Run) -> None:
    async def text(bench: Bench) -> None:
        lock = bench.lock()
        assert await lock.acquire()
        task = asyncio.create_task(lock.acquire())
        asyncio.get_running_loop().call_soon(task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        await bench.waiting(lock, 0)
        await lock.release()

    run(text)


def test_cancel_race(run: Run) -> None:
    async def text(bench: Bench) -> None:
        # A holds, B and C wait; then B is cancelled and A releases at the same time.
        lock = bench.lock()
        blocker = asyncio.get_running_loop().create_future()

        async def lockit(blocker: Any) -> None:
            await lock.acquire()
            try:
                if blocker is not None:
                    await blocker
            finally:
                await lock.release()

        a = asyncio.create_task(lockit(blocker))
        while not await lock.locked():
            await asyncio.sleep(0)
        b = asyncio.create_task(lockit(None))
        await bench.waiting(lock, 1)
        c = asyncio.create_task(lockit(None))
        await bench.waiting(lock, 2)
        blocker.set_result(None)
        b.cancel()
        await asyncio.wait([a, b, c], timeout=10)
        assert a.done()
        assert b.cancelled()
        assert await c is None
        assert not await lock.locked()

    run(text)


def test_cancel_release_race(run: Run) -> None:
    async def text(bench: Bench) -> None:
        # One task holds, three wait. The first waiter is cancelled while the lock is released. Then
        # exactly one of the other waiters gets the lock.
        lock, taken = bench.lock(), []

        async def lockit(number: int) -> None:
            await lock.acquire()
            taken.append(number)

        await lock.acquire()
        tasks = []
        for number in (1, 2, 3):
            tasks.append(asyncio.create_task(lockit(number)))
            await bench.waiting(lock, number)
        release = asyncio.create_task(lock.release())
        tasks[0].cancel()
        await release
        await asyncio.wait(tasks[:2], timeout=10)
        assert tasks[0].cancelled()
        assert taken == [2]
        tasks[2].cancel()
        await asyncio.wait(tasks[2:])
        assert taken == [2]
        await lock.release()

    run(text)


def test_finished_waiter_cancelled(run: Run) -> None:
    async def text(bench: Bench) -> None:
        lock = bench.lock()
        await lock.acquire()
        first = asyncio.create_task(lock.acquire())
        await bench.waiting(lock, 1)
        second = asyncio.create_task(lock.acquire())
        await bench.waiting(lock, 2)
        first.cancel()
        await lock.release()
        await asyncio.wait([first])
        assert first.cancelled()
        assert await second
        assert await lock.locked()
        await lock.release()

    run(text)


def test_release_not_acquired(run: Run) -> None:
    async def text(bench: Bench) -> None:
        for lock in (bench.lock(), bench.semaphore(2)):
            with pytest.raises(RuntimeError):
                await lock.release()

    run(text)


def test_release_no_waiters(run: Run) -> None:
    async def text(bench: Bench) -> None:
        for lock in (bench.lock(), bench.semaphore(1)):
            await lock.acquire()
            assert await lock.locked()
            await lock.release()
            assert not await lock.locked()

    run(text)


def test_context_manager(run: Run) -> None:
    async def text(bench: Bench) -> None:
        lock = bench.lock()
        assert not await lock.locked()
        async with lock:
            assert await lock.locked()
        assert not await lock.locked()

    run(text)


def test_semaphore_acquire(run: Run) -> None:
    async def text(bench: Bench) -> None:
        sem, result = bench.semaphore(3), []
        assert await sem.acquire()
        assert await sem.acquire()
        assert await sem.available() == 1

        async def work(number: int) -> bool:
            await sem.acquire()
            result.append(number)
            return True

        tasks = [asyncio.create_task(work(1))]
        await asyncio.wait(tasks)
        for number in (2, 3):
            tasks.append(asyncio.create_task(work(number)))
            await bench.waiting(sem, number - 1)
        assert result == [1]
        assert await sem.available() == 0
        await sem.release()
        await sem.release()
        await asyncio.wait(tasks)
        assert sorted(result) == [1, 2, 3]
        for _ in range(3):
            await sem.release()

    run(text)


def test_semaphore_acquire_cancel_before_awoken(run: Run) -> None:
    async def text(bench: Bench) -> None:
        sem = bench.semaphore(1)
        hold = await sem.acquire()
        tasks = []
        for number in range(4):
            tasks.append(asyncio.create_task(sem.acquire()))
            await bench.waiting(sem, number + 1)
        tasks[0].cancel()
        tasks[1].cancel()
        await hold.release()
        await asyncio.wait(tasks[:3], timeout=10)
        assert [task.done() for task in tasks] == [True, True, True, False]
        await (await tasks[2]).release()
        await (await tasks[3]).release()

    run(text)


def test_semaphore_acquire_hang_and_no_hang(run: Run) -> None:
    async def text(bench: Bench) -> None:
        # A waiter that is cancelled during its grant, once or twice, hands the permit on.
        for twice in (False, True):
            sem = bench.semaphore(1)
            hold = await sem.acquire()
            first = asyncio.create_task(sem.acquire())
            await bench.waiting(sem, 1)
            second = asyncio.create_task(sem.acquire())
            await bench.waiting(sem, 2)
            release = asyncio.create_task(hold.release())
            first.cancel()
            await asyncio.sleep(0)
            if twice:
                first.cancel()
            await release
            async with asyncio.timeout(10):
                await (await second).release()
            await asyncio.wait([first])
            assert not await sem.locked()

    run(text)


def test_semaphore_acquire_fifo_order(run: Run) -> None:
    async def text(bench: Bench) -> None:
        sem, result = bench.semaphore(1), []

        everybody_is_here = asyncio.Event()

        async def work(tag: str) -> None:
            await sem.acquire()
            result.append(f"{tag}_1")
            await everybody_is_here.wait()
            await sem.release()
            await sem.acquire()
            result.append(f"{tag}_2")
            await asyncio.sleep(0.005)
            await sem.release()

        async with asyncio.TaskGroup() as group:
            for number, tag in enumerate(["c1", "c2", "c3"]):
                group.create_task(work(tag))
                await bench.waiting(sem, number)
            everybody_is_here.set()
        assert result == ["c1_1", "c2_1", "c3_1", "c1_2", "c2_2", "c3_2"]

    run(text)


def test_semaphore_acquire_fifo_order_when_one_gives_up(run: Run) -> None:
    async def text(bench: Bench) -> None:
        sem, result = bench.semaphore(1), []

        async def work(number: int) -> None:
            await sem.acquire()
            result.append(number)
            await sem.release()

        hold = await sem.acquire()
        tasks = []
        for number in (1, 2, 3):
            tasks.append(asyncio.create_task(work(number)))
            await bench.waiting(sem, number)
        tasks[0].cancel()
        late = asyncio.create_task(work(4))
        await bench.waiting(sem, 3)
        await hold.release()
        await asyncio.wait([*tasks, late], timeout=10)
        assert result == [2, 3, 4]

    run(text)
