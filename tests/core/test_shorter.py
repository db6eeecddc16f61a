"""A hold that is extended to less than its ttl counts as valid only for the shorter time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.lease import Lease, Terms
from holdfast.core.model import Claim, Kind, Spec
from holdfast.core.policy import deadline
from holdfast.testing.conformance.struck import Overlaid


@pytest.mark.parametrize("renewed", [False, True])
def test_an_extension_to_less_whose_reply_is_lost_is_believed_to_have_counted(
    renewed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a hold, and a store whose next reply is lost
    with Client(f"memory://shorter-{renewed}") as client:
        hold = client.lock("x", ttl=60, auto_renew=renewed).acquire()
        keep = client._ctx.store.keep
        asked = 0

        async def lost(*given: Any) -> Any:
            nonlocal asked
            answers = await keep(*given)
            asked += 1
            if asked > 1:
                return answers
            raise StoreUnavailable("planted: the reply to keep is lost")

        monkeypatch.setattr(client._ctx, "store", Overlaid(client._ctx.store, keep=lost))
        # When it is extended to a shorter time
        with pytest.raises(StoreUnavailable):
            hold.extend(6)
        # Then it counts as valid only for the shorter time
        assert hold.remaining() < 6
        # And if it is renewed, the renewals follow the pace of the shorter lease
        assert hold.ttl == 6
        before = hold._lease.deadline
        assert _until(lambda: asked > 1, 5.0) is renewed
        assert (hold._lease.deadline > before) is renewed
        assert hold.remaining() < 6


def test_the_loss_of_a_watched_hold_is_reported_at_its_shorter_deadline() -> None:
    told: list[float] = []
    with Client("memory://shorter-watched") as client:
        hold = client.lock("x", ttl=60, auto_renew=False).acquire()
        hold.on_lost(lambda hold, reason: told.append(time.monotonic()))
        hold.extend(0.3)
        assert _until(lambda: bool(told))


@pytest.mark.parametrize("handled", ["before", "after"])
def test_an_older_renewal_bounds_the_deadline_whichever_the_store_handles_first(
    handled: str,
) -> None:
    # Given a lease of 30 s, and a renewal that was sent at 110
    one = lease()
    # When 5 s are requested at 112, which the store handles before or after the renewal
    shorter = one.shorten(112.0, 5.0)
    assert one.deadline == deadline(112.0, 5.0)
    if handled == "before":
        assert one.renewed(112.0, 5.0, 112.1)
        shorter.answered(112.1)
    # Then the reply to the renewal does not move the deadline
    assert one.prolonged(110.0, deadline(110.0, 30.0), 112.2)
    assert one.deadline == deadline(112.0, 5.0)
    # And a renewal that was sent before the reply to the request counts for 5 s only
    assert one.prolonged(112.05, deadline(112.05, 30.0), 112.3)
    assert one.deadline == deadline(112.05, 5.0)


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


def lease() -> Lease:
    """Return a lease of 30 s, requested at 100."""
    spec = Spec("x", Kind.LOCK, 1, 1, 30.0, "me")
    return Lease(Claim("0" * 32, spec), 7, deadline(100.0, 30.0), 100.0, Terms(), False)


def _until(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()
