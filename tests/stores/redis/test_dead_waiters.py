"""A line with many dead waiters: each verb is bounded, and the living waiters are granted."""

from __future__ import annotations

import random
import time
from functools import partial

import pytest

from holdfast.core.model import Claim, Held, Renewal, Waiting
from holdfast.stores.redis import replies
from tests.stores.redis.verbs import LABEL, START, Verbs, claim, fence, ticket
from tests.torture.scale import seed_of

MOST = 10_000
#: The dead waiters that one call drops. This limits the calls that a living waiter needs.
STEPS = 500
#: No call takes longer than this, even on a busy machine.
BOUND_S = 0.25


def full_line(verbs: Verbs) -> tuple[Claim, list[Claim]]:
    """Return a holder and as many waiters as a line may have."""
    holder = claim(ttl=60.0)
    fence(verbs.join(holder))
    waiters = [claim() for _ in range(MOST)]
    said = verbs.all([verbs.requests.join(one, True) for one in waiters])
    for one in said:
        ticket(replies.joined(one, waiters[0], LABEL))
    return holder, waiters


def revive(verbs: Verbs, waiters: list[Claim], now: float) -> None:
    """Let these waiters ask at this time, so that they stay alive."""
    verbs.at(now)
    verbs.all([verbs.requests.turn(one) for one in waiters])


@pytest.mark.parametrize("living", ["the last", "a quarter"])
def test_the_living_are_served_at_once_behind_thousands_of_dead(verbs: Verbs, living: str) -> None:
    seed = seed_of("dead waiters")
    chance = random.Random(seed)
    holder, waiters = full_line(verbs)
    share = 0.5 if living == "a quarter" else 0.0
    alive = [at for at in range(MOST // 2) if chance.random() < share] + [MOST - 1]
    revive(verbs, [waiters[at] for at in alive], START + 2.5)
    # Given that all other waiters have expired, when any verb comes, then it takes little time
    verbs.at(START + 4)
    dead = waiters[MOST // 2 + 1]
    first, *others = [waiters[at] for at in alive[:20]]
    for verb in (
        lambda: verbs.renew([Renewal(holder, 0, 60.0)]),
        lambda: verbs.join(claim()),
        lambda: verbs.resize("refund", 1),
        lambda: verbs.gone(dead, suspect=True),
        lambda: verbs.gone(holder),
        *[partial(verbs.turn, other) for other in others],
    ):
        begun = time.monotonic()
        verb()
        assert time.monotonic() - begun < BOUND_S
    calls = 0
    while not isinstance(answer := verbs.turn(first), Held):
        # And the first living waiter must ask again immediately, while there are more to drop
        assert isinstance(answer, Waiting)
        assert answer.retry_in == 0
        calls += 1
        assert calls <= MOST / STEPS
