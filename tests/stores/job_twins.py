"""Random verbs of queues are sent to a store and to the memory store: both must reply the same.

The test sets the store's time. No two moments are equal, because the order of events at one moment
isn't promised: the time passes in whole milliseconds, and no lease or pause is a number of these.
The tests of a store subclass `JobTwins`, which sends the verbs, and return it as the fixture
``twins``.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any, NamedTuple

import pytest

from holdfast.core.queue.model import (
    BATCH_MAX,
    Delivered,
    Extend,
    Job,
    JobRecord,
    JobState,
    Pace,
    Patience,
    Put,
    QueueRecord,
    Settle,
    Start,
    Take,
    Taken,
    Verdict,
)
from holdfast.errors import StoreUnavailable
from holdfast.stores.memory import jobs_look
from holdfast.stores.memory.jobs import Queue

GROUPS = ("", "", "a", "b", "bank:4001\n")
#: An interval of 0 from the take is left out: a job would be due again at the very moment at which
#: the same request settles another one.
PACES = ((0.0, Start.ACK), (0.500419, Start.ACK), (0.500419, Start.TAKE), (2.000419, Start.ACK))
RATES = (math.inf, math.inf, math.inf, 1.937, 37.31)
TTLS = (0.400137, 2.000271, 2.000271, 5.000183)
#: How often each verb is sent.
CHANCES = {"put": 6, "again": 1, "take": 7, "retake": 1, "settle": 5, "extend": 2, "back": 1}
CHANCES |= {"go_on": 4, "purge": 1, "revive": 1}


class Loan(NamedTuple):
    """A delivery: the take, and the answers of the memory store and of the store."""

    take: Take
    theirs: Delivered
    ours: Delivered


class JobTwins:
    """One queue in both stores, which get the same requests; it compares their replies."""

    #: The first moment, in seconds by the store's clock.
    start = 10_000.0
    #: The maximum difference of two replies about time, in seconds.
    near = 1e-3
    #: True if the store settles and takes by one request.
    onward = False
    #: The chance of a look after a take, when both stores have recovered the expired leases.
    looks = 0.1
    #: True if the store lists a revived job behind the jobs that were accepted before its revival.
    lists_revived_last = True

    def __init__(self, seed: object, calm: bool = False) -> None:
        print(f"seed {seed}")
        self.dice = random.Random(f"{seed}")
        #: True if nearly all requests are usual ones.
        self.calm = calm
        self.name = f"q{self.dice.getrandbits(64):x}"
        self.queue = Queue()
        self.now = self.start
        some = self.dice.sample(PACES, 1 if calm else 2)
        self.paces = [Pace(*pace, self.dice.choice(RATES)) for pace in some]
        self.lanes: Counter[str] = Counter()
        self.puts: list[Put] = []
        self.takes: list[Take] = []
        self.loans: list[Loan] = []
        #: For each group and each ungrouped job: the fences of both stores.
        self.fences: dict[str, dict[int, int]] = {}
        self.story: list[str] = []

    def ask(self, verb: str, *what: Any) -> Any:
        """Send a verb to the store, and return its reply."""
        raise NotImplementedError

    def same(self, what: object, theirs: object, ours: object) -> None:
        self.story.append(f"{self.now - self.start:.3f} {what} -> {theirs}"[:400])
        assert theirs == ours, "\n".join(["", *self.story[-40:], f"but ours: {ours}"])

    def odd(self, chance: float) -> bool:
        """Return True with this chance; always False in a calm walk."""
        return not self.calm and self.dice.random() < chance

    def new_id(self) -> str:
        return f"{self.dice.getrandbits(128):032x}"

    def walk(self, steps: int) -> None:
        """Compare the replies of these steps."""
        for _ in range(steps):
            self.step()
        self.take()
        self.look()
        assert self.calm or sum(map(len, self.fences.values())) > steps / 10  # deliveries

    def step(self) -> None:
        """Send one random request after a random time."""
        self.now = round(self.now + self.dice.randrange(1, 300) / 1000, 6)
        verb = self.dice.choices([*CHANCES], [*CHANCES.values()])[0]
        if verb != "go_on" or self.onward:
            getattr(self, verb)()

    # -- putting ---------------------------------------------------------------------------

    def put(self) -> None:
        group, jobs = self.dice.choice(GROUPS), []
        for _ in range(self.dice.choice((1, 1, 1, 3)) if group else 1):
            known = self.odd(0.3)
            job_id = f"k{self.dice.randrange(8)}" if known else self.new_id()
            payload = self.dice.randbytes(self.dice.choice((0, 3, 2000)))
            jobs.append(Job(job_id, group, payload, 0.700137 if self.odd(0.25) else 0.0, known))
        self.send(*jobs)

    def send(self, *jobs: Job) -> None:
        """Put these jobs."""
        lane = self.dice.choice("lm") * 32
        self.lanes[lane] += 1
        window = self.dice.choice((0.500053, 3.000053))
        self.puts.append(Put(self.name, lane, self.lanes[lane], jobs, window))
        self._put(self.puts[-1])

    def again(self) -> None:
        """Repeat one of the last puts; it comes late if its producer has sent others since."""
        if self.puts:
            self._put(self.dice.choice(self.puts[-4:]))

    def _put(self, put: Put) -> None:
        def answer(send: Any, *what: object) -> object:
            try:
                return send(*what)
            except StoreUnavailable as wrong:
                assert "came late" in str(wrong)  # noqa: PT017
                return "late"

        theirs = answer(self.queue.put, put, self.now)
        self.same(put, theirs, answer(self.ask, "put", put))

    # -- taking ----------------------------------------------------------------------------

    def wish(self) -> Take:
        """Return a take that nothing repeats or undoes later."""
        dice = self.dice
        ttl, attempts = (
            (2.000271, 10) if self.calm else (dice.choice(TTLS), dice.choice((1, 2, 10)))
        )
        what = "somebody", dice.choice(self.paces), Patience(attempts, dice.random() < 0.5)
        return Take(self.name, self.new_id(), 1, ttl, *what)

    def new_take(self) -> Take:
        self.takes.append(self.wish())
        return self.takes[-1]

    def take(self) -> None:
        self._take(self.new_take())

    def retake(self) -> None:
        """Repeat one of the last takes; it may have been undone."""
        if self.takes:
            self._take(self.dice.choice(self.takes[-4:]))

    def _take(self, take: Take) -> None:
        theirs, ours = self.queue.take(take, self.now), self.ask("take", take)
        self._taken(take, theirs, ours)
        if not ours.deliveries:
            # The memory store can also count from a lease that was renewed or has ended since
            assert theirs.retry_in - 0.0011 <= ours.retry_in, self.story[-20:]
            assert ours.retry_in <= self._soonest(take.pace) + 0.0011, self.story[-20:]

    def _taken(self, take: Take, theirs: Taken, ours: Taken) -> None:
        self.same(take, *([one[1:5] for one in some.deliveries] for some in (theirs, ours)))
        for one, other in zip(theirs.deliveries, ours.deliveries, strict=True):
            assert other.age == pytest.approx(one.age, abs=self.near)
            self.loans.append(Loan(take, one, other))
            fences = self.fences.setdefault(one.group or one.id, {})
            assert fences.setdefault(one.fence, other.fence) == other.fence
            assert [*fences.values()] == sorted({*fences.values()})
        if self.dice.random() < self.looks:
            self.look()

    def _soonest(self, pace: Pace) -> float:
        """Return the seconds until a job can be due, at most 1."""
        tracks = [*self.queue.tracks.values(), *self.queue.singles.values()]
        moments = [one.loan.expires if one.loan else one.at() for one in tracks]
        soonest = min(moments, default=math.inf) - self.now
        if pace.rate < math.inf:
            soonest = max(soonest, self.queue._pause(pace, self.now))
        return min(max(soonest, 0.0), 1.0)

    def back(self) -> None:
        """Undo one of the last takes, or a take that comes later."""
        late = not self.takes or self.odd(0.3)
        self._back(self.new_take() if late else self.dice.choice(self.takes[-3:]))

    def _back(self, take: Take) -> None:
        self.same(("back", take), self.queue.give_back(take, self.now), self.ask("give_back", take))

    # -- settling --------------------------------------------------------------------------

    def settle(self, verdict: Verdict | None = None) -> None:
        if self.loans:
            one, answer = self._verdict(verdict)
            self.same(one, [answer], self.ask("settle", [one]))

    def go_on(self) -> None:
        """Settle one delivery and take the next job, in one request."""
        if self.loans:
            one, answer = self._verdict(None)
            take = self.dice.choice(self.takes[-4:]) if self.odd(0.1) else self.new_take()
            theirs = self.queue.take(take, self.now)
            answers, ours = self.ask("settle_and_take", [one], take)
            self.same(one, [answer], answers)
            self._taken(take, theirs, ours)

    def _verdict(self, verdict: Verdict | None) -> tuple[Settle, bool]:
        """Return how to settle one of the last deliveries, and the memory store's answer to it."""
        loan = self.dice.choice(self.loans[-4:])
        take, theirs, ours = loan
        if self.calm:
            self.loans.remove(loan)
        if verdict is None:
            verdict = self.dice.choice([*Verdict]) if self.odd(0.7) else Verdict.ACK
        delay = self.dice.choice((0.0, 0.300711)) if verdict is Verdict.RETRY else 0.0
        failed = verdict in (Verdict.RETRY, Verdict.DEAD)
        reason = self.dice.choice(("", "no good")) if failed else ""
        how = take.id, verdict, delay, reason, take.ttl, self.odd(0.1)
        answer = self.queue.settle(Settle(self.name, theirs.group, theirs.seq, *how), self.now)
        return Settle(self.name, ours.group, ours.seq, *how), answer

    def extend(self) -> None:
        if self.loans:
            take, theirs, ours = self.dice.choice(self.loans[-4:])
            ttl = self.dice.choice((0.300217, 3.000373))
            one = Extend(self.name, ours.group, ours.seq, take.id, ours.fence, ttl)
            answer = self.queue.extend(one._replace(seq=theirs.seq), self.now)
            (found,) = self.ask("extend", [one])
            self.same(one, type(answer), type(found))

    # -- looking and repair ----------------------------------------------------------------

    def records(self) -> list[JobRecord]:
        return jobs_look.records(self.queue, self.now)

    def purge(self) -> None:
        self.take()  # it recovers the expired leases
        ids = [one.id for one in self.records()]
        some = self.dice.sample(ids, min(len(ids), self.dice.choice((1, 1, 4))))
        theirs = jobs_look.purge(self.queue, None, some, BATCH_MAX, self.now)
        self.same(("purge", some), theirs, self.ask("purge", self.name, None, some, BATCH_MAX))

    def revive(self) -> None:
        self.take()
        ids = [one.id for one in self.records() if one.state is JobState.DEAD][:1]
        theirs = jobs_look.revive(self.queue, ids, self.now)
        self.same(("revive", ids), theirs, self.ask("revive", self.name, ids))

    def look(self) -> None:
        """Compare some jobs, and the counts of all."""
        state, group = self.dice.choice((None, *JobState)), self.dice.choice((None, *GROUPS))
        theirs = [
            one
            for one in self.records()
            if state in (None, one.state) and group in (None, one.group)
        ]
        ours = self.ask("jobs", self.name, state, group, 10_000)
        if not self.lists_revived_last:
            theirs, ours = (sorted(some, key=lambda one: one.id) for some in (theirs, ours))
        self.same(("jobs", state, group), *([*map(_plain, some)] for some in (theirs, ours)))
        times = [
            [s for one in some for s in (one.age, one.due_in, one.expires_in)]
            for some in (theirs, ours)
        ]
        assert times[0] == pytest.approx(times[1], abs=self.near), self.story[-1]
        expected = jobs_look.survey(self.name, self.queue, self.now)
        (found,) = self.ask("survey", self.name, True) or [QueueRecord(self.name, *[0] * 7)]
        self.same("survey", *(one._replace(groups=0, oldest=0.0) for one in (expected, found)))


def _plain(record: JobRecord) -> JobRecord:
    return record._replace(age=0.0, due_in=0.0, expires_in=0.0)


@pytest.mark.parametrize("verdict", [*Verdict, None], ids=str)
def test_an_expired_lease_has_no_effect(verdict: Verdict | None, twins: JobTwins) -> None:
    """No request has recovered the delivery yet. Without a verdict, its worker renews it."""
    twins.send(Job("x" * 32, "g", b"p"))
    twins.take()
    assert len(twins.loans) == 1
    twins.now += max(TTLS) + 0.001
    twins.settle(verdict) if verdict else twins.extend()
    twins.take()
    twins.look()
