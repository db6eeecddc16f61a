"""A loss is reported to all concerned: the holder, its callbacks, its ``with``, its waiters."""

from __future__ import annotations

import contextlib
from typing import Any

from ....core.model import Leave, Loss, State
from ....core.policy import REQUEST_S
from ....errors import HoldfastError, LockLost
from ...faces import now
from ..arena import EXCLUSIVE, KEPT_S, SINGLE, TUNABLE, Arena, at_once, raises, unclear
from ..registry import case


@case(*SINGLE)
async def a_broken_hold_is_free_at_once_and_its_owner_notified_soon(at: Arena) -> None:
    hold = await at.lock(ttl=2 * KEPT_S).acquire()
    assert await at.others.break_(at.name, at.number(hold)) is True
    assert not await at.holders()
    begun = now()
    assert await hold.wait_lost(10) is Loss.BROKEN
    # The next renewal finds the loss. If a busy server did not answer that renewal, the renewal
    # after it does.
    assert now() - begun < KEPT_S + at_once(begun)
    assert (hold.lost, hold.state) == (Loss.BROKEN, State.LOST)
    assert await hold.release() is False


@case(*EXCLUSIVE)
async def the_next_one_gets_what_was_broken_and_keeps_it(at: Arena) -> None:
    async def wait() -> tuple[int, bool]:
        async with at.rival() as mine:
            inside.set()
            await over.wait()
            return at.number(mine), mine.lost is None

    inside, over = at.flag(), at.flag()
    hold = await at.lock(ttl=20.0).acquire()
    waiter = at.start(wait)
    await at.line(waiters=1)
    begun = now()
    assert await at.locks.break_(at.name, at.number(hold)) is True
    await inside.wait()
    assert now() - begun < at.served(begun)
    assert await hold.release() is False  # this release must not end the waiter's hold
    (seen,) = await at.holders()
    over.set()
    fence, kept = await waiter.result()
    assert kept
    assert seen.fence == fence
    at.in_order(at.number(hold), fence)


@case(*SINGLE, promise=True)
async def breaking_needs_the_fence_of_the_claim(at: Arena) -> None:
    async with at.lock() as hold:
        for wrong in {at.number(hold) + 1, at.number(hold) - 1} - {0}:
            assert await at.others.break_(at.name, wrong) is False
        assert await at.others.break_(at.fresh("empty"), at.number(hold)) is False
        assert [one.fence for one in await at.holders()] == [at.number(hold)]


@case("lock", "semaphore", "write", promise=True)
async def a_ticket_is_broken_once_and_no_later_grant_with_it(at: Arena) -> None:
    async def broken(ticket: int) -> bool:
        return await at.others._ctx.store.break_(at.name, ticket, REQUEST_S)

    hold = await at.lock(ttl=20.0).acquire()
    ticket = at.number(hold)
    assert [await broken(one) for one in (2**62, ticket, ticket)] == [False, True, False]
    async with at.rival(ttl=20.0) as mine:
        if at.can.fences:  # without fences the next claim can have the same number
            assert await broken(ticket) is False
        assert await mine.extend() > 0
    assert await broken(at.number(mine)) is False
    assert await hold.release() is False


@case("lock", "semaphore", promise=True)
async def a_leave_without_an_id_ends_no_claim(at: Arena) -> None:
    store = at.others._ctx.store
    async with at.lock(ttl=20.0) as hold:
        plain = Leave(at.name, "", at.number(hold))
        for leave in (plain, plain._replace(after=20.0), plain._replace(suspect=True)):
            with contextlib.suppress(HoldfastError):  # the store may refuse an empty id
                assert await store.leave(leave, REQUEST_S) is False
            with contextlib.suppress(HoldfastError):
                assert True not in await store.leave_all([leave], REQUEST_S)
        assert await hold.extend() > 0
        assert [at.number(hold)] == [one.fence for one in await at.holders()]


@case("lock", "semaphore", needs=["visible_line"])
async def a_waiter_that_is_broken_enters_the_line_again(at: Arena) -> None:
    async def wait() -> int:
        async with at.rival() as mine:
            return at.number(mine)

    async with at.lock() as hold:
        waiter = at.start(wait)
        await at.line(waiters=1)
        line = await at.look()
        assert line is not None
        fence = line.waiters[0].fence
        assert await at.locks.break_(at.name, fence) is True
        assert await at.locks.break_(at.name, fence) is False
        await at.line(waiters=1)
        assert hold.lost is None
    assert await waiter.result() > fence


@case(*SINGLE)
async def on_lost_is_called_once_with_the_hold_and_the_reason(at: Arena) -> None:
    told: list[tuple[Any, Any]] = []
    hold = await at.lock(ttl=2 * KEPT_S, on_lost=lambda *news: told.append(news)).acquire()
    hold.on_lost(lambda *news: told.append(news))
    await at.others.break_(at.name, at.number(hold))
    await at.until(lambda: len(told) >= 2)
    assert await hold.release() is False
    await at.sleep(KEPT_S)
    assert told == [(hold, Loss.BROKEN)] * 2


@case(*TUNABLE)
async def on_lost_is_called_for_a_hold_that_is_not_renewed(at: Arena) -> None:
    told: list[tuple[Any, Any]] = []
    lock = at.lock(ttl=0.1, auto_renew=False, on_lost=lambda *news: told.append(news))
    hold = await lock.acquire()
    await at.until(lambda: told, within=1.0)
    assert told == [(hold, Loss.EXPIRED)]
    await at.free(within=1.0)


@case("lock", "read")
async def on_lost_is_called_at_once_for_what_is_lost_already(at: Arena) -> None:
    told: list[tuple[Any, Any]] = []
    hold = await at.lock(ttl=2 * KEPT_S).acquire()
    await at.others.break_(at.name, at.number(hold))
    assert await hold.wait_lost(10) is Loss.BROKEN
    hold.on_lost(lambda *news: told.append(news))
    await at.until(lambda: told, within=1.0)
    assert told == [(hold, Loss.BROKEN)]


@case("lock", "semaphore")
async def a_callback_that_raises_does_no_harm(at: Arena) -> None:
    told = []

    def fail(hold: Any, reason: Any) -> None:
        told.append(reason)
        raise ValueError("planted")

    kept = await at.locks.lock(at.fresh("kept"), ttl=KEPT_S).acquire()
    hold = await at.lock(ttl=2 * KEPT_S, on_lost=fail).acquire()
    hold.on_lost(lambda hold, reason: told.append(reason))
    await at.others.break_(at.name, at.number(hold))
    await at.until(lambda: len(told) == 2)
    await at.renewed(kept)
    kept.check()
    await kept.release()


@case(*SINGLE)
async def a_release_is_no_loss(at: Arena) -> None:
    told: list[Any] = []
    hold = await at.lock(ttl=KEPT_S, on_lost=lambda *news: told.append(news)).acquire()
    await hold.release()
    await at.sleep(KEPT_S / 3 + 0.1)  # a renewal in this time would find that the hold has ended
    assert (told, hold.lost, hold.state) == ([], None, State.RELEASED)


@case(*SINGLE)
async def waiting_for_a_loss_ends_with_the_release_or_with_its_time(at: Arena) -> None:
    async def wait() -> Any:
        return await hold.wait_lost()

    hold = await at.lock().acquire()
    begun = now()
    assert await hold.wait_lost(timeout=0.1) is None
    assert 0.1 <= now() - begun < 0.1 + at_once(begun)
    waiter = at.start(wait)
    await at.sleep(0.05)
    assert not waiter.finished
    await hold.release()
    assert await waiter.result() is None


@case(*SINGLE)
async def a_body_that_ends_without_noticing_the_loss_raises_lock_lost(at: Arena) -> None:
    over = False
    with raises(LockLost) as caught:
        async with at.lock(ttl=2 * KEPT_S) as hold:
            await at.others.break_(at.name, at.number(hold))
            over = True
    assert caught.error.reason is Loss.BROKEN
    for part in (at.name, "broken", "before its body ended"):
        assert part in str(caught.error)
    assert over


@case(*SINGLE)
async def the_hold_as_context_manager_reports_a_loss_too(at: Arena) -> None:
    hold = await at.lock(ttl=2 * KEPT_S).acquire()
    with raises(LockLost) as caught:
        async with hold:
            await at.others.break_(at.name, at.number(hold))
    assert caught.error.reason is Loss.BROKEN


@case(*SINGLE)
async def a_loss_never_hides_the_exception_of_the_body(at: Arena) -> None:
    with raises(KeyError) as caught:
        async with at.lock(ttl=2 * KEPT_S) as hold:
            await at.others.break_(at.name, at.number(hold))
            raise KeyError("the body's own")
    (note,) = caught.error.__notes__
    assert at.name in note
    assert "lost" in note


@case(*SINGLE)
async def check_in_the_body_raises_lock_lost_and_it_leaves_the_body(at: Arena) -> None:
    passed, begun = False, now()
    with raises(LockLost, at.name) as caught:
        async with at.lock(ttl=2 * KEPT_S) as hold:
            await at.others.break_(at.name, at.number(hold))
            await hold.wait_lost(10)
            hold.check()
            passed = True
    assert not passed
    expected = {Loss.BROKEN, Loss.UNREACHABLE} if unclear(begun) else {Loss.BROKEN}
    assert caught.error.reason in expected
