"""A hold that is extended to less than its ttl counts as valid only for the shorter time.

The kit plays an extension next to an older renewal; here its reply is lost, or a copy comes late.
"""

from __future__ import annotations

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.lease import Lease, Terms
from holdfast.core.model import Claim, Kind, Spec
from holdfast.core.policy import deadline
from holdfast.testing.clock import TestClock
from tests.core.flaky import Flaky


@pytest.mark.parametrize("renewed", [False, True])
def test_an_extension_to_less_whose_reply_is_lost_is_believed_to_have_counted(
    renewed: bool, locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    # Given a hold, and a store whose next reply is lost
    hold = locks.lock("x", ttl=60, auto_renew=renewed).acquire()
    store.mute = {"renew"}
    # When it is extended to a shorter time
    with pytest.raises(StoreUnavailable):
        hold.extend(6)
    store.mend()
    # Then it counts as valid only for the shorter time
    assert hold.ttl == 6
    assert 5 < hold.remaining() < 6
    # And if it is renewed, the renewals follow the pace of the shorter lease
    asked = store.calls["renew"]
    lock_clock.advance(5)
    assert (store.calls["renew"] > asked) is renewed
    assert (hold.remaining() > 2) is renewed
    assert hold.remaining() < 6
    lock_clock.advance(5)
    assert (hold.lost is None) is renewed
    hold.release()


def lease() -> Lease:
    """Return a lease of 30 s, requested at 100."""
    spec = Spec("x", Kind.LOCK, 1, 1, 30.0, "me")
    return Lease(Claim("0" * 32, spec), 7, deadline(100.0, 30.0), 100.0, Terms(), False)


def test_after_an_answered_extension_to_less_a_longer_one_counts() -> None:
    one = lease()
    one.shorten(112.0, 5.0).answered(112.1)
    one.ttl = 30.0
    assert one.longest(112.2) == 30.0
    assert one.prolonged(112.2, deadline(112.2, 30.0), 112.3)
    assert one.deadline == deadline(112.2, 30.0)


def test_a_late_copy_of_an_unanswered_extension_to_less_bounds_what_follows_it() -> None:
    # Given an extension to a shorter time without a reply, so that a copy can arrive later
    one = lease()
    one.shorten(112.0, 5.0)
    # When a longer lease is requested
    one.ttl = 30.0
    assert one.longest(113.0) == 5.0
    assert one.prolonged(113.0, deadline(113.0, 30.0), 113.1)
    # Then it counts as valid only for as long as such a copy would leave it
    assert one.deadline == deadline(113.0, 5.0)
    # And when no copy can arrive, it counts in full
    assert one.longest(143.0) == 30.0


def test_what_bounded_the_deadline_long_ago_is_forgotten() -> None:
    one = lease()
    for turn in range(100):
        one.shorten(112.0 + turn, 5.0).answered(112.1 + turn)
    assert len(one.shorter) < 40
