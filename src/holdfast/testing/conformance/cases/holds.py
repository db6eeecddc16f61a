"""The life of a hold: its attributes, its renewal, its end by the caller."""

from __future__ import annotations

import contextlib
import gc
import warnings
from typing import Any

from ....core.model import Loss, State
from ....errors import ConfigError, LockLost, NotHeld, StoreUnavailable
from ...faces import now
from ..arena import EXCLUSIVE, KEPT_S, SINGLE, TUNABLE, Arena, at_once, raises
from ..registry import case
from ..struck import Overlaid


@case(*SINGLE)
async def a_hold_has_its_name_owner_fence_and_state(at: Arena) -> None:
    begun = now()
    async with at.lock(ttl=20.0, meta="night run") as hold:
        assert hold
        assert (hold.name, hold.owner, hold.ttl) == (at.name, at.locks.owner, 20.0)
        assert (hold.state, hold.lost) == (State.HELD, None)
        assert hold.remaining() + now() - begun > 20.0 - 1.0
        assert hold.remaining() < 20.0
        hold.check()
        (seen,) = await at.holders()
        assert seen.fence == at.number(hold)
        assert seen.weight == hold.weight
        assert seen.expires_in + now() - begun > 19.0
        assert seen.expires_in <= 20.0
        assert repr(at.name) in repr(hold)
        if at.can.owners:
            assert (seen.owner, seen.meta) == (hold.owner, "night run")
            assert 0.0 <= seen.age < now() - begun + 1.0
        if at.can.fences:
            assert f"fence={hold.fence}" in repr(hold)


@case(*SINGLE)
async def a_released_hold_is_released_and_does_nothing_more(at: Arena) -> None:
    hold = await at.lock().acquire()
    await hold.release()
    assert (hold.state, hold.lost, hold.remaining()) == (State.RELEASED, None, 0.0)
    with raises(NotHeld, at.name):
        hold.check()
    entered = False
    with raises(NotHeld, at.name):
        async with hold:
            entered = True
    assert not entered
    for act in (hold.extend, hold.detach, hold.downgrade):
        with raises(NotHeld):
            await act()
    assert await hold.wait_lost() is None


@case(*TUNABLE)
async def a_renewed_hold_outlives_its_ttl(at: Arena) -> None:
    async with at.lock(ttl=KEPT_S) as hold:
        await at.sleep(1.4 * KEPT_S)
        hold.check()
        assert [one.fence for one in await at.holders()] == [at.number(hold)]
        assert 0 < hold.remaining() <= KEPT_S


@case(*EXCLUSIVE, promise=True)
async def believing_ends_before_the_store_lets_another_in(at: Arena) -> None:
    options = {"auto_renew": False} if at.primitive.name != "election" else {}
    hold = await at.lock(ttl=5.0, **options).acquire()
    (seen,) = await at.holders()
    assert hold.remaining() < seen.expires_in + 0.05
    await hold.release()


@case(*TUNABLE)
async def a_hold_that_is_not_renewed_ends_with_its_ttl(at: Arena) -> None:
    begun = now()
    hold = await at.lock(ttl=0.1, auto_renew=False).acquire()
    assert await hold.wait_lost(5) is Loss.EXPIRED
    assert now() - begun <= 0.1 + at_once(begun)
    assert (hold.lost, hold.state, hold.remaining()) == (Loss.EXPIRED, State.LOST, 0.0)
    await at.free(within=1.0)
    with raises(LockLost) as caught:
        hold.check()
    assert caught.error.reason is Loss.EXPIRED
    assert at.name in str(caught.error)
    assert "expired" in str(caught.error)
    assert await hold.release() is False
    assert await hold.release() is False


@case(*TUNABLE)
async def what_has_expired_never_comes_back(at: Arena) -> None:
    hold = await at.lock(ttl=0.05, auto_renew=False).acquire()
    await at.sleep(0.06)
    with raises(LockLost) as caught:
        await hold.extend(10.0)
    assert caught.error.reason is Loss.EXPIRED
    assert hold.state == State.LOST
    await at.free(within=1.0)
    await hold.release()


@case(*TUNABLE)
async def extending_lengthens_the_hold_here_and_in_the_store(at: Arena) -> None:
    hold = await at.lock(ttl=4.0, auto_renew=False).acquire()
    await at.sleep(0.05)
    begun, before = now(), hold.remaining()
    assert before <= 4.0 - 0.05
    after = await hold.extend()
    # The new lease begins when the call begins, so the time of the call is part of the lease.
    assert before < after + now() - begun
    assert after <= 4.0
    begun = now()
    longer = await hold.extend(10.0)
    assert longer + now() - begun > 9.0
    assert longer < 10.0 == hold.ttl
    (seen,) = await at.holders()
    assert seen.expires_in + now() - begun > 9.0
    assert seen.expires_in <= 10.0
    await hold.release()


@case(*TUNABLE)
async def a_hold_that_is_extended_to_less_is_believed_for_no_longer(at: Arena) -> None:
    # A store whose clock is set back cuts each lease to the last requested length.
    hold = await at.lock(ttl=20.0, auto_renew=False).acquire()
    left = await hold.extend(10.0)
    assert left < 10.0 == hold.ttl
    assert hold.remaining() <= left
    hold.check()
    assert await hold.release() is True


@case("lock", "read")
async def a_renewed_hold_that_is_extended_is_renewed_at_the_new_pace(at: Arena) -> None:
    hold = await at.lock(ttl=20.0).acquire()
    await hold.extend(KEPT_S)
    await at.sleep(0.5 * KEPT_S)
    first = hold.remaining()
    await hold.extend(30.0)
    assert hold.remaining() > 20.0 > first
    assert await hold.release() is True


@case("lock", "reentrant")
async def max_hold_ends_the_renewing(at: Arena) -> None:
    begun = now()
    longest = 1.25 * KEPT_S
    hold = await at.lock(ttl=KEPT_S, max_hold=longest).acquire()
    assert await hold.wait_lost(longest + 3.0) is Loss.MAX_HOLD
    assert KEPT_S < now() - begun <= longest + at_once(begun)
    await at.free(within=1.0)
    assert await hold.release() is False


@case("lock", needs=["min_hold"])
async def min_hold_keeps_a_released_name_occupied(at: Arena) -> None:
    begun = now()
    hold = await at.lock(min_hold=KEPT_S).acquire()
    assert await hold.release() is True
    assert await at.rival().acquire(blocking=False) is None
    async with at.rival() as later:
        assert now() - begun >= KEPT_S - 0.01
        at.in_order(at.number(hold), at.number(later))
    assert now() - begun < KEPT_S + 2 * at_once(begun)


@case("lock", needs=["min_hold"])
async def a_min_hold_longer_than_the_ttl_lasts_when_the_line_is_looked_at(at: Arena) -> None:
    hold = await at.lock(ttl=KEPT_S, min_hold=30).acquire()
    assert await hold.release() is True
    assert await at.rival().acquire(blocking=False) is None
    (kept,) = await at.holders()
    assert kept.expires_in > 20
    assert await at.others.break_(at.name, kept.fence) is True


@case("lock", needs=["min_hold"])
async def a_listing_marks_a_released_name_that_stays_occupied(at: Arena) -> None:
    begun = now()
    hold = await at.lock(min_hold=20.0).acquire()
    (seen,) = await at.holders()
    assert seen.kept is False
    assert await hold.release() is True
    (seen,) = await at.holders()
    assert (seen.kept, seen.held, seen.owner) == (True, True, hold.owner)
    assert 0.0 < seen.expires_in <= 20.0
    assert seen.expires_in + now() - begun > 20.0 - 1.0
    # When a client waits, the store may move the holder's claim to another part of its data.
    waiter = at.start(at.rival().acquire)
    await at.line(waiters=1)
    line = await at.look()
    assert line is not None
    assert [claim.kept for claim in line.claims] == [True, False]
    assert await at.others.break_(at.name, seen.fence) is True
    later = await waiter.result()
    (seen,) = await at.holders()
    assert seen.kept is False
    await later.release()


@case("lock", needs=["min_hold"])
async def min_hold_counts_from_the_grant_also_for_a_waiter(at: Arena) -> None:
    async def wait() -> None:
        hold = await lock.acquire()
        await hold.release()

    lock = at.lock(min_hold=0.5)
    async with at.rival():
        waiter = at.start(wait)
        await at.line(waiters=1)
        await at.sleep(0.3)
        begun = now()  # the waiter is granted later than this
    await waiter.result()
    await at.free(within=2.0)
    assert now() - begun >= 0.5 - 0.01


@case("lock", needs=["min_hold"])
async def a_hold_longer_than_its_min_hold_is_free_at_once(at: Arena) -> None:
    hold = await at.lock(min_hold=0.05).acquire()
    await at.sleep(0.06)
    await hold.release()
    assert not await at.holders()


@case(*SINGLE)
async def a_hold_is_itself_a_context_manager(at: Arena) -> None:
    async with await at.lock().acquire() as hold:
        hold.check()
    assert hold.state == State.RELEASED
    assert not await at.holders()


@case(*TUNABLE)
async def a_hold_extended_to_less_is_believed_no_longer_by_an_older_renewal(at: Arena) -> None:
    # Given a renewal that the store has handled, and whose reply hasn't arrived yet
    client: Any = at.client()
    hold = await at.primitive.make(client, at.name, ttl=KEPT_S).acquire()
    handled, extended = at.flag(), at.flag()
    renew, asked = client._ctx.store.renew, 0

    async def late(*given: Any) -> Any:
        nonlocal asked
        answers = await renew(*given)
        asked += 1
        if asked == 1:
            handled.set()
            await extended.wait()
        return answers

    client._ctx.store = Overlaid(client._ctx.store, renew=late)
    await handled.wait()
    # When the hold is extended to a shorter lease, and the reply to the renewal comes later
    with contextlib.suppress(LockLost):  # the hold is lost if the machine stands still
        assert await hold.extend(KEPT_S / 4) <= KEPT_S / 4
    extended.set()
    # Then the deadline of the hold never moves later, though the hold is renewed again
    most = 0.0
    while asked < 4 and hold.lost is None:
        most = max(most, hold.remaining())
        await at.sleep(0.01)
    assert most <= KEPT_S / 4
    await hold.release()


@case(*TUNABLE, alone=True)
async def a_forgotten_hold_warns_and_is_renewed_no_more(at: Arena) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fence = at.number(await at.lock(ttl=0.2).acquire())
        gc.collect()  # a collection can take longer than the time to the next renewal
        await at.free(within=3.0)  # a renewed hold would never become free
        async with at.lock():  # this call emits the warning, if the renewer did not
            pass
        await at.until(lambda: any(at.name in str(w.message) for w in caught))
    (said,) = (w for w in caught if at.name in str(w.message))
    assert said.category is ResourceWarning
    assert (f"fence {fence}" in str(said.message)) is at.can.fences


@case("lock", alone=True)
async def a_forgotten_hold_harms_no_program_where_warnings_are_errors(at: Arena) -> None:
    kept = await at.locks.lock(at.fresh("kept"), ttl=KEPT_S).acquire()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frozen = gc.get_freeze_count()  # if the test's caller has frozen objects, they stay frozen
        gc.freeze()  # a collection of all objects of the process would take longer than a hold
        try:
            await at.lock(ttl=0.2).acquire()
            gc.collect()
        finally:
            if not frozen:
                gc.unfreeze()
        async with at.locks.lock(at.fresh("next"), ttl=KEPT_S) as following:
            await at.free(within=3.0)
            for hold in (kept, following):
                await at.renewed(hold)
        kept.check()
    await kept.release()


@case(*TUNABLE)
async def closing_the_client_ends_its_holds_and_notifies_them(at: Arena) -> None:
    client = at.client()
    renewed = await at.primitive.make(client, at.name).acquire()
    plain = await at.primitive.make(client, at.fresh("plain"), auto_renew=False).acquire()
    await client.close()
    assert not await at.holders()
    assert not await at.holders(at.fresh("plain"))
    for hold in (renewed, plain):
        assert (hold.lost, hold.state) == (Loss.CLOSED, State.LOST)
        assert await hold.release() is False
    await client.close()


@case(*SINGLE, "all")
async def a_closed_client_refuses_in_words(at: Arena) -> None:
    client = at.client()
    lock = at.primitive.make(client, at.name)
    await client.close()
    for act in (lock.acquire, client.inspect):
        with raises(StoreUnavailable, "closed"):
            await act()


@case("lock", needs=["detach"])
async def a_token_that_is_none_is_refused(at: Arena) -> None:
    for token in ("", "hf2.", "hf2.e30", "x" * 40, None, 7, b"hf2."):
        with raises(ConfigError, "detach()"):
            await at.locks.adopt(token)  # type: ignore[arg-type]
