"""The fixtures for users' tests behave as the docs describe."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncClient, Client, ConfigError, LockLost, Loss, NotAcquired, NotHeld
from holdfast.testing.clock import TestClock
from holdfast.testing.rivals import Rival

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


def test_half_an_hour_passes_and_a_renewed_hold_is_still_held(
    locks: Client, lock_clock: TestClock
) -> None:
    begun = time.monotonic()
    with locks.lock("x", ttl=30) as hold, locks.lock("y", ttl=7) as other:
        lock_clock.advance(1800)
        hold.check()
        other.check()
        assert 19 < hold.remaining() < 30
    assert time.monotonic() - begun < 5


def test_what_is_not_renewed_ends_on_the_second(locks: Client, lock_clock: TestClock) -> None:
    told: list[Loss] = []
    lock = locks.lock("x", ttl=30, auto_renew=False, on_lost=lambda hold, why: told.append(why))
    hold = lock.acquire()
    lock_clock.advance(29)
    hold.check()
    assert locks.lock("x").acquire(blocking=False) is None
    lock_clock.advance(1.1)
    assert told == [Loss.EXPIRED]
    assert hold.release() is False
    with locks.lock("x", timeout=0) as again:
        assert again.fence > hold.fence


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


def test_a_jump_is_what_a_stopped_process_finds(locks: Client, lock_clock: TestClock) -> None:
    def be_stopped() -> None:
        with locks.lock("x", ttl=30) as hold:
            lock_clock.jump(31)
            assert hold.lost is Loss.EXPIRED
            with locks.lock("x", timeout=0) as other:
                assert other.fence > hold.fence

    with pytest.raises(LockLost, match="before its body ended: expired"):
        be_stopped()
    with locks.lock("x", ttl=30) as hold:
        lock_clock.jump(20)
        hold.check()
        assert hold.remaining() > 15  # and the keeper has renewed it by now


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
        _until(lambda n=number: len(locks.inspect("x")[0].waiters) == n + 1)
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
    _until(lambda: len(locks.inspect("x")[0].waiters) == 1)
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

    async def be_stopped() -> None:
        async with async_locks.lock("x", ttl=30, cancel_on_lost=True):
            await lock_clock.jump_async(31)
            await asyncio.sleep(20)

    with asyncio.Runner() as runner:
        runner.run(main())
        with pytest.raises(LockLost):
            runner.run(be_stopped())


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


def test_a_loss_ends_the_body_with_lock_lost(locks: Client, lose: Lose) -> None:
    with pytest.raises(LockLost, match="store unreachable"), locks.lock("x") as hold:
        lose(hold, reason="store unreachable until the deadline")
    with pytest.raises(LockLost), locks.all("a", "b") as both:
        lose(both)


def test_a_loss_cancels_the_task_that_asked_for_it(async_locks: AsyncClient, lose: Lose) -> None:
    async def main() -> None:
        async with async_locks.lock("x", cancel_on_lost=True) as hold:
            lose(hold)
            assert hold.lost is Loss.BROKEN
            await asyncio.sleep(20)

    with pytest.raises(LockLost):
        asyncio.run(main())


def test_a_rival_holds_waits_and_leaves(locks: Client, contend: Contend) -> None:
    rival = contend("x")
    assert rival.holding
    with pytest.raises(NotAcquired, match="held by elsewhere"), locks.lock("x", timeout=0):
        raise AssertionError
    rival.leave()
    assert not rival.holding
    with locks.lock("x") as hold:
        second = contend("x")
        assert not second.holding
        assert second.fence > hold.fence
    assert second.holding


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


def test_a_rival_may_vanish_as_if_it_was_killed(
    locks: Client, lock_clock: TestClock, contend: Contend
) -> None:
    rival = contend("x", seconds=30)
    lock_clock.advance(29)
    assert rival.holding
    lock_clock.advance(2)
    assert not rival.holding
    locks.lock("x").acquire(blocking=False).release()  # type: ignore[union-attr]


def _until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.002)


def test_what_is_no_lock_and_no_hold_is_refused_with_the_remedy(
    locks: Client, contend: Contend, lose: Lose
) -> None:
    queue = locks.queue("jobs")
    queue.put("x")
    with pytest.raises(ConfigError, match="a name or a lock"):
        contend(queue)
    with pytest.raises(ConfigError, match="takes a hold"):
        lose(queue.take())
