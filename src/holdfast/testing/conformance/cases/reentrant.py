"""The reentrant lock: only the thread or task that holds the lock can enter it again."""

from __future__ import annotations

from ....core.model import Loss
from ....errors import ConfigError, LockLost, NotHeld, NotSupported
from ..arena import KEPT_S, Arena, raises
from ..registry import case


@case("reentrant")
async def the_same_flow_enters_again_and_the_last_one_out_frees(at: Arena) -> None:
    lock = at.lock()
    async with lock as outer:
        async with lock as inner:
            assert inner == outer
            async with lock:
                line = await at.look()
                assert line is not None
                assert len(line.claims) == 1
        assert (await at.holders())[0].fence == at.number(outer)
        assert outer.lost is None
    assert not await at.holders()


@case("reentrant")
async def acquire_and_release_count_too(at: Arena) -> None:
    lock = at.lock()
    first = await lock.acquire()
    second = await lock.acquire(blocking=False)
    third = await lock.acquire(timeout=1)
    assert first == second == third
    assert await lock.release() is True
    assert await lock.release() is True
    assert await at.holders()
    assert await lock.release() is True
    assert not await at.holders()
    with raises(NotHeld):
        await lock.release()


@case("reentrant")
async def re_entry_goes_by_name_not_by_lock_object(at: Arena) -> None:
    async with at.lock() as outer, at.lock() as inner:
        assert inner == outer
        assert await at.rival().acquire(blocking=False) is None
    assert not await at.holders()


@case("reentrant", promise=True)
async def neither_another_flow_nor_another_client_enters(at: Arena) -> None:
    async def attempt() -> bool:
        return await at.lock().acquire(blocking=False) is None

    async with at.lock():
        assert await at.start(attempt).result() is True
        assert await at.rival().acquire(blocking=False) is None
        assert await at.locks.lock(at.name).acquire(blocking=False) is None


@case("reentrant")
async def a_flow_that_was_started_inside_inherits_nothing(at: Arena) -> None:
    order: list[str] = []

    async def child() -> None:
        async with at.lock():
            order.append("child")

    async with at.lock():
        started = at.start(child)
        await at.line(waiters=1)
        order.append("parent")
    await started.result()
    assert order == ["parent", "child"]


@case("reentrant")
async def only_the_flow_that_entered_can_release(at: Arena) -> None:
    lock = at.lock()
    async with lock as hold:
        for act in (hold.release, lock.release):
            with raises(NotHeld, "another thread or task"):
                await at.start(act).result()
        assert hold.lost is None
    assert not await at.holders()


@case("reentrant")
async def there_is_no_way_back_into_a_hold_that_is_lost(at: Arena) -> None:
    fence = 0
    with raises(LockLost, at.name) as caught:
        async with at.lock(ttl=2 * KEPT_S) as hold:
            fence = at.number(hold)
            await at.others.break_(at.name, fence)
            await hold.wait_lost(10)
            async with at.lock():
                fence = 0  # this body was entered after the loss
    assert caught.error.reason is Loss.BROKEN
    async with at.lock() as again:
        at.in_order(0, fence, at.number(again))


@case("reentrant", needs=["rwlock", "kinds"])
async def a_hold_of_another_kind_is_not_entered(at: Arena) -> None:
    rw = at.locks.rwlock(at.name)
    async with rw.read:
        with raises(ConfigError, "rwlock"):
            await at.lock().acquire(blocking=False)
    async with at.lock():
        with raises(ConfigError, "lock"):
            await rw.read.acquire(blocking=False)


@case("reentrant")
async def a_reentrant_hold_is_not_detached(at: Arena) -> None:
    async with at.lock() as hold:
        with raises(NotSupported):
            await hold.detach()
        hold.check()


@case("reentrant")
async def entering_again_leaves_the_lease_unchanged(at: Arena) -> None:
    if at.can.reentry != "counted":
        return  # the next case is for such stores
    lock = at.lock(ttl=20.0, auto_renew=False)
    async with lock as outer:
        before = outer.remaining()
        await at.sleep(0.05)
        async with lock as inner:
            assert inner.remaining() <= before - 0.05
        (seen,) = await at.holders()
        assert seen.expires_in <= 20.0 - 0.05 or not at.can.own_expiry


@case("reentrant")
async def entering_again_renews_a_hold_without_renewal_on_such_stores(
    at: Arena,
) -> None:
    if at.can.reentry != "prolongs":
        return  # the case above is for such stores
    async with at.lock(ttl=20.0, auto_renew=False) as outer:
        await at.sleep(0.5)
        before = outer.remaining()
        async with at.lock(ttl=5.0, auto_renew=False) as inner:
            assert before - 3.0 < inner.remaining() <= before  # a shorter ttl doesn't shorten it
        async with at.lock(ttl=40.0, auto_renew=False) as inner:
            assert 30.0 < inner.remaining() <= 40.0
            (seen,) = await at.holders()
            assert 30.0 < seen.expires_in <= 40.0 or not at.can.own_expiry
        outer.check()
