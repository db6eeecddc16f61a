"""The reported loss of a lease with ``max_hold``."""

from __future__ import annotations

import pytest

from holdfast.core.lease import Lease, Terms
from holdfast.core.model import Claim, Kind, Loss, Spec
from holdfast.core.policy import deadline


def lease(max_hold: float) -> Lease:
    spec = Spec("x", Kind.LOCK, 1, 1, 30.0, "me")
    return Lease(Claim("0" * 32, spec), 7, 130.0, 100.0, Terms(max_hold=max_hold), False)


@pytest.mark.parametrize("granted", [15.0, 14.0])
def test_max_hold_is_reported_although_the_store_grants_a_bit_less(granted: float) -> None:
    one = lease(max_hold=40.0)
    assert one.prolonged(105.0, deadline(105.0, one.renewal(105.0).ttl), 105.1)
    assert one.renewal(125.0).ttl == 15.0
    assert one.prolonged(125.0, deadline(125.0, granted), 125.1)
    assert one.deadline < 140.0
    assert one.loss(one.deadline - 0.1) is None
    assert one.loss(one.deadline) is Loss.MAX_HOLD


def test_what_is_lost_before_max_hold_is_lost_for_another_reason() -> None:
    late = lease(max_hold=60.0)
    late.renewal(110.0)
    assert late.loss(130.0) is Loss.EXPIRED
    silent = lease(max_hold=40.0)
    silent.renewal(125.0)
    silent.failures = 1
    assert silent.loss(130.0) is Loss.UNREACHABLE
