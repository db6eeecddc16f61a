"""A line of waiters many of whom have died: verbs are bounded, and the living are served."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from holdfast.core.model import Claim, Full, Held, Keep, Waiting
from holdfast.stores.redis import replies
from tests.servers.fixtures import NewRedis
from tests.stores.redis.verbs import LABEL, START, Verbs, claim, fence, ticket
from tests.torture.scale import seed_of

MOST = 10_000
#: Number of the dead that one call drops, which limits the calls that the living need.
STEPS = 500
#: No call holds the server for longer, on a machine that is busy with other things.
BOUND_S = 0.25


@pytest.fixture
def verbs(new_redis: NewRedis) -> Iterator[Verbs]:
    """The scripts on a server of their own, at a time of the test's."""
    with Verbs(new_redis(), clock=True) as one:
        one.at(START)
        yield one


def full_line(verbs: Verbs) -> tuple[Claim, list[Claim], list[int]]:
    """A holder and as many waiters as there may be, with their tickets."""
    holder = claim(ttl=60.0)
    fence(verbs.join(holder))
    waiters = [claim() for _ in range(MOST)]
    said = verbs.all([verbs.requests.join(one, True) for one in waiters])
    places = [ticket(replies.joined(one, waiters[0], LABEL)) for one in said]
    return holder, waiters, places


def revive(verbs: Verbs, waiters: list[Claim], places: list[int], now: float) -> None:
    """These ask again at this time, and so live on."""
    verbs.at(now)
    pairs = zip(waiters, places, strict=True)
    verbs.all([verbs.requests.stand(Keep(one, place, 30.0)) for one, place in pairs])


@pytest.mark.parametrize("living", ["the last", "one in a hundred", "half"])
def test_the_living_are_served_at_once_behind_thousands_of_dead(verbs: Verbs, living: str) -> None:
    seed = seed_of("dead waiters")
    chance = random.Random(seed)
    holder, waiters, places = full_line(verbs)
    share = {"the last": 0.0, "one in a hundred": 0.01, "half": 0.5}[living]
    alive = [at for at in range(MOST - 1) if chance.random() < share] + [MOST - 1]
    revive(verbs, [waiters[at] for at in alive], [places[at] for at in alive], START + 2.5)
    # Given that the patience of all others is over
    verbs.at(START + 4)
    begun = time.monotonic()
    assert verbs.gone(holder)
    longest = time.monotonic() - begun
    first = alive[0]
    keep = Keep(waiters[first], places[first], 30.0)
    calls = 0
    while not isinstance(answer := verbs.stand(keep), Held):
        # Then who asks is told to ask again at once, as long as there is more to be dropped
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
    # And whoever comes is in once the dead are dropped
    for _ in range(MOST // STEPS + 2):
        answer = verbs.join(late)
        if isinstance(answer, Held):
            return
    raise AssertionError(f"still {answer}")
