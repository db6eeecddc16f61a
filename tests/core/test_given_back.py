"""Releases: work protected to its end doesn't fail, and two simultaneous releases count as one."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence

import pytest

from holdfast import AsyncClient, Client, LockLost, NotHeld, StoreUnavailable
from holdfast.core.model import Keep, Leave, Loss, State
from holdfast.core.policy import UNDO_S
from holdfast.testing.clock import TestClock
from tests.core.flaky import Flaky, behind


class Slow(Flaky):
    """Each request without a reply takes a second."""

    def __init__(self, store: object, clock: TestClock) -> None:
        super().__init__(store)  # type: ignore[arg-type]
        self.clock = clock

    def _called(self, verb: str) -> None:
        if verb in self.down:
            self.clock._space.skew += 1
        super()._called(verb)


WISHES: dict[str, Callable[[Client], object]] = {
    "lock": lambda locks: locks.lock("x"),
    "reentrant": lambda locks: locks.lock("x", reentrant=True),
    "semaphore": lambda locks: locks.semaphore("x", 3, weight=2),
    "write": lambda locks: locks.rwlock("x").write,
    "election": lambda locks: locks.election("x"),
    "all": lambda locks: locks.all("x", "y"),
}


@pytest.mark.parametrize("kind", WISHES)
def test_work_that_was_protected_to_its_end_does_not_fail_for_a_silent_store(
    kind: str, locks: Client, lock_clock: TestClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = locks._ctx.store = Slow(locks._ctx.store, lock_clock)  # type: ignore[assignment]
    with WISHES[kind](locks):  # type: ignore[attr-defined]
        store.down = {"leave", "leave_all"}
    told = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert any("'x'" in text and "could not be released" in text for text in told)
    # The renewer withdraws the claim when the store replies again
    store.mend()
    lock_clock.advance(5)
    assert locks.inspect("x") == []


def test_a_decorated_function_returns_although_the_release_failed(
    locks: Client, lock_clock: TestClock
) -> None:
    store = locks._ctx.store = Slow(locks._ctx.store, lock_clock)  # type: ignore[assignment]

    @locks.lock("x")
    def work() -> str:
        store.down = {"leave"}
        return "done"

    assert work() == "done"
    store.mend()


def test_an_explicit_release_raises_if_the_result_is_unknown(locks: Client) -> None:
    store = behind(locks)
    hold = locks.lock("x", ttl=1).acquire()
    store.down = {"leave"}
    with pytest.raises(StoreUnavailable):
        hold.release()
    store.mend()


@pytest.mark.parametrize("kind", ["lock", "all"])
def test_a_release_after_one_that_was_not_answered_is_no_loss(
    kind: str, locks: Client, lock_clock: TestClock
) -> None:
    store = locks._ctx.store = Slow(locks._ctx.store, lock_clock)  # type: ignore[assignment]
    hold = WISHES[kind](locks).acquire()  # type: ignore[attr-defined]
    store.down = {"leave", "leave_all"}
    with pytest.raises(StoreUnavailable):
        hold.release()
    store.mend()
    lock_clock.advance(5)  # the keeper gives it back
    assert locks.inspect("x") == []
    assert hold.release() is True
    assert hold.lost is None


@pytest.mark.parametrize("kind", ["lock", "all"])
def test_a_lease_that_ends_during_the_release_does_not_fail_the_body(
    kind: str, locks: Client, lock_clock: TestClock
) -> None:
    store = behind(locks)

    class Late(Flaky):
        async def leave(self, leave: Leave, within: float) -> bool:
            lock_clock._space.skew += 31
            return await super().leave(leave, within)

        async def leave_all(self, leaves, within):  # type: ignore[no-untyped-def]
            lock_clock._space.skew += 31
            return await super().leave_all(leaves, within)

    locks._ctx.store = Late(store.store)  # type: ignore[assignment]
    with WISHES[kind](locks):  # type: ignore[attr-defined]
        pass


def test_a_hold_that_was_lost_before_its_body_ended_still_raises(
    locks: Client, lock_clock: TestClock
) -> None:
    store = behind(locks)
    lock = locks.lock("x")
    lock.__enter__()
    store.down = {"keep", "leave"}
    lock_clock._space.skew += 31
    with pytest.raises(LockLost):
        lock.__exit__(None, None, None)


def test_a_hold_that_was_broken_raises_at_its_end(locks: Client) -> None:
    with pytest.raises(LockLost, match="broken"), locks.lock("x") as hold:
        locks.break_("x", hold.fence)


class Held(Flaky):
    """Delays the reply to each leave until ``go`` is set; the request arrives immediately."""

    def __init__(self, store: object) -> None:
        super().__init__(store)  # type: ignore[arg-type]
        self.go = asyncio.Event()

    async def leave(self, leave: Leave, within: float) -> bool:
        there = await super().leave(leave, within)
        await self.go.wait()
        return there


def test_two_releases_at_once_both_say_that_it_was_held() -> None:
    async def main() -> None:
        async with AsyncClient("memory://two-releases") as client:
            store = client._ctx.store = Held(client._ctx.store)  # type: ignore[assignment]
            hold = await client.lock("x").acquire()
            both = [asyncio.create_task(hold.release()) for _ in range(2)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            store.go.set()
            assert await asyncio.gather(*both) == [True, True]
            assert (hold.lost, hold.state) == (None, State.RELEASED)

    asyncio.run(main())


def test_a_with_that_ends_during_a_release_reports_no_loss() -> None:
    async def main() -> None:
        async with AsyncClient("memory://release-in-with") as client:
            store = client._ctx.store = Held(client._ctx.store)  # type: ignore[assignment]
            async with client.lock("x") as hold:
                under_way = asyncio.create_task(hold.release())
                while not store.calls["leave"]:
                    await asyncio.sleep(0)
                asyncio.get_running_loop().call_later(0.05, store.go.set)
            assert await under_way is True

    asyncio.run(main())


def test_a_release_during_an_extension_is_no_loss() -> None:
    async def main() -> None:
        async with AsyncClient("memory://release-and-extend") as client:
            store = client._ctx.store = Held(client._ctx.store)  # type: ignore[assignment]
            hold = await client.lock("x").acquire()
            gone, gate = asyncio.Event(), store.store.keep

            async def keep(keeps: list[Keep], within: float) -> object:
                await gone.wait()
                return await gate(keeps, within)

            store.store.keep = keep  # type: ignore[method-assign]
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

    asyncio.run(main())


def test_wait_lost_of_a_detached_hold_returns(locks: Client) -> None:
    hold = locks.lock("x").acquire()
    found: list[Loss | None] = []
    waiting = threading.Thread(target=lambda: found.append(hold.wait_lost()))
    waiting.start()
    while not hold._lease.latches:
        pass
    locks.adopt(hold.detach()).release()
    waiting.join(10)
    assert found == [None]


def test_a_cancellation_during_the_undo_of_a_silent_store_wins() -> None:
    class Silent(Flaky):
        async def join(self, claim, wait, within):  # type: ignore[no-untyped-def]
            raise StoreUnavailable("planted: no answer")

        async def leave(self, leave: Leave, within: float) -> bool:
            undoing.set()
            await asyncio.sleep(within)
            raise StoreUnavailable("planted: no answer")

        async def join_free(self, claims, within):  # type: ignore[no-untyped-def]
            raise StoreUnavailable("planted: no answer")

        async def leave_all(self, leaves, within):  # type: ignore[no-untyped-def]
            if within <= UNDO_S:  # else it isn't the undo yet
                undoing.set()
                await asyncio.sleep(within)
            raise StoreUnavailable("planted: no answer")

    undoing = asyncio.Event()

    async def main() -> None:
        async with AsyncClient("memory://cancelled-undo") as client:
            right = client._ctx.store
            for lock in (client.lock("x"), client.all("x", "y")):
                undoing.clear()
                client._ctx.store = Silent(right)  # type: ignore[assignment]
                task = asyncio.create_task(lock.acquire(timeout=0.05))
                await asyncio.wait_for(undoing.wait(), 10)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                client._ctx.store = right

    asyncio.run(main())


def test_a_time_limit_ends_a_loop_that_tries_again_and_again() -> None:
    async def main() -> None:
        async with AsyncClient("memory://time-limits") as client:
            store = behind(client)
            store.down = {"join"}
            leave = store.store.leave

            async def slow(leaving: Leave, within: float) -> bool:
                await asyncio.sleep(0.02)
                return await leave(leaving, within)

            store.store.leave = slow  # type: ignore[method-assign]

            async def on_and_on() -> None:
                async with asyncio.timeout(0.2):
                    while True:
                        try:
                            async with client.lock("x", timeout=0):
                                pass
                        except StoreUnavailable:
                            pass

            tasks = [asyncio.create_task(on_and_on()) for _ in range(40)]
            done, running = await asyncio.wait(tasks, timeout=5)
            for task in running:
                task.cancel()
            store.mend()
            assert (len(done), len(running)) == (40, 0)
            assert all(isinstance(task.exception(), TimeoutError) for task in done)

    asyncio.run(main())


def test_an_adoption_whose_answer_is_lost_leaves_nothing(
    locks: Client, lock_clock: TestClock
) -> None:
    token = locks.lock("x", ttl=300).acquire().detach()
    store = behind(locks)

    def exchanged(keeps: Sequence[Keep]) -> None:
        if keeps[0].new_id:
            store.mute.add("keep")

    store.before_keep = exchanged
    with pytest.raises(StoreUnavailable):
        locks.adopt(token)
    store.mend()
    lock_clock.advance(2)
    assert locks.inspect("x") == []


def test_an_adoption_interrupted_by_a_close_leaves_nothing() -> None:
    class Stopped(Flaky):
        async def keep(self, keeps, within):  # type: ignore[no-untyped-def]
            answers = await super().keep(keeps, within)
            if keeps[0].new_id:
                await asyncio.sleep(60)
            return answers

    async def main() -> None:
        async with AsyncClient("memory://closed-adoption") as client:
            token = await (await client.lock("x", ttl=300).acquire()).detach()
            client._ctx.store = Stopped(client._ctx.store)  # type: ignore[assignment]
            adopting = client._adopt(token, True, None)
            adopting.send(None)
            adopting.close()
            async with asyncio.timeout(5):
                while await client.inspect("x"):
                    await asyncio.sleep(0.01)

    asyncio.run(main())
