"""Clocks that step back, and keys that expire: tickets rise all the same."""

from __future__ import annotations

import pytest

from holdfast.core.model import (
    Gone,
    Keep,
    Loss,
    Waiting,
)
from tests.stores.redis.verbs import START, Verbs, claim, fence, permit, ticket

HOUR_MS = 3_600_000


def test_tickets_rise_though_the_clock_steps_back(verbs: Verbs) -> None:
    tickets = []
    for number in range(60):
        verbs.at(START - 61.0 * number)
        one, two = claim(ttl=0.5), claim()
        tickets.append(fence(verbs.join(one)))
        waits = verbs.join(two)
        verbs.gone(one)
        tickets.append(ticket(waits))
        verbs.gone(two)
    assert tickets == sorted(set(tickets))
    look = verbs.join(claim())
    assert fence(look) > tickets[-1]
    (row,) = verbs.look().claims  # type: ignore[union-attr]
    assert row.age >= 0


def test_the_last_ticket_is_remembered_for_an_hour_and_more(verbs: Verbs) -> None:
    # Given a name that is used once a minute
    state = verbs.keys()[0]
    renewed, ends = 0, 0
    for minute in range(60):
        verbs.at(START + minute * 60)
        one = claim(ttl=5.0)
        verbs.join(one)
        verbs.gone(one)
        if (now_ends := verbs.client.pexpiretime(state)) > ends:
            renewed, ends = minute, now_ends
        # Then the key's expiry moved within ten minutes, so that an hour always remains
        assert minute - renewed < 10
        assert verbs.client.pttl(state) - 600_000 > HOUR_MS


def test_tickets_rise_without_waiters_although_the_clock_steps_back(verbs: Verbs) -> None:
    tickets = []
    for number in range(60):
        verbs.at(START - 61.0 * number)
        one = claim(ttl=0.5)
        tickets.append(fence(verbs.join(one)))
        assert verbs.gone(one)
    assert tickets == sorted(set(tickets))


def test_a_long_lease_lengthens_the_life_of_a_key_that_is_there(verbs: Verbs) -> None:
    one, two = claim(ttl=1.0), claim(ttl=86_400.0)
    verbs.join(one)
    verbs.gone(one)
    verbs.join(two)
    assert verbs.client.pttl(verbs.keys()[0]) > 86_400_000 + HOUR_MS


@pytest.mark.parametrize("ttl", [0.5, 599.0, 601.0, 86_400.0])
def test_the_keys_outlive_what_they_hold(ttl: float, verbs: Verbs) -> None:
    one, two = permit(2, ttl=ttl), permit(2, ttl=1.0)
    state = verbs.keys("gpu")[0]
    verbs.join(one)
    assert verbs.client.pttl(state) > ttl * 1000 + HOUR_MS
    verbs.join(two)
    verbs.keep([Keep(two, 0, 0.01)])
    verbs.stand(Keep(two, 0, 0.01))
    verbs.gone(two)
    assert verbs.client.pttl(state) > ttl * 1000 + HOUR_MS
    verbs.keep([Keep(one, 0, 86_400.0)])
    assert verbs.client.pttl(state) > 86_400_000 + HOUR_MS


def test_a_hold_that_is_renewed_for_days_keeps_its_keys(verbs: Verbs) -> None:
    # Given a hold and a waiter that are renewed for 2000 s of the test's clock
    state, waiters = verbs.keys()[:2]
    one, two = claim(ttl=60.0), claim()
    held = verbs.join(one)
    verbs.join(two)
    renewed = {state: 0.0, waiters: 0.0}
    now = START
    before = {key: verbs.client.pexpiretime(key) for key in renewed}
    for _ in range(2000):
        now += 1.0
        verbs.at(now)
        if now % 20 < 1:
            assert fence(verbs.keep([Keep(one, 0, 60.0)])[0]) == fence(held)
        assert isinstance(verbs.stand(Keep(two, 0, 60.0)), Waiting)
        for key in renewed:
            ends = verbs.client.pexpiretime(key)
            if ends > before[key]:
                renewed[key] = now - START
                before[key] = ends
    # Then the expiry of both keys moved at least every ten minutes
    assert min(renewed.values()) >= 1400


def test_the_second_key_exists_only_while_a_claim_waits(verbs: Verbs) -> None:
    waiters = verbs.keys()[1]
    one, two = claim(), claim()
    verbs.join(one)
    assert not verbs.client.exists(waiters)
    verbs.join(two)
    assert verbs.client.pttl(waiters) > HOUR_MS
    verbs.gone(two)
    assert not verbs.client.exists(waiters)


def test_a_second_key_of_a_line_that_was_lost_does_no_harm(verbs: Verbs) -> None:
    # Given a line whose first key was deleted, or evicted
    one, two, three, four = (claim() for _ in range(4))
    verbs.join(one)
    verbs.join(two)
    verbs.join(three)
    verbs.client.delete(verbs.keys()[0])
    # When the name is used again
    fence(verbs.join(four))
    assert isinstance(verbs.join(one), Waiting)
    verbs.gone(four)
    # Then only claims that joined since then are granted
    assert fence(verbs.stand(Keep(one, 0, 30.0)))
    assert verbs.stand(Keep(two, 0, 30.0)) == Gone(Loss.EXPIRED)
    assert not verbs.gone(three)
    line = verbs.look()
    assert line is not None
    assert len(line.claims) == 1


def test_a_line_that_lost_its_second_key_continues(verbs: Verbs) -> None:
    one, two, three = claim(), claim(), claim()
    verbs.join(one)
    verbs.join(two)
    verbs.client.delete(verbs.keys()[1])
    assert verbs.stand(Keep(two, 0, 30.0)) == Gone(Loss.EXPIRED)
    assert isinstance(verbs.join(three), Waiting)
    verbs.gone(one)
    assert fence(verbs.stand(Keep(three, 0, 30.0)))
