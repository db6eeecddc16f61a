"""asyncio: a cancelled task leaves nothing behind, and a lost lock can cancel its body."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from ....core.model import Loss
from ....errors import ConfigError, LockLost, NotAcquired
from ...faces import now
from ..arena import EXCLUSIVE, KEPT_S, SINGLE, Arena, at_once, raises
from ..registry import case

BECAUSE = "a thread can't be cancelled"
LOOP = "only asyncio has an event loop"


async def cancelled(task: asyncio.Task[Any]) -> bool:
    """Wait for the end of a task; return True if the task was cancelled."""
    done, _ = await asyncio.wait([task], timeout=5)
    assert done, "the task continues"
    return task.cancelled()


@case(*EXCLUSIVE, "all", only="aio", because=BECAUSE)
async def a_cancelled_waiter_is_out_of_the_line_and_the_next_is_served(at: Arena) -> None:
    async def wait(lock: Any) -> int:
        async with lock:
            return 1

    async with at.lock():
        first = asyncio.create_task(wait(at.rival()))
        await at.line(waiters=1)
        second = asyncio.create_task(wait(at.rival()))
        await at.line(waiters=2)
        first.cancel()
        assert await cancelled(first)
        await at.line(waiters=1)
    begun = now()
    assert await second == 1
    assert now() - begun < at.served(begun)


@case(*(one for one in EXCLUSIVE if one != "reentrant"), only="aio", because=BECAUSE)
async def a_waiter_cancelled_in_the_moment_of_the_grant_passes_it_on(at: Arena) -> None:
    async def wait() -> bool:
        async with at.rival():
            return True

    for late in range(4):
        hold = await at.lock().acquire()
        first = asyncio.create_task(wait())
        await at.line(waiters=1)
        second = asyncio.create_task(wait())
        await at.line(waiters=2)
        release = asyncio.create_task(hold.release())
        for _ in range(late):
            await asyncio.sleep(0)
        first.cancel()
        assert await release is True
        begun = now()
        assert await second is True
        assert now() - begun < 5.0 + at_once(begun)
        await asyncio.wait([first])
        await at.free()  # on a busy server the renewer continues the undo


@case(*SINGLE, "all", only="aio", because=BECAUSE)
async def a_task_cancelled_anywhere_on_its_way_leaves_nothing(at: Arena) -> None:
    async def work() -> None:
        async with lock:
            await asyncio.sleep(0)

    lock = at.lock()
    for steps in range(12):
        task = asyncio.create_task(work())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        begun = now()
        # The undo can end later: on a busy server the renewer continues the undo
        while (line := await at.look()) is not None and now() - begun < 5.0:
            await at.sleep(0.02)
        assert line is None, f"cancelled after {steps} steps: {line}"


@case(*EXCLUSIVE, only="aio", because=BECAUSE)
async def wait_for_and_timeout_bound_an_acquire(at: Arena) -> None:
    async def by_wait_for() -> None:
        await asyncio.wait_for(at.rival().acquire(), 0.05)

    async def by_timeout() -> None:
        async with asyncio.timeout(0.05), at.rival():
            raise AssertionError("the body ran without the lock")

    async with at.lock():
        for act in (by_wait_for, by_timeout):
            begun = now()
            with raises(TimeoutError) as caught:
                await act()
            assert not isinstance(caught.error, NotAcquired)
            assert now() - begun < 0.05 + at_once(begun)
            await at.line(waiters=0)
            assert await at.holders()


@case(*(one for one in SINGLE if one != "reentrant"), "all", only="aio", because=LOOP)
async def an_acquire_can_be_made_a_task(at: Arena) -> None:
    lock: Any = at.lock()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(lock.acquire())
    hold: Any = task.result()
    assert await hold.release() is True
    (hold,) = await asyncio.gather(lock.acquire())
    assert await hold.release() is True


@case(*SINGLE, "all", only="aio", because=LOOP, alone=True)
async def a_forgotten_await_does_not_enter_the_body(at: Arena) -> None:
    lock: Any = at.lock()
    answers = [lock.acquire] + ([lock.locked] if hasattr(lock, "locked") else [])
    for answer in answers:
        with raises(TypeError, "await"):
            assert not answer(), "a forgotten await entered the body"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lock.acquire()
    assert [w.category for w in caught] == [RuntimeWarning]
    assert not await at.holders()


@case(*(one for one in SINGLE if one != "reentrant"), only="aio", because=BECAUSE)
async def a_release_that_is_cancelled_is_carried_out(at: Arena) -> None:
    for steps in range(4):
        hold = await at.lock(ttl=20.0).acquire()
        task = asyncio.create_task(hold.release())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        if steps:
            await at.free()
        else:
            await hold.release()  # the task that should release it never began


async def _after_a_break(at: Arena, body: Callable[[Any], Awaitable[Any]]) -> LockLost:
    """Run a body after its hold was broken, with ``cancel_on_lost``; return the error."""
    with raises(LockLost, at.name) as caught:
        async with at.locks.lock(at.name, ttl=KEPT_S, cancel_on_lost=True) as hold:
            await at.others.break_(at.name, at.number(hold))
            await body(hold)
    return caught.error


@case("lock", only="aio", because=BECAUSE)
async def a_loss_cancels_the_body_and_becomes_lock_lost(at: Arena) -> None:
    async def body(hold: Any) -> None:
        await asyncio.sleep(20)
        raise AssertionError("the body continued")

    begun = now()
    loss = await _after_a_break(at, body)
    assert now() - begun < KEPT_S + at_once(begun)
    assert loss.reason is Loss.BROKEN
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)  # no cancellation arrives later


@case("lock", only="aio", because=BECAUSE)
async def a_body_that_swallows_the_cancellation_still_gets_the_loss(at: Arena) -> None:
    async def body(hold: Any) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(20)

    assert (await _after_a_break(at, body)).reason is Loss.BROKEN


@case("lock", only="aio", because=BECAUSE)
async def the_bodys_own_exception_beats_the_cancellation(at: Arena) -> None:
    async def body(hold: Any) -> None:
        try:
            await asyncio.sleep(20)
        finally:
            raise KeyError("the body's own")

    with raises(KeyError) as caught:
        await _after_a_break(at, body)
    assert "lost" in caught.error.__notes__[0]


@case("lock", only="aio", because=BECAUSE)
async def a_cancellation_from_outside_stays_a_cancellation(at: Arena) -> None:
    async def holder_task(inside: asyncio.Event) -> None:
        async with at.locks.lock(at.name, cancel_on_lost=True):
            inside.set()
            await asyncio.sleep(20)

    inside = asyncio.Event()
    task = asyncio.create_task(holder_task(inside))
    await inside.wait()
    task.cancel()
    assert await cancelled(task)
    await at.free()

    async def both(inside: asyncio.Event) -> None:
        async with at.locks.lock(at.name, ttl=KEPT_S, cancel_on_lost=True) as hold:
            inside.set()
            try:
                await asyncio.sleep(20)
            finally:
                await hold.wait_lost(5)

    inside.clear()
    task = asyncio.create_task(both(inside))
    await inside.wait()
    (holder,) = await at.holders()
    await at.others.break_(at.name, holder.fence)
    task.cancel()
    assert await cancelled(task), "the cancellation from outside was swallowed"


@case("lock", only="aio", because=BECAUSE)
async def a_loss_cancels_no_task_that_has_left_the_body(at: Arena) -> None:
    options = {"ttl": KEPT_S, "max_hold": KEPT_S, "cancel_on_lost": True}
    async with at.lock(**options) as hold:
        pass
    await asyncio.sleep(KEPT_S + 0.1)
    assert hold.lost is None


@case("lock", only="aio", because=LOOP)
async def a_client_serves_another_loop_and_a_hold_stays_with_its_own(at: Arena) -> None:
    async def elsewhere() -> None:
        assert await at.lock().acquire(blocking=False) is None
        async with at.locks.lock(at.fresh("elsewhere")) as other:
            other.check()
        with raises(ConfigError, "belongs to the event loop"):
            await hold.release()

    async with at.lock() as hold:
        await asyncio.to_thread(asyncio.run, elsewhere())
        hold.check()


@case("lock", only="aio", because=LOOP)
async def renewing_resumes_after_all_tasks_were_cancelled(at: Arena) -> None:
    async with at.lock(ttl=2 * KEPT_S) as first:
        for steps in (0, 3):  # before the renewer has begun, and then while it sleeps
            async with at.locks.lock(at.fresh(str(steps)), ttl=2 * KEPT_S) as hold:
                for _ in range(steps):
                    await asyncio.sleep(0)
                others = asyncio.all_tasks() - {asyncio.current_task()}
                assert others
                for task in others:
                    task.cancel()
                await asyncio.wait(others)
                async with at.locks.lock(at.fresh("next"), ttl=2 * KEPT_S) as second:
                    for one in (first, hold, second):
                        await at.renewed(one)
                        one.check()
