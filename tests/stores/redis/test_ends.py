"""Clocks that step back, and keys that expire: tickets rise all the same."""

from __future__ import annotations

import pytest

from holdfast.core.model import Gone, Loss, Renewal, Waiting
from tests.stores.redis.verbs import START, Verbs, claim, fence, permit, ticket

HOUR_MS = 3_600_000


@pytest.mark.parametrize("waits", [True, False])
def test_tickets_rise_though_the_clock_steps_back(verbs: Verbs, waits: bool) -> None:
    tickets = []
    for number in range(60):
        verbs.at(START - 61.0 * number)
        one, two = claim(ttl=0.5), claim()
        tickets.append(fence(verbs.join(one)))
        if waits:
            tickets.append(ticket(verbs.join(two)))
        assert verbs.gone(one)
        verbs.gone(two)
    tickets.append(fence(verbs.join(claim())))
    assert tickets == sorted(set(tickets))
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


@pytest.mark.parametrize("ttl", [0.5, 599.0, 601.0, 86_400.0])
def test_the_keys_outlive_what_they_hold(ttl: float, verbs: Verbs) -> None:
    state = verbs.keys("gpu")[0]
    # Given a key that is there already, with a short life
    verbs.join(before := permit(2, ttl=1.0))
    verbs.gone(before)
    one, two = permit(2, ttl=ttl), permit(2, ttl=1.0)
    verbs.join(one)
    assert verbs.client.pttl(state) > ttl * 1000 + HOUR_MS
    verbs.join(two)
    verbs.renew([Renewal(two, 0, 0.01)])
    verbs.renew([Renewal(two, 0, 0.01, weight=1)])
    verbs.gone(two)
    assert verbs.client.pttl(state) > ttl * 1000 + HOUR_MS
    verbs.renew([Renewal(one, 0, 86_400.0)])
    assert verbs.client.pttl(state) > 86_400_000 + HOUR_MS


def test_a_hold_that_is_renewed_for_days_keeps_its_keys(verbs: Verbs) -> None:
    # Given a hold and a waiter that are renewed for 2000 s of the test's clock
    state, waiters = verbs.keys()[:2]
    one, two = claim(ttl=60.0), claim()
    held = verbs.join(one)
    verbs.join(two)
    ends = {state: [0], waiters: [0]}
    for second in range(1, 2001):
        verbs.at(START + second)
        if second % 20 == 0:
            assert fence(verbs.renew([Renewal(one, 0, 60.0)])[0]) == fence(held)
        assert isinstance(verbs.turn(two), Waiting)
        if second % 600 == 0:
            for key, seen in ends.items():
                seen.append(verbs.client.pexpiretime(key))
    # Then the expiry of both keys moved every ten minutes
    assert all(seen == sorted(set(seen)) for seen in ends.values())


def test_the_other_keys_exist_only_while_a_claim_waits(verbs: Verbs) -> None:
    state, waiters, *others = verbs.keys()
    one, two = claim(), claim()
    verbs.join(one)
    assert not verbs.client.exists(waiters)
    verbs.join(two)
    assert verbs.client.pttl(waiters) > HOUR_MS
    assert verbs.gone(two)
    assert verbs.gone(one)
    assert not verbs.client.exists(waiters, *others)
    assert verbs.client.hlen(state) == 1


def test_a_line_that_lost_its_second_key_continues(verbs: Verbs) -> None:
    one, two, three = claim(), claim(), claim()
    verbs.join(one)
    verbs.join(two)
    verbs.client.delete(verbs.keys()[1])
    assert verbs.turn(two) == Gone(Loss.EXPIRED)
    assert isinstance(verbs.join(three), Waiting)
    verbs.gone(one)
    assert fence(verbs.turn(three))
