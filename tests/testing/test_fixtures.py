"""The fixtures for users' tests behave as the docs describe.

``test_plugin.py`` runs the tests of docs/testing.md; here is what they don't show.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncClient, Client, ConfigError, LockLost, Loss, NotHeld
from holdfast.testing.clock import TestClock
from holdfast.testing.rivals import Rival
from tests.servers.process import until

Contend = Callable[..., Rival]
Lose = Callable[..., None]


def test_locks_is_a_real_client_on_a_separate_store(locks: Client) -> None:
    assert isinstance(locks, Client)
    with locks.lock("x") as hold:
        assert 25 < hold.remaining() < 30
        assert [line.name for line in locks.inspect()] == ["x"]
    assert Client("memory://").inspect() == []


def test_both_clients_share_the_store(locks: Client, async_locks: AsyncClient) -> None:
    async def attempt() -> Any:
        return await async_locks.lock("x").acquire(blocking=False)

    with locks.lock("x"):
        assert asyncio.run(attempt()) is None


def test_max_hold_and_min_hold_go_by_the_clock(locks: Client, lock_clock: TestClock) -> None:
    hold = locks.lock("x", max_hold=3600).acquire()
    lock_clock.advance(3500)
    hold.check()
    lock_clock.advance(110)
    assert hold.lost is Loss.MAX_HOLD
    hold.release()
    locks.lock("y", min_hold=600).acquire().release()
    lock_clock.advance(590)
    assert locks.lock("y").locked()
    lock_clock.advance(20)
    assert not locks.lock("y").locked()


def test_a_waiter_keeps_its_place_while_time_passes(
    locks: Client, lock_clock: TestClock, contend: Contend
) -> None:
    served: list[int] = []

    def wait(number: int) -> None:
        with locks.lock("x"):
            served.append(number)

    rival = contend("x")
    threads = []
    for number in range(3):
        threads.append(threading.Thread(target=wait, args=[number]))
        threads[-1].start()
        until(lambda n=number: len(locks.inspect("x")[0].waiters) == n + 1, "it waits")
    lock_clock.advance(120)
    assert len(locks.inspect("x")[0].waiters) == 3
    rival.leave()
    for thread in threads:
        thread.join(5)
    assert served == [0, 1, 2]


def test_a_wait_with_a_bound_ends_by_the_clock(
    locks: Client, lock_clock: TestClock, contend: Contend
) -> None:
    contend("x")
    answers: list[Any] = []
    waiter = threading.Thread(target=lambda: answers.append(locks.lock("x").acquire(timeout=300)))
    begun = time.monotonic()
    waiter.start()
    until(lambda: len(locks.inspect("x")[0].waiters) == 1, "it waits")
    lock_clock.advance(299)
    assert answers == []
    lock_clock.advance(2)
    waiter.join(5)
    assert answers == [None]
    assert time.monotonic() - begun < 5


def test_the_clock_moves_tasks_too(async_locks: AsyncClient, lock_clock: TestClock) -> None:
    async def main() -> None:
        async with async_locks.lock("x", ttl=30) as hold:
            await lock_clock.advance_async(600)
            hold.check()
            waiter = asyncio.create_task(async_locks.lock("x").acquire(timeout=60))
            await asyncio.sleep(0)
            await lock_clock.advance_async(61)
            assert await waiter is None
            with pytest.raises(RuntimeError, match="advance_async"):
                lock_clock.advance(1)

    asyncio.run(main())


@pytest.mark.parametrize("reason", Loss)
def test_a_hold_is_lost_for_the_reason_that_is_asked_for(
    locks: Client, lose: Lose, reason: Loss
) -> None:
    told: list[Any] = []
    for auto_renew in (True, False):
        lock = locks.lock("x", auto_renew=auto_renew, on_lost=lambda *news: told.append(news))
        hold = lock.acquire()
        lose(hold, reason=reason)
        assert told.pop() == (hold, reason)
        assert (hold.lost, hold.release()) == (reason, False)
        assert not locks.lock("x").locked()
        with pytest.raises(NotHeld):
            lose(hold)


def test_a_loss_of_several_ends_the_body_with_lock_lost(locks: Client, lose: Lose) -> None:
    with pytest.raises(LockLost), locks.all("a", "b") as both:
        lose(both)


def test_a_rival_can_enter_any_line(locks: Client, contend: Contend) -> None:
    gpu = locks.semaphore("gpu", 2)
    contend(gpu)
    with gpu:
        assert gpu.acquire(blocking=False) is None
    catalog = locks.rwlock("catalog")
    contend(catalog.read)
    catalog.read.acquire().release()
    assert catalog.write.acquire(timeout=0) is None
    with pytest.raises(Exception, match="catalog"):
        contend("catalog")


def test_what_is_no_lock_and_no_hold_is_refused_with_the_remedy(
    locks: Client, contend: Contend, lose: Lose
) -> None:
    queue = locks.queue("jobs")
    queue.put("x")
    with pytest.raises(ConfigError, match="a name or a lock"):
        contend(queue)
    with pytest.raises(ConfigError, match="takes a hold"):
        lose(queue.take())
