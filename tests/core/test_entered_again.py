"""A claim that ended in the store and entered again, by a late copy of its own join."""

from __future__ import annotations

import pytest

from holdfast import Client, LockLost
from holdfast.core.model import Leave
from holdfast.runtime.blocking import run_sync
from holdfast.sync import Hold
from holdfast.testing.clock import TestClock


def entered_again(locks: Client) -> Hold:
    """Return a hold whose claim is in the line again, after a claim of another caller."""
    hold = locks.lock("x", ttl=30).acquire()
    claim, store = hold._lease.claim, locks._ctx.store
    run_sync(store.leave(Leave("x", claim.id, hold.fence), 1.0))
    locks.lock("x", reentrant=False).acquire().release()
    run_sync(store.join(claim, False, 1.0))
    return hold


def test_a_renewal_finds_it_lost(locks: Client, lock_clock: TestClock) -> None:
    hold = entered_again(locks)
    lock_clock.advance(15)
    assert hold.lost
    lock_clock.advance(5)
    assert not locks.lock("x").locked()


def test_an_extension_finds_it_lost(locks: Client, lock_clock: TestClock) -> None:
    hold = entered_again(locks)
    with pytest.raises(LockLost):
        hold.extend(40)
    assert hold.lost
    lock_clock.advance(5)
    assert not locks.lock("x").locked()
