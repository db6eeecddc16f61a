"""The arithmetic of leases is safe for every lease and every clock within its bounds."""

from __future__ import annotations

import random

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
    # When, then
    assert policy.deadline(sent, lease) < expires_for_us
    assert policy.deadline(sent, lease) == pytest.approx(sent + lease - policy.margin(lease))


@pytest.mark.parametrize("lease", LEASES)
def test_two_renewals_may_fail_before_a_lease_is_lost(lease: float) -> None:
    third = 3 * policy.renew_every(lease)
    assert third == pytest.approx(lease)
    if lease >= 0.1:
        assert 2 * policy.renew_every(lease) < policy.deadline(0.0, lease)


def test_a_nap_is_bounded_by_the_time_left_and_by_retry_in() -> None:
    seed = random.SystemRandom().getrandbits(32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(1000):
        retry_in, left = chance.uniform(0, 5), chance.uniform(0, 5)
        nap = policy.nap(retry_in, left)
        assert policy.ASK_AGAIN_S_MIN <= nap <= policy.NAP_S_MAX
        assert nap <= max(left, policy.ASK_AGAIN_S_MIN)
        assert nap <= max(retry_in, policy.ASK_AGAIN_S_MIN)


def test_a_waiter_asks_often_enough_to_stay_in_line() -> None:
    assert 3 * policy.ASK_AGAIN_S_MAX <= policy.PATIENCE_S
    assert 2 * policy.NAP_S_MAX < policy.PATIENCE_S
    assert policy.NAP_S_MAX < PUSHED_RENEW_PART * policy.PATIENCE_S


def test_back_off_doubles_to_its_bound_and_is_half_chance() -> None:
    longest = [policy.back_off(attempt, 1.0, 2.0) for attempt in range(20)]
    assert longest == sorted(longest)
    assert (longest[0], longest[-1], policy.back_off(10**9, 1.0, 1.0)) == (0.02, 2.0, 1.0)
    assert [policy.back_off(attempt, 0.0, 2.0) for attempt in range(20)] == [
        one / 2 for one in longest
    ]
