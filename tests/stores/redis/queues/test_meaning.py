"""The queue verbs of Redis and of the memory store give the same answers to random sequences.

The test sets the clock, so leases and intervals end without a wait. No two moments are equal,
because the order of events at one moment isn't promised.
"""

from __future__ import annotations

import math
import random
import secrets
from typing import Any

import pytest

from holdfast.core.model import Gone, Held
from holdfast.core.queue.model import (
    BATCH_MAX,
    Extend,
    Job,
    JobState,
    Pace,
    Patience,
    Put,
    Settle,
    Start,
    Take,
    Taken,
    Verdict,
)
from holdfast.errors import StoreUnavailable
from holdfast.stores.memory import jobs_look
from holdfast.stores.memory.jobs import Queue
from holdfast.stores.redis import queue_replies as replies
from holdfast.stores.redis.queue_calls import QueueRequests
from holdfast.stores.redis.queue_keys import Layout
from tests.stores.redis.verbs import LABEL, START, Verbs
from tests.torture.scale import times

SEED = random.SystemRandom().randrange(1 << 32)
ONE = Layout(1)
REQUESTS = QueueRequests(ONE)
GROUPS = ("", "", "a", "b", "bank:4001\n")


class Twins:
    """Two stores that get the same requests; the test fails where their answers differ."""

    def __init__(self, verbs: Verbs, dice: random.Random, calm: bool = False) -> None:
        self.verbs, self.dice = verbs, dice
        #: Whether nearly all requests are usual ones. Then the scripts take their fast paths.
        self.calm = calm
        self.queue = Queue()
        self.name = f"q{dice.getrandbits(64):x}"
        self.now = START
        self.pace = Pace(
            # An interval of 0 from the take is left out: a job would be due again at the very
            # moment at which the same request settles another one.
            *dice.choice(((0.0, Start.ACK), (0.500419, Start.ACK), (0.500419, Start.TAKE))),
            dice.choice((float("inf"), float("inf"), 1.937)),
        )
        self.patience = Patience(dice.choice((2, 10)), dice.random() < 0.5)
        self.puts = 0
        #: The last put, and the put before it.
        self.last: Put | None = None
        self.late: Put | None = None
        self.takes: list[Take] = []
        #: All deliveries: the take, the delivery in memory, and the delivery in Redis.
        self.loans: list[tuple[Take, Any, Any]] = []
        self.ids: list[str] = []
        self.fences: dict[str, int] = {}
        self.story: list[str] = []

    def ask(self, call: Any) -> Any:
        self.verbs.at(self.now)
        return self.verbs.ask(call)

    def same(self, what: object, theirs: object, ours: object) -> None:
        self.story.append(f"{self.now - START:.3f} {what} -> {theirs}".replace("x" * 2000, "X"))
        assert theirs == ours, "\n".join(["", *self.story[-40:], f"but ours: {ours}"])

    def step(self) -> None:
        if self.calm:
            self.step_calmly()
            return
        self.now += self.dice.randrange(1, 300) / 1000
        first = self.put, self.again, self.take, self.retake
        then = self.settle, self.go_on, self.extend, self.back
        self.dice.choices((*first, *then), (6, 1, 7, 1, 5, 4, 2, 1))[0]()
        if self.dice.random() < 0.05:
            self.now += 0.001
            self.dice.choice((self.purge, self.revive))()

    def step_calmly(self) -> None:
        # Sometimes all leases expire
        self.now += 2.1 if self.dice.random() < 0.02 else self.dice.randrange(1, 60) / 1000
        acts = {self.put: 5, self.take: 2} if len(self.loans) <= 2 else {}
        if self.loans:
            acts |= {self.go_on: 6, self.settle: 1, self.extend: 1}
        self.dice.choices([*acts], [*acts.values()])[0]()

    def put(self) -> None:
        self.puts += 1
        group = self.dice.choice(GROUPS)
        jobs = []
        for _ in range(self.dice.choice((1, 1, 1, 3)) if group else 1):
            known = self.dice.random() < 0.2 and not self.calm
            id_ = f"k{self.dice.randrange(6)}" if known else secrets.token_hex(16)
            delay = self.dice.choice((0.0, 0.0, 0.0, 0.0 if self.calm else 0.700137))
            payload = b"x" * self.dice.choice((0, 3, 2000))
            jobs.append(Job(id_, group, payload, delay, known))
            self.ids.append(id_)
        self.late = self.last
        self.last = Put(self.name, "l" * 32, self.puts, tuple(jobs), 3.000053)
        self.again()

    def again(self) -> None:
        if self.last is None:
            return
        put = self.last
        if self.late is not None and self.dice.random() < 0.1:
            self.ask_put(self.late)
        self.ask_put(put)

    def ask_put(self, put: Put) -> None:
        theirs: Any
        try:
            theirs = self.queue.put(put, self.now)
        except StoreUnavailable:
            theirs = "late"
        reply = self.ask(REQUESTS.put(put, 0, put.jobs))
        ours: Any
        try:
            ours, _ = replies.accepted(reply, len(put.jobs), LABEL)
        except StoreUnavailable:
            ours = "late"
        self.same(put, theirs, ours)

    def take(self) -> None:
        self.takes.append(self.wish())
        self._take(self.takes[-1])

    def wish(self) -> Take:
        what = secrets.token_hex(16), 1, 2.000271, "somebody", self.pace, self.patience
        return Take(self.name, *what)

    def retake(self) -> None:
        if self.takes:
            self._take(self.dice.choice(self.takes[-4:]))

    def _take(self, take: Take) -> None:
        theirs = self.queue.take(take, self.now)
        reply = self.ask(REQUESTS.take(take, 0, take.most, b"", b""))
        ours = Taken(*replies.taken(reply, 0, ONE, LABEL))
        self.taken(take, theirs, ours)

    def taken(self, take: Take, theirs: Taken, ours: Taken) -> None:
        self.same(take, _seen(theirs), _seen(ours))
        if not ours.deliveries:
            assert ours.retry_in <= self.soonest() + 0.0011, self.story[-20:]
        for mine, other in zip(theirs.deliveries, ours.deliveries, strict=True):
            self.loans.append((take, mine, other))
            track = other.group or other.id
            assert other.fence >= self.fences.get(track, 0)
            self.fences[track] = other.fence
        self.look()

    def soonest(self) -> float:
        """Return the seconds until a job can be due, at most 1."""
        tracks = [*self.queue.tracks.values(), *self.queue.singles.values()]
        moments = [one.loan.expires if one.loan else one.at() for one in tracks]
        soonest = min(moments, default=math.inf) - self.now
        if self.pace.rate < math.inf:
            soonest = max(soonest, self.queue.next_start - self.now)
        return min(max(soonest, 0.0), 1.0)

    def settle(self) -> None:
        if self.loans:
            one, answer = self.verdict(self.dice.choice(self.loans[-3:]))
            reply = self.ask(REQUESTS.settle(self.name, 0, [one]))
            self.same(one, [answer], replies.settled(reply, 1, LABEL)[0])

    def go_on(self) -> None:
        """Settle one delivery and take the next job, in one request."""
        if not self.loans:
            return
        one, answer = self.verdict(self.dice.choice(self.loans[-3:]))
        take = self.wish()
        if self.dice.random() < 0.1:  # a copy of one that was sent before
            take = self.dice.choice(self.takes[-4:])
        self.takes.append(take)
        theirs = self.queue.take(take, self.now)
        reply = self.ask(REQUESTS.settle_and_take([one], take, b""))
        found, job = replies.went_on(reply, 1, ONE, LABEL)
        assert job is not None
        self.same(one, [answer], found)
        self.taken(take, theirs, Taken(job, 0.0))

    def verdict(self, loan: tuple[Take, Any, Any]) -> tuple[Settle, bool]:
        """Return how to settle a delivery on Redis, and the memory store's answer to the same."""
        take, theirs, ours = loan
        if self.calm:
            self.loans.remove(loan)
        verdicts = () if self.calm else tuple(Verdict)
        verdict = self.dice.choice((Verdict.ACK, Verdict.ACK, *verdicts))
        delay = self.dice.choice((0.0, 0.300711)) if verdict is Verdict.RETRY else 0.0
        reason = (
            self.dice.choice(("", "no good")) if verdict in (Verdict.RETRY, Verdict.DEAD) else ""
        )
        how = verdict, delay, reason, take.ttl, self.dice.random() < 0.1 and not self.calm
        answer = self.queue.settle(
            Settle(self.name, theirs.group, theirs.seq, take.id, *how), self.now
        )
        return Settle(self.name, ours.group, ours.seq, take.id, *how), answer

    def extend(self) -> None:
        if not self.loans:
            return
        take, theirs, ours = self.dice.choice(self.loans[-3:])
        what = take.id, theirs.fence, 3.000271
        answer = self.queue.extend(Extend(self.name, theirs.group, theirs.seq, *what), self.now)
        one = Extend(self.name, ours.group, ours.seq, *what)
        found, _ = replies.settled(self.ask(REQUESTS.extend(self.name, 0, [one])), 1, LABEL)
        self.same(one, [isinstance(answer, Held) and not isinstance(answer, Gone)], found)

    def back(self) -> None:
        if not self.takes:
            return
        take = self.dice.choice(self.takes[-3:])
        count, _ = replies.counted(self.ask(REQUESTS.back(take, 0)), LABEL)
        self.same(("back", take), self.queue.give_back(take, self.now), count)

    def purge(self) -> None:
        some = set(self.dice.sample(self.ids, min(4, len(self.ids))))
        fields = [field for field, id_ in self.fields().items() if id_ in some]
        theirs = jobs_look.purge(self.queue, None, sorted(some), BATCH_MAX, self.now)
        call = REQUESTS.mend(b"purge", self.name, 0, "", fields)
        self.same(("purge", some), theirs, replies.counted(self.ask(call), LABEL)[0])

    def revive(self) -> None:
        letters = replies.listed(self.ask(REQUESTS.look(self.name, 0, b"dead", b"0", b"-1")), LABEL)
        if not letters:
            return
        field, id_ = letters[0], letters[1].decode()
        theirs = jobs_look.revive(self.queue, [id_], self.now)
        call = REQUESTS.mend(b"revive", self.name, 0, "", [field])
        self.same(("revive", id_), theirs, replies.counted(self.ask(call), LABEL)[0])

    def fields(self) -> dict[bytes, str]:
        """Return the ids of all jobs by their fields."""
        found, cursor = {}, b"0"
        while True:
            call = REQUESTS.look(self.name, 0, b"scan", cursor)
            cursor, *rest = replies.listed(self.ask(call), LABEL)
            found.update({field: id_ for field, _, _, id_ in replies.seen(rest, LABEL)})
            if cursor == b"0":
                return found

    def look(self) -> None:
        """Compare all jobs and all counts with those of the memory store."""
        call = REQUESTS.look(self.name, 0, b"rows", *self.fields())
        rows = replies.shown(replies.listed(self.ask(call), LABEL), LABEL)
        theirs = jobs_look.records(self.queue, self.now)
        self.same("look", *(sorted(map(_stands, some)) for some in (theirs, [r for _, r in rows])))
        record = jobs_look.survey(self.name, self.queue, self.now)
        said = replies.listed(self.ask(REQUESTS.look(self.name, 0, b"sizes")), LABEL)
        jobs, taken, dead, _, accepted, done = said
        ours = jobs - taken - dead, taken, dead, accepted, done
        theirs_too = record.waiting, record.taken, record.dead, record.accepted, record.done
        self.same("sizes", theirs_too, ours)


def _seen(taken: Taken) -> list[Any]:
    return [
        (one.id, one.group, one.payload, one.attempt, round(one.age, 3)) for one in taken.deliveries
    ]


def _stands(record: Any) -> Any:
    left = round(record.expires_in, 4) if record.state is JobState.TAKEN else 0.0
    return (record.id, record.group, record.state, record.attempts, record.reason, left)


@pytest.mark.parametrize("number", range(times(20, 3)))
def test_random_sequences_have_the_same_answers(number: int, verbs: Verbs) -> None:
    dice = random.Random(f"{SEED}-{number}")
    print(f"seed {SEED}-{number}")
    for _ in range(3):
        twins = Twins(verbs, dice)
        for _ in range(times(600, 120)):
            twins.step()


def test_what_is_usual_has_the_same_answers(verbs: Verbs) -> None:
    """Calm runs reach the fast paths of the scripts, and the points where these paths end."""
    for number in range(times(400, 15)):
        dice = random.Random(f"{SEED}-calm-{number}")
        print(f"seed {SEED}-calm-{number}")
        twins = Twins(verbs, dice, calm=True)
        for _ in range(50):
            twins.step()


def lent(verbs: Verbs, *jobs: Job) -> tuple[Take, Any]:
    """Put these jobs, and return a take and its delivery."""
    name, what = f"q{secrets.token_hex(8)}", (1, 2.0, "somebody", Pace(), Patience())
    take = Take(name, secrets.token_hex(16), *what)
    put = Put(name, "l" * 32, 1, jobs, 3.0)
    assert verbs.ask(REQUESTS.put(put, 0, jobs)) == 1
    return take, delivered(verbs, take)


def delivered(verbs: Verbs, take: Take) -> Any:
    reply = verbs.ask(REQUESTS.take(take, 0, 1, b"", b""))
    ((job,), _) = replies.taken(reply, 0, ONE, LABEL)
    return job


@pytest.mark.parametrize("verdict", list(Verdict))
def test_an_expired_lease_has_no_effect(verdict: Verdict, verbs: Verbs) -> None:
    """No request has reaped the expired lease yet."""
    take, job = lent(verbs, Job("x" * 32, "g", b"p"))
    name, requests = take.queue, REQUESTS
    verbs.at(START + 2)
    settle = Settle(name, "g", job.seq, take.id, verdict)
    assert verbs.ask(requests.settle(name, 0, [settle])) == [0]
    extend = Extend(name, "g", job.seq, take.id, job.fence, 2.0)
    assert verbs.ask(requests.extend(name, 0, [extend])) == [0]
    same = delivered(verbs, take._replace(id=secrets.token_hex(16)))
    assert (same.id, same.attempt) == (job.id, 2)
    assert same.fence > job.fence


def test_settle_and_take_takes_nothing_before_recovery_is_checked(verbs: Verbs) -> None:
    take, job = lent(verbs, *(Job(f"{n}" * 32, "", b"p") for n in range(3)))
    done = Settle(take.queue, "", job.seq, take.id, Verdict.ACK)
    behind = take._replace(id=secrets.token_hex(16))
    # When recovery has the record of another server
    verbs.run_id = b"f" * 40
    try:
        reply = verbs.ask(REQUESTS.settle_and_take([done], behind, b""))
    finally:
        verbs.run_id = b""
    # Then the job is settled, and no other is delivered
    assert replies.went_on(reply, 1, ONE, LABEL) == ([True], None)
    sizes = replies.listed(verbs.ask(REQUESTS.look(take.queue, 0, b"sizes")), LABEL)
    assert sizes[:2] == [2, 0]
