"""Detach and adopt: a hold continues in another client, once, under the same fence."""

from __future__ import annotations

import secrets
from typing import Any

from ....core import across
from ....core import token as token_of
from ....core.model import Change, Gone, Leave, Loss, State
from ....core.policy import REQUEST_S
from ....errors import ConfigError, LockLost, NotHeld
from ...faces import now
from ..arena import KEPT_S, SINGLE, Arena, at_once, raises
from ..registry import case

PORTABLE = tuple(name for name in SINGLE if name != "reentrant")


@case(*PORTABLE, needs=["detach"])
async def a_detached_hold_is_adopted_with_its_fence(at: Arena) -> None:
    hold = await at.lock(ttl=20.0, meta="handed over").acquire()
    token = await hold.detach()
    assert isinstance(token, str)
    assert (hold.state, hold.lost, hold.remaining()) == (State.DETACHED, None, 0.0)
    (seen,) = await at.holders()
    assert (seen.fence, seen.who, seen.detached) == (hold.fence, hold.owner, True)
    assert seen.owner == f"{hold.owner} (detached: no process renews it)"
    mine = await at.others.adopt(token)
    assert (mine.name, mine.fence, mine.ttl) == (hold.name, hold.fence, 20.0)
    assert (mine.weight, mine.owner) == (hold.weight, at.others.owner)
    assert 10.0 < mine.remaining() < 20.0
    (seen,) = await at.holders()
    assert (seen.owner, seen.fence, seen.detached) == (at.others.owner, hold.fence, False)
    assert seen.meta == "handed over"
    assert await mine.release() is True
    assert not await at.holders()


@case(*PORTABLE, needs=["detach"], promise=True)
async def a_token_works_once(at: Arena) -> None:
    token = await (await at.lock().acquire()).detach()
    mine = await at.others.adopt(token)
    for client in (at.locks, at.others):
        with raises(NotHeld, at.name):
            await client.adopt(token)
    mine.check()
    assert await mine.extend() > 0
    assert await mine.release() is True
    with raises(NotHeld):
        await at.others.adopt(token)


@case(*PORTABLE, needs=["detach"], promise=True)
async def an_adoption_that_comes_after_its_undo_takes_nothing(at: Arena) -> None:
    for crowded in (False, True):
        token = await (await at.lock(ttl=20.0).acquire()).detach()
        beside = at.start(lambda: at.rival().acquire()) if crowded else None
        if beside is not None:
            await at.sleep(0.1)
        claim, fence = token_of.read(token).claim, token_of.read(token).fence
        store, fresh = at.others._ctx.store, secrets.token_hex(16)
        undo = Leave(claim.spec.name, fresh, fence, suspect=True, ttl=20.0)
        assert await store.leave(undo, REQUEST_S) is False
        answer = await store.change(Change(claim, fence, 20.0, fresh), REQUEST_S)
        assert isinstance(answer, Gone), answer
        mine = await at.others.adopt(token)
        mine.check()
        assert await mine.release() is True
        if beside is not None:
            await (await beside.result()).release()
        assert not await at.holders()


def with_fence(text: str, fence: int) -> str:
    """Return a copy of this handover token with another fence."""
    return token_of.write(token_of.read(text)._replace(fence=fence))


@case(*PORTABLE, needs=["detach"])
async def a_token_with_another_fence_is_refused_and_the_true_one_still_works(at: Arena) -> None:
    hold = await at.lock(ttl=20.0, meta="handed over").acquire()
    token = await hold.detach()
    stranger = at.client()
    (before,) = await at.holders()
    for fence in (hold.fence + 1, 2**62, 1):
        if fence != hold.fence:
            with raises(ConfigError, at.name, str(fence), str(hold.fence)):
                await stranger.adopt(with_fence(token, fence))
    (after,) = await at.holders()
    assert (after.fence, after.owner, after.meta) == (hold.fence, before.owner, before.meta)
    await at.locks.close()  # the detached hold still belongs to no client, so it stays
    await stranger.close()
    await at.sleep(0.2)
    mine = await at.others.adopt(token)
    assert mine.fence == hold.fence
    mine.check()
    assert await mine.extend() > 0
    assert await mine.release() is True
    assert not await at.holders()


@case("lock", "semaphore", needs=["detach"], promise=True)
async def of_many_who_adopt_at_once_one_gets_it(at: Arena) -> None:
    async def adopt(client: Any) -> Any:
        try:
            return await client.adopt(token)
        except NotHeld:
            return None

    token = await (await at.lock().acquire()).detach()
    actors = [at.start(adopt, client) for client in (at.locks, at.others, at.client()) * 2]
    holds = [hold for hold in [await actor.result() for actor in actors] if hold is not None]
    assert len(holds) == 1
    assert await holds[0].release() is True


@case("lock", "semaphore", needs=["detach"])
async def the_error_for_a_token_names_what_ended_its_hold(at: Arena) -> None:
    ctx = at.others._ctx

    async def is_over(text: str, why: str) -> None:
        for look in (across.find, across.release):
            with raises(NotHeld, at.name, why):
                await look(ctx, token_of.read(text))

    released = await (await at.lock(ttl=20.0).acquire()).detach()
    await across.find(ctx, token_of.read(released))
    await across.release(ctx, token_of.read(released))
    assert not await at.holders()
    await is_over(released, "has ended: released")
    hold = await at.lock(ttl=20.0).acquire()
    broken = await hold.detach()
    await at.locks.break_(at.name, hold.fence)
    await is_over(broken, "has ended: broken")
    adopted = await (await at.lock(ttl=20.0).acquire()).detach()
    mine = await at.others.adopt(adopted)
    await is_over(adopted, f"has ended: adopted by {at.others.owner}")
    again = await mine.detach()
    await is_over(adopted, f"has ended: adopted by {at.others.owner}")
    await across.release(ctx, token_of.read(again))
    expired = await (await at.lock(ttl=KEPT_S).acquire()).detach()
    await at.free(within=2.0 + KEPT_S)
    await is_over(expired, "has ended: it has expired")
    # The store still knows why the earlier holds ended
    await is_over(released, "has ended: released")
    await is_over(broken, "has ended: broken")


@case(*PORTABLE, needs=["detach"])
async def a_detached_hold_can_do_nothing_more(at: Arena) -> None:
    hold = await at.lock().acquire()
    mine = await at.others.adopt(await hold.detach())
    for act in (hold.extend, hold.detach):
        with raises(NotHeld):
            await act()
    await hold.release()
    assert [one.fence for one in await at.holders()] == [mine.fence]
    mine.check()
    await mine.release()


@case("lock", "semaphore", "read", needs=["detach"])
async def detached_and_left_alone_it_lives_by_its_ttl(at: Arena) -> None:
    hold = await at.lock(ttl=KEPT_S).acquire()
    begun = now()
    token = await hold.detach()
    await at.locks.close()  # the hold doesn't depend on the client that acquired it
    await at.sleep(0.2)
    assert await at.holders()
    await at.free(within=2.0 + KEPT_S)
    assert KEPT_S - 0.05 < now() - begun < KEPT_S + at_once(begun)
    with raises(NotHeld):
        await at.others.adopt(token)


@case("lock", "semaphore", needs=["detach"])
async def an_adopted_hold_is_renewed_and_its_loss_reported(at: Arena) -> None:
    told: list[Any] = []
    token = await (await at.lock(ttl=2 * KEPT_S).acquire()).detach()
    mine = await at.others.adopt(token, on_lost=lambda *news: told.append(news))
    mine.on_lost(lambda *news: told.append(news))
    await at.renewed(mine)
    mine.check()
    await at.locks.break_(at.name, mine.fence)
    assert await mine.wait_lost(5) is Loss.BROKEN
    await at.until(lambda: len(told) == 2)
    assert told == [(mine, Loss.BROKEN)] * 2


@case("lock", needs=["detach"])
async def an_adopted_hold_need_not_be_renewed(at: Arena) -> None:
    told: list[Any] = []
    token = await (await at.lock(ttl=2 * KEPT_S).acquire()).detach()
    mine = await at.others.adopt(
        token, auto_renew=False, on_lost=lambda hold, reason: told.append(reason)
    )
    assert await mine.wait_lost(10) is Loss.EXPIRED
    await at.until(lambda: told)
    assert told == [Loss.EXPIRED]
    await at.free()


@case("lock", needs=["detach"])
async def an_adopted_hold_is_held_no_longer_than_max_hold_allows(at: Arena) -> None:
    most = 1.5 * KEPT_S
    begun = now()
    hold = await at.lock(ttl=KEPT_S, max_hold=most).acquire()
    mine = await at.others.adopt(await hold.detach())
    await at.renewed(mine)
    assert await mine.wait_lost(10) is Loss.MAX_HOLD
    await at.free()
    assert now() - begun < most + at_once(begun)


@case("lock", needs=["detach", "min_hold"])
async def an_adopted_hold_keeps_the_name_for_the_rest_of_min_hold(at: Arena) -> None:
    least = 1.0
    begun = now()
    hold = await at.lock(ttl=20.0, min_hold=least).acquire()
    mine = await at.others.adopt(await hold.detach())
    assert await mine.release() is True
    assert await at.holders()
    await at.free(within=5.0)
    assert now() - begun > least - 0.05


@case(*PORTABLE, needs=["detach"])
async def a_lost_hold_is_not_detached(at: Arena) -> None:
    hold = await at.lock(ttl=20.0).acquire()
    await at.others.break_(at.name, hold.fence)
    with raises(LockLost) as caught:
        await hold.detach()
    assert caught.error.reason is Loss.BROKEN


@case(*PORTABLE, needs=["detach"])
async def a_body_may_hand_its_hold_over(at: Arena) -> None:
    async with at.lock() as hold:
        token = await hold.detach()
    assert await at.holders()
    async with await at.others.adopt(token) as mine:
        assert mine.fence == hold.fence
    assert not await at.holders()


@case("read", needs=["detach"])
async def a_flow_that_detached_its_read_is_no_longer_a_reader(at: Arena) -> None:
    async def write() -> None:
        async with at.others.rwlock(at.name).write:
            pass

    mine = await at.locks.adopt(await (await at.lock().acquire()).detach())
    writer = at.start(write)
    await at.line(waiters=1)
    assert await at.lock().acquire(blocking=False) is None
    await mine.release()
    await writer.result()
