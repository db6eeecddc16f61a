"""The purpose of a lock: one holder at a time, in order of arrival, with rising fences."""

from __future__ import annotations

import re

from ....errors import NotAcquired, NotHeld
from ...faces import now
from ..arena import EXCLUSIVE, SINGLE, Arena, at_once, raises, unclear
from ..registry import case

BUSY_S = 0.25


@case(*EXCLUSIVE)
async def an_acquired_name_is_held_until_it_is_released(at: Arena) -> None:
    lock = at.lock()
    assert not await lock.locked()
    hold = await lock.acquire()
    assert await lock.locked()
    assert await at.rival().locked()
    assert await hold.release() is True
    assert not await lock.locked()
    again = await at.rival().acquire(blocking=False)
    assert again is not None
    await again.release()


@case(*EXCLUSIVE)
async def a_try_on_a_busy_name_answers_none_at_once(at: Arena) -> None:
    async with at.lock():
        begun = now()
        assert await at.rival().acquire(blocking=False) is None
        assert await at.rival().acquire(timeout=0) is None
        assert now() - begun < 2 * at_once(begun)
        line = await at.look()
    assert line is not None
    assert line.waiters == ()


@case(*EXCLUSIVE)
async def a_bounded_wait_for_a_busy_name_ends_in_time_and_leaves_the_line(at: Arena) -> None:
    async with at.lock():
        begun = now()
        assert await at.rival().acquire(timeout=BUSY_S) is None
        took = now() - begun
        line = await at.look()
    assert BUSY_S <= took < BUSY_S + at_once(begun)
    assert line is not None
    assert line.waiters == ()


@case(*EXCLUSIVE)
async def an_unbounded_wait_is_served_when_the_name_is_free(at: Arena) -> None:
    async def wait() -> float:
        async with at.rival():
            return now()

    hold = await at.lock().acquire()
    waiter = at.start(wait)
    await at.line(waiters=1)
    assert not waiter.finished
    released = now()
    await hold.release()
    assert await waiter.result() - released < at.served(released)


@case(*EXCLUSIVE, needs=["fair"])
async def waiters_are_served_in_order_of_arrival(at: Arena) -> None:
    served: list[int] = []
    fences: list[int] = []

    async def wait(number: int) -> None:
        lock = at.lock() if number % 2 else at.rival()
        async with lock as hold:
            served.append(number)
            fences.append(hold.fence)

    async with at.lock() as first:
        waiters = []
        for number in range(6):
            waiters.append(at.start(wait, number))
            await at.line(waiters=number + 1)
    for waiter in waiters:
        await waiter.result()
    assert served == [0, 1, 2, 3, 4, 5]
    assert fences == sorted({first.fence, *fences})[1:]


@case("lock", needs=["fair", "visible_line"])
async def waiters_that_wait_long_keep_their_places(at: Arena) -> None:
    async def wait() -> None:
        async with at.rival():
            pass

    async def places() -> list[tuple[int, int]]:
        line = await at.look()
        assert line is not None
        return [(one.fence, one.position) for one in line.waiters]

    async with at.lock():
        waiters = []
        for number in range(3):
            waiters.append(at.start(wait))
            await at.line(waiters=number + 1)
        before = await places()
        await at.sleep(1.2)  # each waiter asks the store again in this time
        assert await places() == before
    for waiter in waiters:
        await waiter.result()


@case(*EXCLUSIVE, needs=["fair"])
async def a_try_does_not_overtake_the_waiters(at: Arena) -> None:
    async def wait() -> None:
        async with at.rival():
            await inside.wait()

    inside = at.flag()
    hold = await at.lock().acquire()
    waiter = at.start(wait)
    await at.line(waiters=1)
    await hold.release()
    assert await at.lock().acquire(blocking=False) is None
    inside.set()
    await waiter.result()


@case(*EXCLUSIVE, "all", promise=True)
async def never_two_are_inside_at_once(at: Arena) -> None:
    inside: list[int] = []
    rounds = []

    async def work(number: int) -> None:
        lock = at.lock() if number % 2 else at.rival()
        for _ in range(8):
            async with lock:
                inside.append(number)
                await at.sleep(0.0005)
                assert inside == [number], f"{inside} are inside at once"
                inside.remove(number)
                rounds.append(number)

    actors = [at.start(work, number) for number in range(4)]
    for actor in actors:
        await actor.result()
    assert sorted(rounds) == sorted([*range(4)] * 8)


@case(*SINGLE, needs=["fences"], promise=True)
async def every_grant_has_a_greater_fence_than_all_before(at: Arena) -> None:
    fences = []
    for lock in (at.lock(), at.rival(), at.lock()) * 4:
        async with lock as hold:
            fences.append(hold.fence)
    assert min(fences) > 0
    assert fences == sorted(set(fences))


@case("lock", needs=["semaphore", "rwlock", "election", "fences"], promise=True)
async def fences_rise_through_all_kinds_that_a_name_is_used_as(at: Arena) -> None:
    fences = []
    for _ in range(3):
        for lock in (
            at.locks.lock(at.name),
            at.others.semaphore(at.name, 3),
            at.locks.rwlock(at.name).read,
            at.others.rwlock(at.name).write,
            at.locks.election(at.name),
        ):
            async with lock as hold:
                fences.append(hold.fence)
    assert fences == sorted(set(fences))


@case(*EXCLUSIVE)
async def with_raises_not_acquired_which_names_lock_store_wait_and_holder(at: Arena) -> None:
    ran = False
    async with at.lock() as hold:
        begun = now()
        with raises(NotAcquired) as caught:
            async with at.rival(timeout=BUSY_S):
                ran = True
        message = str(caught.error)
        took = now() - begun
    assert not ran
    assert took < BUSY_S + 2 * at_once(begun)
    who = [at.locks.owner] if at.can.owners else ["held by"]
    fence = [f"fence {hold.fence}"] if at.can.fences else []
    if unclear(begun):  # the reply that names the holder can have come too late
        who, fence = [], []
    for part in (at.name, *who, *fence, "timeout="):
        assert part in message, f"{part!r} is not in: {message}"
    tried = re.search(r"tried (\d+\.\d\d) s", message)
    assert tried is not None, message
    assert BUSY_S - 0.01 <= float(tried[1]) <= took + 0.01, message


@case(*EXCLUSIVE)
async def not_acquired_is_a_timeout_error(at: Arena) -> None:
    async with at.lock():
        with raises(TimeoutError) as caught:
            async with at.rival(timeout=0):
                raise AssertionError("the body ran unheld")
        assert isinstance(caught.error, NotAcquired)


@case(*EXCLUSIVE)
async def acquire_alone_waits_as_the_lock_was_made_to(at: Arena) -> None:
    async with at.lock():
        begun = now()
        with raises(NotAcquired, at.name):
            await at.rival(timeout=BUSY_S).acquire()
        assert BUSY_S <= now() - begun < BUSY_S + 2 * at_once(begun)


@case(*EXCLUSIVE)
async def an_acquire_with_a_time_of_its_own_ignores_that_of_the_lock(at: Arena) -> None:
    async def wait() -> bool:
        hold = await at.rival(timeout=0.05).acquire(timeout=-1)
        assert hold is not None
        return await hold.release()

    async with at.lock():
        assert await at.rival(timeout=30).acquire(timeout=BUSY_S) is None
        assert await at.rival(timeout=30).acquire(blocking=False) is None
        waiter = at.start(wait)
        await at.line(waiters=1)
        await at.sleep(0.1)
        assert not waiter.finished
    assert await waiter.result() is True


@case(*EXCLUSIVE)
async def an_exception_leaves_the_body_and_the_name_is_free(at: Arena) -> None:
    with raises(KeyError) as caught:
        async with at.lock():
            raise KeyError("the body's own")
    assert caught.error.args == ("the body's own",)
    assert not hasattr(caught.error, "__notes__")
    assert not await at.rival().locked()


@case(*SINGLE)
async def a_hold_is_released_by_any_thread_or_task_but_a_reentrant_one(at: Arena) -> None:
    hold = await at.lock().acquire()
    helper = at.start(hold.release)
    if at.primitive.name == "reentrant":
        with raises(NotHeld, at.name):
            await helper.result()
        assert await at.holders()
        await hold.release()
    else:
        assert await helper.result() is True
    assert not await at.holders()


@case(*SINGLE, promise=True)
async def releasing_again_returns_the_same_and_frees_no_other_hold(at: Arena) -> None:
    hold = await at.lock().acquire()
    assert await hold.release() is True
    async with at.rival() as other:
        assert await hold.release() is True
        assert other.lost is None
        assert [one.fence for one in await at.holders()] == [at.number(other)]


@case(*SINGLE)
async def the_lock_object_releases_what_it_gave_out(at: Arena) -> None:
    lock = at.lock()
    hold = await lock.acquire()
    assert await lock.release() is True
    assert hold.state == "released"
    assert not await at.holders()


@case(*SINGLE)
async def releasing_what_is_not_held_is_a_runtime_error(at: Arena) -> None:
    lock = at.lock()
    for _ in range(2):
        with raises(RuntimeError) as caught:
            await lock.release()
        assert isinstance(caught.error, NotHeld)
        assert at.name in str(caught.error)
        await (await lock.acquire()).release()
    async with at.rival():
        with raises(NotHeld):
            await lock.release()
        assert await at.holders()


@case(*EXCLUSIVE, promise=True)
async def one_lock_object_in_two_flows_releases_the_hold_of_each(at: Arena) -> None:
    lock = at.lock()
    fences: list[int] = []

    async def work() -> None:
        for _ in range(5):
            async with lock as hold:
                await at.sleep(0)
                fences.append(at.number(hold))
                hold.check()

    actors = [at.start(work) for _ in range(3)]
    for actor in actors:
        await actor.result()
    at.in_order(*fences)
    assert len(fences) == 15
