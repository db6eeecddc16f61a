"""The guard verbs of Redis and of the memory store give the same answers to random sequences.

The test sets the clock, so leases and pauses end without a wait. Only values live on the real
clock: they are fresh during the whole test, or stale after a moment. Late copies of requests
arrive, too.
"""

from __future__ import annotations

import random
import secrets
import time
from typing import Any

import pytest

from holdfast.core.guard.model import (
    Abandon,
    Busy,
    Duty,
    Entry,
    Failing,
    Finish,
    Prolong,
    Value,
    Wish,
)
from holdfast.core.model import Held
from holdfast.stores.memory.values import Values
from holdfast.stores.redis import value_replies as replies
from holdfast.stores.redis.value_calls import ValueRequests
from holdfast.stores.redis.value_keys import seen
from tests.stores.redis.verbs import LABEL, START, TAG, Verbs
from tests.torture.scale import times

SEED = random.SystemRandom().randrange(1 << 32)
LONG, SHORT = 1e6, 0.001
#: The times of values are real, so the answers about them can differ by this much.
NEAR_S = 120.0


class Twins:
    """Two stores that get the same requests; the test fails where their answers differ."""

    def __init__(self, verbs: Verbs, dice: random.Random) -> None:
        self.verbs, self.dice = verbs, dice
        self.requests = ValueRequests()
        self.values = Values()
        self.entry = Entry("g:1", f"k{dice.getrandbits(64):x}")
        self.place = self.requests.place(self.entry)
        self.now = START
        self.wishes: list[Wish] = []
        #: The refresh leases: the request, the fence in memory, and the fence in Redis.
        self.duties: list[tuple[Wish, int, int]] = []
        self.finishes: list[tuple[Finish, Finish]] = []
        self.story: list[str] = []

    def ask(self, call: Any) -> Any:
        self.verbs.at(self.now)
        return self.verbs.ask(call, self.dice.choice((b"", TAG)))

    def same(self, what: object, theirs: object, ours: object) -> None:
        self.story.append(f"{self.now - START:.3f} {what} -> {theirs}")
        assert theirs == ours, "\n".join(["", *self.story[-40:], f"but ours: {ours}"])

    def step(self) -> None:
        self.now += self.dice.randrange(1, 300) / 1000
        acts = (self.begin, self.begin, self.finish, self.abandon, self.prolong, self.invalidate)
        self.dice.choice(acts)()
        self.look()

    def told(self, what: Any) -> Any:
        """Return an answer without its moments and fences."""
        if isinstance(what, Value):
            return what.data, what.fresh_in > 0, what.stale_in > 0, what.cost
        if isinstance(what, Busy):
            return "busy", round(what.retry_in, 4)
        if isinstance(what, Failing):
            return "failing", round(what.retry_in, 4), what.reason
        assert isinstance(what, Duty)
        return "duty", round(what.expires_in, 4), what.failures

    def begin(self) -> None:
        if self.wishes and self.dice.random() < 0.3:
            wish = self.dice.choice(self.wishes[-4:])
        else:
            # No whole milliseconds, unlike the steps: at the exact end both answers are right.
            lease, name = self.dice.choice((0.2005, 0.7005, 3.0005)), secrets.token_hex(16)
            wish = Wish(self.entry, name, self.dice.choice(("", "me", "\N{SNOWMAN}")), lease)
        if any(wish.id == one.id for _, one in self.finishes):
            return  # a late one of these may get the duty in memory alone, where nothing is late
        known = self.values.read(self.entry, self.now)
        pair = (0, 0)
        if known is not None and self.dice.random() < 0.5:
            pair = next(
                (theirs.fence, ours.fence)
                for theirs, ours in self.finishes
                if theirs.fence == known.version
            )
        theirs = self.values.begin(wish._replace(known=pair[0]), self.now, None)
        reply = self.ask(self.requests.begin(wish._replace(known=pair[1]), b""))
        ours = replies.begun(reply, self.place, LABEL)
        self.same(("begin", wish.id[:4], pair), self.told(theirs), self.told(ours))
        self.wishes.append(wish)
        if isinstance(theirs, Duty) and isinstance(ours, Duty):
            # In memory no request is late, so the memory store doesn't compare the fence
            self.duties = [one for one in self.duties if one[0].id != wish.id]
            self.duties.append((wish, theirs.fence, ours.fence))

    def duty(self) -> tuple[Wish, int, int] | None:
        return self.dice.choice(self.duties[-3:]) if self.duties else None

    def finish(self) -> None:
        if self.finishes and self.dice.random() < 0.3:
            theirs, ours = self.dice.choice(self.finishes[-2:])
        else:
            duty = self.duty()
            if duty is None:
                return
            wish, fence, other = duty
            ttl = self.dice.choice((LONG, SHORT))
            times_ = (ttl, LONG, LONG, self.dice.random())
            data = self.dice.randbytes(self.dice.choice((0, 3, 500)))
            theirs = Finish(self.entry, wish.id, fence, data, *times_)
            ours = theirs._replace(fence=other)
        found = self.values.finish(theirs, self.now)
        answer = replies.yes(self.ask(self.requests.finish(ours)), LABEL)
        if theirs.ttl == SHORT:
            time.sleep(0.003)
            self.now += 0.002
        self.same(("finish", theirs.id[:4], theirs.ttl), found, answer)
        self.finishes.append((theirs, ours))

    def abandon(self) -> None:
        if not self.wishes:
            return
        wish = self.dice.choice(self.wishes[-3:])
        # Here, too, no end is a whole millisecond.
        pause, memory = self.dice.choice(((0.0, 0.0), (0.0, 0.0), (0.4005, 0.8015)))
        what = Abandon(self.entry, wish.id, wish.lease, pause, memory, "why \N{SNOWMAN}")
        theirs = self.values.abandon(what, self.now)
        ours = replies.yes(self.ask(self.requests.abandon(what)), LABEL)
        self.same(("abandon", wish.id[:4], pause), theirs, ours)

    def prolong(self) -> None:
        duty = self.duty()
        if duty is None:
            return
        wish, fence, other = duty
        what = Prolong(self.entry, wish.id, fence, self.dice.choice((0.3005, 2.0005)))
        theirs = isinstance(self.values.prolong(what, self.now), Held)
        reply = self.ask(self.requests.prolong(what._replace(fence=other)))
        self.same(("prolong", wish.id[:4]), theirs, replies.yes(reply, LABEL))

    def invalidate(self) -> None:
        if self.dice.random() < 0.5:
            return
        theirs = self.values.invalidate(self.entry, self.now)
        ours = replies.yes(self.ask(self.requests.invalidate(self.entry)), LABEL)
        self.same("invalidate", theirs, ours)

    def look(self) -> None:
        theirs = self.values.look(self.entry, self.now)
        reply = self.ask(self.requests.look(self.entry))
        ours = replies.shown(reply, self.entry, self.place, LABEL)
        plain = {"version": 0, "fresh_in": 0.0, "stale_in": 0.0, "lease_in": 0.0, "pause_in": 0.0}
        self.same("look", theirs._replace(**plain), ours._replace(**plain))
        assert abs(theirs.fresh_in - ours.fresh_in) < NEAR_S
        assert abs(theirs.stale_in - ours.stale_in) < NEAR_S
        assert abs(theirs.lease_in - ours.lease_in) < 1e-4
        assert abs(theirs.pause_in - ours.pause_in) < 1e-4


@pytest.mark.usual(1)
@pytest.mark.parametrize("number", range(times(50, 2)))
def test_random_sequences_have_the_same_answers(number: int, verbs: Verbs) -> None:
    print(f"seed {SEED}")
    for turn in range(50):  # in five, one run of fifteen shows nothing of a late value
        dice = random.Random(f"{SEED} {number} {turn}")
        twins = Twins(verbs, dice)
        for _ in range(80):
            twins.step()


def duty(verbs: Verbs, wish: Wish, at: float) -> Any:
    verbs.at(at)
    requests = ValueRequests()
    reply = verbs.ask(requests.begin(wish, b""))
    return replies.begun(reply, requests.place(wish.entry), LABEL)


def wish(lease: float = 5.0) -> Wish:
    return Wish(Entry("g", "k"), secrets.token_hex(16), "me", lease)


def test_a_request_that_comes_after_it_was_given_up_gets_nothing(verbs: Verbs) -> None:
    requests, late, next_ = ValueRequests(), wish(), wish()
    for suspect in (True, False):
        given_up = Abandon(late.entry, late.id, late.lease, suspect=suspect)
        assert verbs.ask(requests.abandon(given_up)) == 0
    assert isinstance(duty(verbs, late, START + 20), Busy)
    # It blocks no other request, neither now nor after the next value is stored
    found = duty(verbs, next_, START + 21)
    assert isinstance(found, Duty)
    end = Finish(next_.entry, next_.id, found.fence, b"x", 0.001, 0, 0, 0)
    assert verbs.ask(requests.finish(end)) == 1
    time.sleep(0.003)
    assert isinstance(duty(verbs, late, START + 22), Busy)
    assert isinstance(duty(verbs, late, START + 40), Duty)


def test_fences_rise_though_the_clock_goes_back(verbs: Verbs) -> None:
    requests, fences = ValueRequests(), []
    for turn in range(6):
        mine = wish()
        found = duty(verbs, mine, START - 1000 * turn)
        fences.append(found.fence)
        end = Finish(mine.entry, mine.id, found.fence, b"x", 0.001, 60, 0, 0)
        assert verbs.ask(requests.finish(end)) == 1
        time.sleep(0.003)
    assert fences == sorted(set(fences))


def test_dead_waiters_are_forgotten_while_the_refresh_lease_lasts(verbs: Verbs) -> None:
    requests, mine = ValueRequests(), wish(60)
    found = duty(verbs, mine, START)
    for number in range(5):
        one = wish()._replace(wait=True)
        verbs.at(START + number)
        assert verbs.ask(requests.begin(one, b"1 holdfast:poke:nobody"))[0] == 2
    (key,) = verbs.client.keys("holdfast:*%*")
    assert verbs.client.hlen(key) == 7
    verbs.at(START + 6.5)
    assert verbs.ask(requests.prolong(Prolong(mine.entry, mine.id, found.fence, 60))) == 1
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
    left: int, fresh_in: float | None, verbs: Verbs
) -> None:
    requests, mine = ValueRequests(), wish()
    found = duty(verbs, mine, START)
    end = Finish(mine.entry, mine.id, found.fence, b"x", 60, 40, 20, 0)
    assert verbs.ask(requests.finish(end)) == 1
    (key,) = verbs.client.keys("holdfast:*=*")
    value = seen(verbs.client.get(key), left, requests.place(mine.entry).check)
    assert (value and value.fresh_in) == fresh_in
