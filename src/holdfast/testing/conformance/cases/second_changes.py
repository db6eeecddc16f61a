"""Each pair of failures in sequence, at handovers, resizes, and repairs of a queue by hand."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

from ....errors import LockLost, NotHeld
from ..arena import Arena
from ..registry import case
from ..second import EXPECTED, Pair, Second, answered, each

#: The lease, seconds. It is longer than every wait here, so no name becomes free by expiry.
TTL_S = 60.0


@case("lock", needs=["fences", "detach"])
async def two_failures_in_a_row_hand_a_hold_over_once_or_not_at_all(at: Arena) -> None:
    async def play(at: Arena, client: Any, struck: Second, pair: Pair, name: str) -> None:
        fence = 0
        for often in range(4):
            # (If this acquire has to wait, the planned failures can hit this acquire instead.)
            hold = await answered(partial(client.lock(name, ttl=TTL_S).acquire, timeout=3))
            assert hold is not None, "it is still held"
            assert hold.fence > fence
            fence, token, mine = hold.fence, "", None
            # Given two failures, when a hold is detached and adopted
            with contextlib.suppress(*EXPECTED):
                token = await hold.detach()
            if often > 1:  # an adoption sends two requests: check the token, exchange the secret
                struck.plan(pair, after=often - 2)
            with contextlib.suppress(*EXPECTED):
                mine = await client.adopt(token) if token else None
            assert mine or not token or "cut" in pair.other, "it can't be adopted"
            # Then the name was held all the time, by one holder alone. (An adoption that is
            # interrupted after the exchange releases the hold, as no process has the new secret.)
            thief = await at.others.lock(name, ttl=TTL_S).acquire(blocking=False)
            if thief is not None:
                assert token, f"{thief} and {hold} both hold"
                assert mine is None, f"{thief} and {mine} both hold"
                assert pair.other == "cut"
                fence = thief.fence
                assert await thief.release() is True
                continue
            if mine is not None:
                assert mine.fence == fence
                with contextlib.suppress(NotHeld):
                    raise AssertionError(f"adopted twice: {await at.others.adopt(token)}")
            for one in (mine, hold if not token else None):
                if one is not None:
                    assert await answered(one.release) is not False
            # And a claim whose release got no reply is broken, as an operator would do
            for line in await at.others.inspect(name, exact=True):
                for claim in line.claims:
                    assert mine is None, f"{mine} was released, and is there: {claim}"
                    await at.others.break_(name, claim.fence)
        await struck.settle_down()
        await at.free(name=name)

    async with at.lock() as first:  # a store without fences or detach refuses before any fault
        assert first.fence
        token = await first.detach()
    assert await (await at.locks.adopt(token)).release() is True
    await each(at, "handover", play)


@case("lock", needs=["fences"])
async def two_failures_in_a_row_break_the_one_hold_that_was_named(at: Arena) -> None:
    async def play(at: Arena, client: Any, struck: Second, pair: Pair, name: str) -> None:
        rival = at.others.lock(name, ttl=TTL_S)
        for _ in range(2):
            held = await rival.acquire(timeout=3)
            assert held is not None, "it is still held"
            # Given two failures, when a hold is broken, and its name is acquired again
            broken = mine = None
            with contextlib.suppress(*EXPECTED):
                broken = await client.break_(name, held.fence)
            with contextlib.suppress(*EXPECTED):
                mine = await client.lock(name, ttl=TTL_S).acquire(timeout=0.05)
            thief = await rival.acquire(blocking=False)
            holders = [one for one in (mine, thief) if one is not None]
            with contextlib.suppress(LockLost):
                await held.extend()
                assert broken is None, f"it was broken, and is held: {held}"
                holders.append(held)
            # Then at most one claim holds the name, and no later holder was broken
            assert len(holders) <= 1, holders
            for one in holders:
                assert await answered(one.release) is not False, f"{one} was lost, too"
            for line in await at.others.inspect(name, exact=True):
                for claim in line.claims:  # a claim whose acquire or release got no reply
                    await at.others.break_(name, claim.fence)
        # And a late request doesn't touch the next holder
        # (On a store whose claims belong to a session, requests arrive in order, or never.)
        last = await rival.acquire(timeout=3)
        assert last is not None, "it is still held"
        await struck.settle_down(late=at.can.detach)
        await last.extend()
        assert await last.release() is True
        await at.free(name=name)

    async with at.lock() as first:
        assert await at.others.break_(at.name, first.fence + 1) is False
    await each(at, "breaks", play)


@case("semaphore", needs=["resize", "fences"])
async def two_failures_in_a_row_grant_no_more_than_a_resize_allows(at: Arena) -> None:
    async def play(at: Arena, client: Any, struck: Second, pair: Pair, name: str) -> None:
        def permits(client: Any, count: int) -> Any:
            return client.semaphore(name, count, ttl=TTL_S)

        async with permits(at.others, 1):
            # Given two failures, when a semaphore is resized from one permit to two, and then to
            # three
            resized = 0
            for count in (2, 3):
                hold = None
                if await answered(partial(permits(client, 1).resize, count)):
                    resized = count
                (line,) = await at.others.inspect(name, exact=True)
                assert resized <= line.capacity <= count, f"it was resized to {resized}: {line}"
                with contextlib.suppress(*EXPECTED):
                    hold = await permits(client, line.capacity).acquire(timeout=0.05)
                for _ in range(2):
                    with contextlib.suppress(*EXPECTED):
                        await (hold.extend() if hold else at.sleep(0))
                # Then the semaphore grants no more permits than its capacity
                others = permits(at.others, line.capacity)
                tries = [await others.acquire(blocking=False) for _ in range(line.capacity)]
                more = [one for one in tries if one is not None]
                assert len(more) <= line.capacity - (2 if hold else 1), f"{more} and {hold} hold"
                for one in more:
                    await one.release()
                if hold is not None:
                    kept = await answered(hold.release)
                    assert kept is not False, f"it was not lost, and is not released: {hold}"
            await struck.settle_down()
            (line,) = await at.others.inspect(name, exact=True)
            assert line.capacity <= 3, f"what came late made more of it: {line}"
        await at.free(name=name)

    async with at.lock() as first:
        assert first.fence
        await at.locks.semaphore(at.name, 2).resize(2)
    await each(at, "permits", play)


@case("queue", needs=["queues"])
async def two_failures_in_a_row_retry_and_remove_the_named_letters(at: Arena) -> None:
    async def play(at: Arena, client: Any, struck: Second, pair: Pair, name: str) -> None:
        queue, rival = client.queue(name, ttl=TTL_S), at.others.queue(name, ttl=TTL_S)

        async def bury(*ids: str) -> None:
            for one in ids:
                await rival.put(one, id=one)
                job = await rival.take(timeout=10)
                assert job is not None
                assert job.id == one
                assert await job.dead_letter("never") is True

        done: list[str] = []
        for part in ("a", "b"):
            tried, removed = f"{part}-tried", f"{part}-removed"
            await bury(tried, removed)
            # Given two failures, when one dead letter is revived, and another one removed
            revived = gone = None
            with contextlib.suppress(*EXPECTED):
                revived = await queue.retry_dead([tried])
            with contextlib.suppress(*EXPECTED):
                gone = await queue.purge("dead", ids=[removed])
            assert revived in (None, 1)
            assert gone in (None, 1)
            # Then the revived job is delivered once, and the removed job never
            while job := await rival.take(timeout=0):
                assert await job.ack() is True
                done.append(job.id)
            left = {one.id for one in await rival.jobs("dead")}
            assert (tried in done) or (revived is None and tried in left), (done, left)
            assert removed not in done
            assert (removed in left) <= (gone is None), left
        # And a late request doesn't touch other dead letters
        await bury("later")
        await struck.settle_down()
        while job := await rival.take(timeout=0):
            assert await job.ack() is True
            done.append(job.id)
        assert len(done) == len({*done}), f"tried twice: {done}"
        assert "later" not in done
        assert "later" in {one.id for one in await rival.jobs("dead")}

    assert (await at.queue().stats()).accepted == 0
    await each(at, "letters", play)
