"""The arithmetic of leases is safe for every lease and every clock within its bounds."""

from __future__ import annotations

import pytest

from holdfast.core import policy
from holdfast.core.claims import PUSHED_RENEW_PART
from holdfast.core.model import TTL_S_MAX, TTL_S_MIN

LEASES = [TTL_S_MIN, 0.1, 1.0, policy.PATIENCE_S, 30.0, 3600.0, TTL_S_MAX]


@pytest.mark.parametrize("lease", LEASES)
@pytest.mark.parametrize("rate", [0.99, 1.0, 1.01])
def test_belief_ends_before_the_store_expires_it(lease: float, rate: float) -> None:
    # Given: the client's clock has another rate than the store's, which counts from the arrival
    sent = 1000.0
    expires_for_us = sent + lease * rate
    assert policy.deadline(sent, lease) < expires_for_us
    assert policy.deadline(sent, lease) == pytest.approx(sent + lease - policy.margin(lease))


def test_two_renewals_may_fail_and_a_waiter_asks_often_enough_to_stay_in_line() -> None:
    for lease in LEASES[1:]:
        assert 3 * policy.renew_every(lease) == pytest.approx(lease)
        assert 2 * policy.renew_every(lease) < policy.deadline(0.0, lease)
    assert 3 * policy.ASK_AGAIN_S_MAX <= policy.PATIENCE_S
    assert 2 * policy.NAP_S_MAX < policy.PATIENCE_S
    assert policy.NAP_S_MAX < PUSHED_RENEW_PART * policy.PATIENCE_S
