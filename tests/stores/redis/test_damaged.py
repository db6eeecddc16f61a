"""A line that was damaged from outside, or whose clock was set back."""

from __future__ import annotations

import contextlib

import pytest

from holdfast import ConfigError
from holdfast.core.model import Claim, Held, Renewal, Standing
from tests.stores.redis.verbs import START, Verbs, claim, fence, permit, ticket

HOUR_S, DECADE_S = 3600.0, 10 * 365.25 * 86_400


@pytest.mark.parametrize("how", ["removed", "emptied"])
def test_a_holder_whose_row_is_gone_bars_the_name_until_its_lease_ends_and_no_longer(
    verbs: Verbs, how: str
) -> None:
    holder, waits = claim(ttl=2.0), claim()
    fence(verbs.join(holder))
    place = ticket(verbs.join(waits))
    state = verbs.keys()[0]
    if how == "removed":
        verbs.client.hdel(state, holder.id)
    else:
        verbs.client.hset(state, holder.id, b"")
    verbs.at(START + 2.1)
    assert fence(verbs.turn(waits)) == place


@pytest.mark.parametrize("alone", [True, False])
def test_a_state_cut_to_any_length_grants_nothing_next_to_the_holder(
    verbs: Verbs, alone: bool
) -> None:
    for length in range(1, 74):
        fence(verbs.join(claim()))
        if not alone:
            ticket(verbs.join(claim()))
        state = verbs.keys()[0]
        whole = verbs.client.hget(state, "s")
        assert whole
        verbs.client.hset(state, "s", whole[:length])
        with contextlib.suppress(ConfigError):
            assert not isinstance(verbs.join(claim()), Held), length
        verbs.client.delete(*verbs.keys())


def test_an_impossible_state_is_refused_and_its_key_is_named(verbs: Verbs) -> None:
    holder, waits = claim(), claim()
    fence(verbs.join(holder))
    ticket(verbs.join(waits))
    state = verbs.keys()[0]
    whole = verbs.client.hget(state, "s") or b""
    for changed in (whole[:40], whole[:2] + b"\xff" * (len(whole) - 2), b""):
        verbs.client.hset(state, "s", changed)
        with pytest.raises(ConfigError, match=r"damaged from outside.*refund"):
            verbs.turn(waits)


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("back", [HOUR_S, DECADE_S])
def test_a_dead_holder_is_dropped_in_time_though_the_clock_was_set_back(
    verbs: Verbs, alone: bool, back: float
) -> None:
    holder, waits = claim(ttl=30.0), claim()
    before = fence(verbs.join(holder))
    if not alone:
        ticket(verbs.join(waits))
    verbs.at(START - back)
    ticket(verbs.join(waits))
    found, _ = asked_until_held(verbs, waits, START - back, 120)
    assert fence(found) > before


def asked_until_held(
    verbs: Verbs, waits: Claim, since: float, most: int, *others: Renewal
) -> tuple[Standing | Exception, int]:
    """Let a waiter ask each second until it holds; return the last answer and its second.

    The ``others`` are renewed every ten seconds.
    """
    for second in range(1, most):
        verbs.at(since + second)
        if others and second % 10 == 0:
            assert all(isinstance(one, Held) for one in verbs.renew(others))
        found = verbs.turn(waits)
        if isinstance(found, Held):
            break
    return found, second


def renewed_for(verbs: Verbs, renewals: list[Renewal], until: float) -> None:
    """Renew the holds until that moment of the test's clock."""
    now = START
    while now < until:
        now = min(until, now + 25.0)
        verbs.at(now)
        assert all(isinstance(one, Held) for one in verbs.renew(renewals))


@pytest.mark.parametrize("others", [0, 1, 12])
def test_a_dead_holder_that_was_renewed_for_long_is_dropped_in_time_after_a_step_back(
    verbs: Verbs, others: int
) -> None:
    # Given a line whose last ticket is older than the time to which the clock is set back
    claims = [permit(others + 1) for _ in range(others + 1)]
    renewals = [Renewal(one, fence(verbs.join(one)), 30.0) for one in claims]
    renewed_for(verbs, renewals, START + 2 * HOUR_S)
    since = START + HOUR_S
    # When one of the holders has died
    verbs.at(since)
    waits = permit(others + 1)
    ticket(verbs.join(waits))
    _, second = asked_until_held(verbs, waits, since, 130, *renewals[1:])
    assert second < (45 if others < 8 else 120)


@pytest.mark.parametrize("others", [0, 1])
def test_a_holder_that_dies_after_a_renewal_behind_a_step_back_is_dropped_in_time(
    verbs: Verbs, others: int
) -> None:
    claims = [permit(others + 1) for _ in range(others + 1)]
    renewals = [Renewal(one, fence(verbs.join(one)), 30.0) for one in claims]
    renewed_for(verbs, renewals, START + 2 * HOUR_S)
    since = START + HOUR_S
    verbs.at(since)
    assert all(isinstance(one, Held) for one in verbs.renew(renewals))
    # Then its lease lasts for its ttl, as it would have without the step
    verbs.at(since + 29)
    assert not isinstance(verbs.join(permit(others + 1), False), Held)
    verbs.at(since + 31)
    assert fence(verbs.join(permit(others + 1), False))


def test_a_dead_waiter_that_waited_for_long_gives_way_after_a_step_back(verbs: Verbs) -> None:
    holder, dead, waits = permit(2), permit(2, weight=2), permit(2, weight=2)
    renewal = Renewal(holder, fence(verbs.join(holder)), 30.0)
    ticket(verbs.join(dead))
    now = START
    while now < START + 300.0:
        now += 2.0
        verbs.at(now)
        assert isinstance(verbs.renew([renewal])[0], Held)
        ticket(verbs.turn(dead))
    since = START + 100.0
    verbs.at(since)
    ticket(verbs.join(waits))
    verbs.gone(holder)
    _, second = asked_until_held(verbs, waits, since, 30)
    assert second < 10


def test_a_look_after_a_step_back_writes_nothing_and_succeeds(verbs: Verbs) -> None:
    holder = claim()
    fence(verbs.join(holder))
    verbs.at(START - HOUR_S)
    line = verbs.look()
    assert line is not None
    assert line.holders


@pytest.mark.parametrize("back", [HOUR_S, DECADE_S])
def test_a_living_holder_outlasts_a_clock_that_is_set_back(verbs: Verbs, back: float) -> None:
    holder, waits = claim(ttl=30.0), claim()
    renewal = Renewal(holder, fence(verbs.join(holder)), 30.0)
    verbs.at(START - back)
    place = ticket(verbs.join(waits))
    found, second = asked_until_held(verbs, waits, START - back, 200, renewal)
    assert (ticket(found), second) == (place, 199)


@pytest.mark.parametrize("back", [HOUR_S, DECADE_S])
def test_a_dead_waiter_gives_way_in_time_though_the_clock_was_set_back(
    verbs: Verbs, back: float
) -> None:
    holder, dead, waits = claim(), claim(), claim()
    fence(verbs.join(holder))
    ticket(verbs.join(dead))
    place = ticket(verbs.join(waits))
    verbs.at(START - back)
    ticket(verbs.turn(waits))
    verbs.gone(holder)
    found, _ = asked_until_held(verbs, waits, START - back, 11)
    assert fence(found) == place
