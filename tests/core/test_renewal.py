"""The request that renews a lease: the same object while its values stay the same."""

from __future__ import annotations

import pytest

from holdfast.core.lease import Lease, Terms
from holdfast.core.model import Claim, Keep, Kind, Loss, Renewal, Spec
from holdfast.core.policy import deadline


def lease(max_hold: float = float("inf"), weight: int = 1) -> Lease:
    spec = Spec("x", Kind.RWLOCK, 5, weight, 30.0, "me")
    return Lease(Claim("0" * 32, spec), 7, 130.0, 100.0, Terms(max_hold=max_hold), False)


def test_the_same_is_asked_for_with_the_same_object_and_another_length_with_another() -> None:
    one = lease()
    first = one.keep(110.0)
    assert first == Keep(one.claim, 7, 30.0)
    assert one.keep(120.0) is first
    assert one.keep(110.0, 60.0).ttl == 60.0
    one.ttl = 60.0
    second = one.keep(120.0)
    assert (first.ttl, second.ttl) == (30.0, 60.0)
    assert one.keep(130.0) is second
    # And what a store has prepared is not copied
    assert isinstance(second, Renewal)
    second.ready = "packed"
    assert second._replace(ttl=3.0).ready is None


def test_never_more_is_asked_for_than_max_hold_allows() -> None:
    one = lease(max_hold=40.0)
    first = one.keep(105.0)
    assert first.ttl == 30.0
    assert one.keep(110.0) is first
    assert one.keep(125.0).ttl == 15.0
    assert one.keep(150.0).ttl == 0.001


@pytest.mark.parametrize("granted", [15.0, 14.0])
def test_max_hold_is_reported_although_the_store_grants_a_bit_less(
    granted: float,
) -> None:
    one = lease(max_hold=40.0)
    assert one.prolonged(105.0, deadline(105.0, one.keep(105.0).ttl), 105.1)
    assert one.keep(125.0).ttl == 15.0
    assert one.prolonged(125.0, deadline(125.0, granted), 125.1)
    assert one.deadline < 140.0
    assert one.loss(one.deadline - 0.1) is None
    assert one.loss(one.deadline) is Loss.MAX_HOLD


def test_what_is_lost_before_max_hold_is_lost_for_another_reason() -> None:
    late = lease(max_hold=60.0)
    late.keep(110.0)
    assert late.loss(130.0) is Loss.EXPIRED
    silent = lease(max_hold=40.0)
    silent.keep(125.0)
    silent.failures = 1
    assert silent.loss(130.0) is Loss.UNREACHABLE


@pytest.mark.parametrize("late", [0.0, 5.0])
def test_an_answer_that_comes_at_the_deadline_or_later_counts_no_more(late: float) -> None:
    one = lease()
    assert not one.prolonged(129.0, deadline(129.0, 30.0), 130.0 + late)
    assert (one.deadline, one.reason) == (130.0, Loss.EXPIRED)
    # And a loss is final, even before the deadline
    assert not one.prolonged(129.0, deadline(129.0, 30.0), 129.5)
    assert one.deadline == 130.0
