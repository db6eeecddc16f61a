"""A claim that ended in the store and entered again, by a late copy of its own join."""

from __future__ import annotations

import pytest

from holdfast import Client, LockLost
from holdfast.core.model import Leave
from holdfast.runtime.blocking import run_sync
from holdfast.sync import Hold
from holdfast.testing.clock import TestClock


@pytest.fixture
def hold(locks: Client) -> Hold:
    """A hold whose claim is in the line again, after a claim of another caller."""
    hold = locks.lock("x", ttl=30).acquire()
    claim, store = hold._lease.claim, locks._ctx.store
    run_sync(store.leave(Leave("x", claim.id, hold.fence), 1.0))
    locks.lock("x", reentrant=False).acquire().release()
    run_sync(store.join(claim, False, 1.0))
    return hold


@pytest.mark.parametrize("finds", ["renewal", "extension"])
def test_a_renewal_and_an_extension_find_it_lost(
    finds: str, hold: Hold, locks: Client, lock_clock: TestClock
) -> None:
    if finds == "renewal":
        lock_clock.advance(15)
    else:
        with pytest.raises(LockLost):
            hold.extend(40)
    assert hold.lost
    lock_clock.advance(5)
    assert not locks.lock("x").locked()
