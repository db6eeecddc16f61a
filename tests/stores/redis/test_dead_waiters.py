"""A line with many dead waiters: each verb is bounded, and the living waiters are granted."""

from __future__ import annotations

import random
import time

import pytest

from holdfast.core.model import Claim, Full, Held, Keep, Waiting
from holdfast.stores.redis import replies
from tests.stores.redis.verbs import LABEL, START, Verbs, claim, fence, ticket
from tests.torture.scale import seed_of

MOST = 10_000
#: The dead waiters that one call drops. This limits the calls that a living waiter needs.
STEPS = 500
#: No call takes longer than this, even on a busy machine.
BOUND_S = 0.25


def full_line(verbs: Verbs) -> tuple[Claim, list[Claim], list[int]]:
    """Return a holder and as many waiters as a line may have, with their tickets."""
    holder = claim(ttl=60.0)
    fence(verbs.join(holder))
    waiters = [claim() for _ in range(MOST)]
    said = verbs.all([verbs.requests.join(one, True) for one in waiters])
    places = [ticket(replies.joined(one, waiters[0], LABEL)) for one in said]
    return holder, waiters, places


def revive(verbs: Verbs, waiters: list[Claim], places: list[int], now: float) -> None:
    """Let these waiters ask at this time, so that they stay alive."""
    verbs.at(now)
    pairs = zip(waiters, places, strict=True)
    verbs.all([verbs.requests.stand(Keep(one, place, 30.0)) for one, place in pairs])


@pytest.mark.parametrize("living", ["the last", "half"])
def test_the_living_are_served_at_once_behind_thousands_of_dead(verbs: Verbs, living: str) -> None:
    seed = seed_of("dead waiters")
    chance = random.Random(seed)
    holder, waiters, places = full_line(verbs)
    share = 0.5 if living == "half" else 0.0
    alive = [at for at in range(MOST - 1) if chance.random() < share] + [MOST - 1]
    revive(verbs, [waiters[at] for at in alive], [places[at] for at in alive], START + 2.5)
    # Given that all other waiters have expired
    verbs.at(START + 4)
    begun = time.monotonic()
    assert verbs.gone(holder)
    longest = time.monotonic() - begun
    first = alive[0]
    keep = Keep(waiters[first], places[first], 30.0)
    calls = 0
    while not isinstance(answer := verbs.stand(keep), Held):
        # Then the waiter must ask again immediately, while there are more waiters to drop
        assert isinstance(answer, Waiting)
        assert answer.retry_in == 0
        calls += 1
        assert calls <= MOST / STEPS
    for at in alive[1:20]:
        begun = time.monotonic()
        assert isinstance(verbs.stand(Keep(waiters[at], places[at], 30.0)), Waiting)
        longest = max(longest, time.monotonic() - begun)
    assert longest < BOUND_S


def test_each_verb_is_bounded_in_a_line_of_dead(verbs: Verbs) -> None:
    holder, waiters, places = full_line(verbs)
    assert isinstance(verbs.join(claim()), Full)
    verbs.at(START + 4)
    late = claim()
    longest = 0.0
    for verb in (
        lambda: verbs.keep([Keep(holder, 0, 60.0)]),
        lambda: verbs.join(late),
        lambda: verbs.stand(Keep(waiters[0], places[0], 30.0)),
        lambda: verbs.resize("refund", 1),
        lambda: verbs.gone(waiters[MOST // 2], suspect=True),
        lambda: verbs.gone(holder),
    ):
        begun = time.monotonic()
        verb()
        longest = max(longest, time.monotonic() - begun)
    assert longest < BOUND_S
    # And a new claim is granted once the dead waiters are dropped
    for _ in range(MOST // STEPS + 2):
        answer = verbs.join(late)
        if isinstance(answer, Held):
            return
    raise AssertionError(f"still {answer}")
