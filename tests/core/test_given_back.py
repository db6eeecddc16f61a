"""Releases: work protected to its end doesn't fail, and two simultaneous releases count as one."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncClient, Client, LockLost, NotHeld, StoreUnavailable
from holdfast.core.model import Leave, Loss, State
from holdfast.core.policy import UNDO_S
from holdfast.testing.clock import TestClock
from tests.core.bounded import bounded
from tests.core.flaky import Flaky, behind
from tests.servers.process import until


class Slow(Flaky):
    """Each request without a reply takes a second."""

    def __init__(self, store: Any, clock: TestClock) -> None:
        super().__init__(store)
        self.clock = clock

    def _called(self, verb: str) -> None:
        if verb in self.down:
            self.clock._space.skew += 1
        super()._called(verb)


@pytest.fixture
def slow(locks: Client, lock_clock: TestClock) -> Slow:
    return behind(locks, Slow, lock_clock)


WISHES: dict[str, Callable[[Client], Any]] = {
    "lock": lambda locks: locks.lock("x"),
    "reentrant": lambda locks: locks.lock("x", reentrant=True),
    "semaphore": lambda locks: locks.semaphore("x", 3, weight=2),
    "write": lambda locks: locks.rwlock("x").write,
    "election": lambda locks: locks.election("x"),
    "all": lambda locks: locks.all("x", "y"),
}


@pytest.mark.parametrize("kind", WISHES)
def test_work_that_was_protected_to_its_end_does_not_fail_for_a_silent_store(
    kind: str,
    locks: Client,
    lock_clock: TestClock,
    slow: Slow,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with WISHES[kind](locks):
        slow.down = {"leave", "leave_all"}
    told = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert any("'x'" in text and "could not be released" in text for text in told)
    # The renewer withdraws the claim when the store replies again
    slow.mend()
    lock_clock.advance(5)
    assert locks.inspect("x") == []


@pytest.mark.parametrize("kind", ["lock", "all"])
def test_a_release_after_one_that_was_not_answered_is_no_loss(
    kind: str, locks: Client, lock_clock: TestClock, slow: Slow
) -> None:
    hold = WISHES[kind](locks).acquire()
    slow.down = {"leave", "leave_all"}
    with pytest.raises(StoreUnavailable):
        hold.release()
    slow.mend()
    lock_clock.advance(5)  # the renewer releases it
    assert locks.inspect("x") == []
    assert hold.release() is True
    assert hold.lost is None


@pytest.mark.parametrize("kind", ["lock", "all"])
def test_a_lease_that_ends_during_the_release_does_not_fail_the_body(
    kind: str, locks: Client, lock_clock: TestClock
) -> None:
    class Late(Flaky):
        def _called(self, verb: str) -> None:
            if verb.startswith("leave"):
                lock_clock._space.skew += 31

    behind(locks, Late)
    with WISHES[kind](locks):
        pass


def test_a_hold_that_was_lost_before_its_body_ended_still_raises(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    lock = locks.lock("x")
    lock.__enter__()
    store.down = {"renew", "turn", "leave"}
    lock_clock._space.skew += 31
    with pytest.raises(LockLost):
        lock.__exit__(None, None, None)


class Held(Flaky):
    """Delays the reply to each leave until ``go`` is set; the request arrives immediately."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.go = asyncio.Event()

    async def leave(self, leave: Leave, within: float) -> bool:
        there = await super().leave(leave, within)
        await self.go.wait()
        return there


@bounded
async def test_two_releases_at_once_both_say_that_it_was_held(space: str) -> None:
    async with AsyncClient(space) as client:
        store = behind(client, Held)
        hold = await client.lock("x").acquire()
        both = [asyncio.create_task(hold.release()) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        store.go.set()
        assert await asyncio.gather(*both) == [True, True]
        assert (hold.lost, hold.state) == (None, State.RELEASED)
        # And the end of a body during a release is no loss
        store.go.clear()
        before = store.calls["leave"]
        async with client.lock("x") as hold:
            under_way = asyncio.create_task(hold.release())
            while store.calls["leave"] == before:
                await asyncio.sleep(0)
            asyncio.get_running_loop().call_later(0.05, store.go.set)
        assert await under_way is True


@bounded
async def test_a_release_during_an_extension_is_no_loss(space: str) -> None:
    async with AsyncClient(space) as client:
        store = behind(client, Held)
        hold = await client.lock("x").acquire()
        gone, renew = asyncio.Event(), store.store.renew

        async def late(*given: Any) -> Any:
            await gone.wait()
            return await renew(*given)

        store.store.renew = late
        longer = asyncio.create_task(hold.extend(60))
        await asyncio.sleep(0)
        release = asyncio.create_task(hold.release())
        while not store.calls["leave"]:
            await asyncio.sleep(0)
        gone.set()
        with pytest.raises(NotHeld, match="released meanwhile"):
            await longer
        store.go.set()
        assert await release is True
        assert hold.lost is None


def test_wait_lost_of_a_detached_hold_returns(locks: Client) -> None:
    hold = locks.lock("x").acquire()
    found: list[Loss | None] = []
    waiting = threading.Thread(target=lambda: found.append(hold.wait_lost()))
    waiting.start()
    until(lambda: hold._lease.latches, "it waits")
    locks.adopt(hold.detach()).release()
    waiting.join(10)
    assert found == [None]


@bounded
async def test_a_cancellation_during_the_undo_of_a_silent_store_wins(space: str) -> None:
    class Silent(Flaky):
        async def _ask(self, verb: str, *given: Any) -> Any:
            if verb == "leave" or (verb == "leave_all" and given[-1] <= UNDO_S):
                undoing.set()  # a longer time: it isn't the undo yet
                await asyncio.sleep(given[-1])
            raise StoreUnavailable("planted: no answer")

    undoing = asyncio.Event()

    async with AsyncClient(space) as client:
        right = client._ctx.store
        for lock in (client.lock("x"), client.all("x", "y")):
            undoing.clear()
            behind(client, Silent)
            task = asyncio.create_task(lock.acquire(timeout=0.05))
            await asyncio.wait_for(undoing.wait(), 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            client._ctx.store = right


def test_an_adoption_whose_answer_is_lost_leaves_nothing(
    locks: Client, lock_clock: TestClock
) -> None:
    class Exchanged(Flaky):
        async def change(self, change: Any, within: float) -> Any:
            if change.new_id:
                self.mute.add("change")
            return await super().change(change, within)

    token = locks.lock("x", ttl=300).acquire().detach()
    store = behind(locks, Exchanged)
    with pytest.raises(StoreUnavailable):
        locks.adopt(token)
    store.mend()
    lock_clock.advance(2)
    assert locks.inspect("x") == []


@bounded
async def test_an_adoption_interrupted_by_a_close_leaves_nothing(space: str) -> None:
    class Stopped(Flaky):
        async def change(self, change: Any, within: float) -> Any:
            answer = await super().change(change, within)
            if change.new_id:
                await asyncio.sleep(60)
            return answer

    async with AsyncClient(space) as client:
        token = await (await client.lock("x", ttl=300).acquire()).detach()
        behind(client, Stopped)
        adopting = client._adopt(token, True, None)
        adopting.send(None)
        adopting.close()
        async with asyncio.timeout(5):
            while await client.inspect("x"):
                await asyncio.sleep(0.01)
