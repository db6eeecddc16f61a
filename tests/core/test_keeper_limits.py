"""Failures that the renewer survives, and leases that it clears away after their end."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from typing import Any

import pytest

from holdfast import AsyncClient, Client, HoldfastError, Loss, StoreUnavailable
from holdfast.core import keeper as keeping
from holdfast.core.model import Leave
from holdfast.core.policy import TOMB_S
from holdfast.sync import Hold
from holdfast.testing.clock import TestClock
from tests.core.bounded import bounded
from tests.core.flaky import Flaky, behind
from tests.servers.process import until


def renewed(hold: Hold) -> None:
    """Wait until the hold is renewed."""
    before = hold._lease.deadline
    until(lambda: hold._lease.deadline > before, "it is renewed")
    hold.check()


def collected(keeper: weakref.ref[Any]) -> None:
    """Wait until the renewer is garbage."""

    def gone() -> bool:
        gc.collect()
        return keeper() is None

    until(gone, "the renewer is collected")


def test_a_renewer_that_failed_to_start_starts_with_the_next_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread.start
    failing = [True]

    def limited(self: threading.Thread) -> None:
        if failing and self.name == "holdfast-keeper":
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with Client("memory://no-threads") as client:
        # Then nothing is held, and the error names the remedy
        with pytest.raises(HoldfastError, match="Raise the limit of threads"):
            client.lock("x").acquire()
        assert client.inspect("x") == []
        # And when threads can start again, the client works
        failing.clear()
        with client.lock("x", ttl=3.2) as hold:
            renewed(hold)


def test_an_exit_handler_gets_its_lock_when_threads_can_no_longer_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", late)
    client = Client("memory://at-exit")
    with client.lock("x") as hold:
        hold.check()
    assert client.inspect("x") == []


def test_released_leases_that_were_watched_are_cleared_away(locks: Client) -> None:
    keeper = locks._ctx.keeper

    class Big:
        def lost(self, *news: object) -> None: ...

    with locks.lock("kept", ttl=3600):
        bigs = []
        for _ in range(1000):
            big = Big()
            bigs.append(weakref.ref(big))
            locks.lock("x", auto_renew=False, ttl=3600, on_lost=big.lost).acquire().release()
            del big
        gc.collect()
        assert not any(ref() for ref in bigs)
        until(lambda: keeper.pending() < 200, "the leases are cleared away")


def test_lease_lengths_no_longer_used_are_forgotten(locks: Client) -> None:
    with locks.lock("kept", ttl=3600) as kept:
        for number in range(1000):
            locks.lock("x", ttl=1000 + number / 100).acquire().release()
        until(lambda: len(locks._ctx.keeper._schedule._queues) < 200, "few are remembered")
        due = locks._ctx.keeper.next_due()
        assert due <= kept._lease.deadline


def test_a_forgotten_client_is_collected_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "LINGER_S", 0.2)
    client = Client("memory://forgotten")
    with client.lock("x", ttl=3600):
        pass
    context = weakref.ref(client._ctx.keeper)
    del client

    collected(context)


@pytest.mark.parametrize("first", ["client", "hold"])
@pytest.mark.parametrize("renewed", [True, False])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_client_that_is_forgotten_with_what_it_holds_is_collected_soon(
    first: str, renewed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "LINGER_S", 0.2)
    # Given a client and a hold whose next renewal, or end, is far away
    client = Client("memory://forgotten-with-hold")
    lock = client.lock(f"x-{first}-{renewed}", ttl=3600, auto_renew=renewed, on_lost=print)
    hold = lock.acquire()
    context = weakref.ref(client._ctx.keeper)
    # When both are forgotten, in either order, with a pause between
    del lock
    if first == "client":
        del client
        time.sleep(0.5)
        del hold
    else:
        del hold
        time.sleep(0.5)
        del client

    # Then the thread of the client doesn't sleep until that renewal or end
    collected(context)


def test_a_lock_outlives_its_forgotten_client_and_is_renewed(locks: Client) -> None:
    lock = Client("memory://forgotten-with-lock").lock("x", ttl=3.2)
    gc.collect()
    with lock as hold:
        renewed(hold)


def test_an_extension_to_a_shorter_time_is_renewed_in_time(
    locks: Client, lock_clock: TestClock
) -> None:
    with locks.lock("x", ttl=30) as hold:
        hold.extend(6)
        lock_clock.advance(60)
        hold.check()
        assert hold._lease.due <= hold._lease.deadline - 3


@bounded
async def test_a_renewer_cancelled_during_a_renewal_continues_it() -> None:
    async with AsyncClient("memory://cancelled-keeper") as client:
        struck: list[bool] = []

        def strike(keeps: object) -> None:
            if not struck:
                struck.append(True)
                raise asyncio.CancelledError

        behind(client).before_renew = strike
        async with client.lock("x", ttl=3.2) as hold:
            before = hold._lease.deadline
            while hold._lease.deadline == before:
                await asyncio.sleep(0.01)
                hold.check()
        assert struck


def test_closing_during_a_renewal_leaves_no_name_occupied(two: tuple[Client, Client]) -> None:
    asked, go = threading.Event(), threading.Event()
    client, other = two
    behind(client).before_renew = lambda renewals: (asked.set(), go.wait(20))
    hold = client.lock("x", ttl=3.2).acquire()
    assert asked.wait(20)
    try:
        client.close()
        assert other.inspect("x") == []
    finally:
        go.set()
    assert hold.lost is Loss.CLOSED
    assert hold.release() is False


class Late(Flaky):
    """A store whose first reply is very late; a late reply to a join is lost."""

    def __init__(self, store: Any, clock: TestClock, seconds: float) -> None:
        super().__init__(store)
        self.clock, self.seconds = clock, seconds

    def _answered(self, verb: str) -> None:
        if verb in self.mute:
            self.mute.discard(verb)
            self.clock._space.skew += self.seconds
            if verb == "join":
                raise StoreUnavailable("planted: the answer to a join is lost")


def test_a_hold_of_a_repeated_join_is_renewed_before_its_lease_ends(
    locks: Client, lock_clock: TestClock
) -> None:
    behind(locks, Late, lock_clock, 7.0).mute = {"join"}
    with locks.lock("x", ttl=9) as hold:
        assert hold.remaining() < 3
        assert hold._lease.due <= hold._lease.deadline - 1
        lock_clock.advance(6)
        hold.check()


def test_all_returns_no_hold_whose_lease_ended_before_the_reply(
    locks: Client, lock_clock: TestClock
) -> None:
    behind(locks, Late, lock_clock, 4.0).mute = {"join_free"}
    short, long = locks.lock("a", ttl=3), locks.lock("b", ttl=300)
    with locks.all(short, long) as both:
        both.check()
        assert both.remaining() > 0


def test_all_hands_out_no_hold_whose_lease_ended_while_the_holds_were_made(
    locks: Client, lock_clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, long = locks.lock("a", ttl=3), locks.lock("b", ttl=300)
    make, steps = type(short)._make, [4.0]

    def slow(self: Any, lease: Any) -> Any:
        lock_clock._space.skew += steps.pop() if steps else 0.0
        return make(self, lease)

    monkeypatch.setattr(type(short), "_make", slow)
    with locks.all(short, long) as both:
        both.check()


def test_a_repeated_release_of_all_after_the_deadline_returns_false(
    locks: Client, lock_clock: TestClock
) -> None:
    class Silent(Flaky):
        async def leave_all(self, leaves: Any, within: float) -> Any:
            if self.calls["leave_all"]:
                lock_clock._space.skew += 31
                self.mute = set()
            return await super().leave_all(leaves, within)

    both = locks.all("a", "b").acquire()
    behind(locks, Silent).mute = {"leave_all"}
    assert both.release() is False
    assert all(hold.lost is not None for hold in both.holds)


def test_the_undo_of_a_suspect_join_is_gone_on_with_until_no_copy_can_come(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    store.down = {"leave"}
    leave = Leave("x", "0" * 32, 7, suspect=True, ttl=10)
    locks._ctx.keeper.later(leave, lock_clock.now() + 10)
    lock_clock.advance(20)
    tried = store.calls["leave"]
    lock_clock.advance(5)
    assert store.calls["leave"] > tried
    lock_clock.advance(TOMB_S)
    assert locks._ctx.keeper.pending() == 0


def test_undos_that_are_not_answered_hold_up_no_renewal(
    locks: Client, lock_clock: TestClock
) -> None:
    # Given a store that is silent for some names, each for the whole time limit of an undo
    class Partly(Flaky):
        async def leave(self, leave: Leave, within: float) -> bool:
            if leave.name.startswith("silent"):
                lock_clock._space.skew += within
                raise StoreUnavailable("planted: no answer to leave")
            return await super().leave(leave, within)

    behind(locks, Partly)
    with locks.lock("healthy", ttl=3) as hold:
        for number in range(60):
            leave = Leave(f"silent{number}", "0" * 32, 7, ttl=100)
            locks._ctx.keeper._undos.add(lock_clock.now(), leave, lock_clock.now() + 100)
        lock_clock.advance(10)
        hold.check()


def test_an_undo_for_which_the_server_takes_long_is_given_more_time_at_each_try(
    locks: Client, lock_clock: TestClock
) -> None:
    # Given a server that replies after half a second, for example because it must connect first
    class Far(Flaky):
        async def leave(self, leave: Leave, within: float) -> bool:
            lock_clock._space.skew += min(within, 0.5)
            if within < 0.5:
                raise StoreUnavailable("it takes longer")
            return await super().leave(leave, within)

    store = behind(locks, Far)
    began = lock_clock.now()
    locks._ctx.keeper.later(Leave("x", "0" * 32, 7, suspect=True, ttl=100), began + 100)
    lock_clock.advance(3)
    assert locks._ctx.keeper.pending() == 0
    assert store.calls["leave"] == 1
