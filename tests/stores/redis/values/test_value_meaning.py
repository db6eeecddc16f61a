"""The guard verbs of Redis and of the memory store give the same answers to random sequences.

The test sets the clock, so leases and pauses end without a wait. Only values live on the real
clock: they are fresh during the whole test, or stale after a moment. Late copies of requests
arrive, too.
"""

from __future__ import annotations

import secrets
import time
from typing import Any

import pytest

from holdfast.core.guard.model import Abandon, Busy, Duty, Entry, Finish, Prolong, Wish
from holdfast.core.model import Held
from holdfast.runtime.blocking import run_sync
from holdfast.stores.redis.keys import PREFIX
from holdfast.stores.redis.value_calls import ValueRequests
from holdfast.stores.redis.value_keys import seen, written
from holdfast.stores.redis.values import RedisGuards
from tests.stores.redis.ports import PlainPort
from tests.stores.redis.verbs import START, TAG, Verbs
from tests.stores.value_twins import ValueTwins
from tests.torture.scale import seed_of, times

SEED = seed_of("values on Redis, as in memory")
LONG, SHORT = 1e6, 0.001


class RedisTwins(ValueTwins):
    start = START
    near = 1e-4
    #: The times of values are real, so the answers about them can differ by this much.
    value_near = 120.0
    spans = ((LONG, SHORT), (LONG,), (LONG,))
    remembers_finished = True

    def __init__(self, verbs: Verbs, seed: object) -> None:
        super().__init__(seed, [Entry("g:1", f"{seed}")])
        self.verbs = verbs
        port: Any = PlainPort(verbs, lambda: self.dice.choice((b"", TAG)))
        self.guards = RedisGuards(port, PREFIX)

    def ask(self, verb: str, what: Any) -> Any:
        self.verbs.at(self.now)
        found = run_sync(getattr(self.guards, verb)(what, 10.0))
        if isinstance(what, Finish) and what.ttl == SHORT:
            time.sleep(0.003)
            self.now += 0.002
        return found


@pytest.mark.usual(1)
@pytest.mark.parametrize("number", range(times(50, 2)))
def test_random_sequences_have_the_same_answers(number: int, verbs: Verbs) -> None:
    for turn in range(50):  # in five, one run of fifteen shows nothing of a late value
        RedisTwins(verbs, f"{SEED} {number} {turn}").walk(80)


def wish(lease: float = 5.0, wait: bool = False) -> Wish:
    return Wish(Entry("g", "k"), secrets.token_hex(16), "me", lease, wait=wait)


@pytest.fixture
def twins(verbs: Verbs) -> RedisTwins:
    return RedisTwins(verbs, SEED)


def stored(twins: RedisTwins) -> int:
    """Store a value that is stale at once; return its version."""
    mine = wish()
    found = twins.ask("begin", mine)
    assert isinstance(found, Duty)
    assert twins.ask("finish", Finish(mine.entry, mine.id, found.fence, b"x", SHORT, 60, 0, 0))
    return found.fence


def test_a_request_that_comes_after_it_was_given_up_gets_nothing(twins: RedisTwins) -> None:
    late = wish()
    for suspect in (True, False):
        given_up = Abandon(late.entry, late.id, late.lease, suspect=suspect)
        assert not twins.ask("abandon", given_up)
    twins.now = START + 20
    assert isinstance(twins.ask("begin", late), Busy)
    # It blocks no other request, neither now nor after the next value is stored
    stored(twins)
    assert isinstance(twins.ask("begin", late), Busy)
    twins.now = START + 40
    assert isinstance(twins.ask("begin", late), Duty)


def test_fences_rise_though_the_clock_goes_back(twins: RedisTwins) -> None:
    fences = []
    for turn in range(6):
        twins.now = START - 1000 * turn
        fences.append(stored(twins))
    assert fences == sorted(set(fences))


def test_dead_waiters_are_forgotten_while_the_refresh_lease_lasts(
    twins: RedisTwins, verbs: Verbs
) -> None:
    mine, requests = wish(60), ValueRequests()
    found = twins.ask("begin", mine)
    for number in range(5):
        verbs.at(START + number)
        assert verbs.ask(requests.begin(wish(wait=True), b"1 holdfast:poke:nobody"))[0] == 2
    (key,) = verbs.client.keys("holdfast:*%*")
    assert verbs.client.hlen(key) == 7
    twins.now = START + 6.5
    (kept,) = twins.ask("prolong", [Prolong(mine.entry, mine.id, found.fence, 60)])
    assert isinstance(kept, Held)
    assert verbs.client.hlen(key) == 3


#: The milliseconds that are left, and the seconds for which the value is then fresh.
LEFT = {
    "fresh": (70_000, 10.0),
    "on the edge": (60_000, 0.0),
    "stale": (59_000, -1.0),
    "longer than it can be": (120_900, 60.0),
    "much longer": (999_000, -60.0),
    "written since": (-2, 60.0),
    "no end": (-1, None),
}


@pytest.mark.parametrize("left, fresh_in", LEFT.values(), ids=LEFT)
def test_a_value_that_is_replaced_between_the_two_looks_is_never_younger_than_it_is(
    left: int, fresh_in: float | None
) -> None:
    raw, _ = written(Finish(Entry("g", "k"), "mine", 5, b"x", 60, 40, 20, 0), 7)
    value = seen(raw, left, 7)
    assert (value and value.fresh_in) == fresh_in
