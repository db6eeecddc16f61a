"""The renewer repeats leaves that failed the first time."""

from __future__ import annotations

import pytest

from holdfast import Client, ConfigError, HoldfastError, StoreUnavailable
from holdfast.core.model import Leave
from holdfast.runtime.blocking import run_sync
from holdfast.sync import Hold
from holdfast.testing.clock import TestClock
from tests.core.flaky import Flaky, behind


class Refusing(Flaky):
    """A store that refuses to release a claim."""

    why: HoldfastError | None = None

    async def leave(self, leave: Leave, within: float) -> bool:
        if self.why is not None:
            self.calls["leave"] += 1
            raise self.why
        return await super().leave(leave, within)


@pytest.fixture
def store(locks: Client) -> Refusing:
    return behind(locks, Refusing)


def test_a_leave_that_is_refused_for_a_wrong_setting_is_not_tried_again(
    locks: Client, lock_clock: TestClock, store: Refusing, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a leave that the renewer has to repeat
    hold = locks.lock("x", ttl=30).acquire()
    store.why = ConfigError("planted: the user lacks a right")
    leave = Leave("x", hold._lease.claim.id, hold.fence)
    locks._ctx.keeper.later(leave, lock_clock.now() + 30)
    # When time passes
    lock_clock.advance(60)
    # Then it was tried once, and one log line reports that
    assert store.calls["leave"] == 1
    told = [one.getMessage() for one in caplog.records if "left to expire" in one.getMessage()]
    assert told == ["a claim on 'x' was left to expire: planted: the user lacks a right"]
    store.why = None
    hold.release()


def test_a_lost_hold_is_released_without_a_reply(
    locks: Client, lock_clock: TestClock, store: Refusing
) -> None:
    # Given a hold that was lost because the store is silent
    hold = locks.lock("x", ttl=30, auto_renew=False).acquire()
    store.why = StoreUnavailable("planted")
    lock_clock.advance(31)
    assert hold.lost
    # Then release() returns False, although it is unknown whether the claim still exists
    assert not hold.release()
    assert not hold.release()
    store.why = None
    lock_clock.advance(2)
    assert not locks.lock("x").locked()


def is_free_after_a_loss(hold: Hold, locks: Client, clock: TestClock, store: Refusing) -> bool:
    """Lose the hold in an outage of 20 s; return whether its name is free 20 s after it."""
    store.cut()
    clock.advance(20)
    assert hold.lost
    store.mend()
    clock.advance(20)
    return not locks.lock("x").locked()


def test_a_claim_left_by_an_unconfirmed_longer_lease_is_withdrawn(
    locks: Client, lock_clock: TestClock, store: Refusing
) -> None:
    # Given a hold whose extension arrived without a reply: the store keeps it for 300 s
    hold = locks.lock("x", ttl=2).acquire()
    store.mute = {"renew"}
    with pytest.raises(StoreUnavailable):
        hold.extend(300)
    # When it is lost because the store is away for longer than the lease that the client has seen
    # Then the claim is withdrawn when the store is back
    assert is_free_after_a_loss(hold, locks, lock_clock, store)


def test_what_a_renewal_left_that_overtook_a_shorter_lease_is_withdrawn(
    locks: Client, lock_clock: TestClock, store: Refusing
) -> None:
    # Given a hold with a shortened lease, and an older renewal of full length that arrived later
    hold = locks.lock("x", ttl=300).acquire()
    hold.extend(2)
    run_sync(store.store.renew([hold._lease.renewal(lock_clock.now(), 300)], 1))
    # When it is lost because the store is away for longer than the shorter lease
    # Then the claim is withdrawn when the store is back
    assert is_free_after_a_loss(hold, locks, lock_clock, store)
