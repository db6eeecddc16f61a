"""Random verbs leave the jobs of MariaDB in the same state as the jobs of the model in memory."""

from __future__ import annotations

import random
import time
from typing import Any

from holdfast.core.queue.model import (
    BATCH_MAX,
    Delivered,
    Job,
    JobState,
    Patience,
    Settle,
    Take,
    Verdict,
)
from holdfast.runtime.blocking import run_sync
from holdfast.stores.memory import jobs_look
from holdfast.stores.memory.jobs import Queue
from holdfast.testing.faults import dice
from tests.stores.mysql.conftest import WITHIN_S
from tests.stores.mysql.queueing import Verbs, job
from tests.torture.scale import times

STEPS = times(3000, 160)
GROUPS = ("", "a", "A", "a ", "b", "\N{SNOWMAN}")
VERDICTS = (Verdict.ACK, Verdict.ACK, Verdict.RETRY, Verdict.DEAD, Verdict.RETURN)


class Both:
    """The model and the store, which get the same requests."""

    def __init__(self, verbs: Verbs, chance: random.Random) -> None:
        self.verbs = verbs
        self.model = Queue()
        self.chance = chance
        #: Delivered jobs: the take, and the delivery of the model and of the store.
        self.loans: list[tuple[Take, Delivered, Delivered]] = []
        self.made = 0

    def step(self) -> None:
        """Do one random act."""
        acts = [self.put] * 4 + [self.take] * 4 + [self.settle] * 6
        self.chance.choice([*acts, self.again, self.give_back, self.revive, self.purge])()

    def put(self) -> None:
        jobs: list[Job] = []
        for _ in range(self.chance.randint(1, 5)):
            self.made += 1
            key = f"key {self.chance.randrange(40)}" if self.chance.random() < 0.3 else ""
            jobs.append(job(self.made, self.chance.choice(GROUPS), key))
        request = self.verbs.request(*jobs, window=1e6)
        same(self.model.put(request, time.monotonic()), self.verbs.send(request))

    def take(self) -> None:
        patience = Patience(self.chance.choice((2, 10)), self.chance.random() < 0.3)
        take = self.verbs.wish(most=1000, patience=patience)
        self._taken(take)

    def _taken(self, take: Take) -> None:
        expected = by_payload(self.model.take(take, time.monotonic()).deliveries)
        found = by_payload(self.verbs.take(take))
        same([seen(one) for one in expected], [seen(one) for one in found])
        for one, other in zip(expected, found, strict=True):
            self.loans.append((take, one, other))

    def again(self) -> None:
        """Send a copy of an earlier take."""
        if self.loans:
            take = self.chance.choice(self.loans)[0]
            self.loans = [one for one in self.loans if one[0] != take]
            self._taken(take)

    def settle(self) -> None:
        if not self.loans:
            return
        take, one, other = self.loans.pop(self.chance.randrange(len(self.loans)))
        verdict = self.chance.choice(VERDICTS)
        rest = (take.id, verdict, 0.0, "why" if verdict is Verdict.DEAD else "")
        expected = self.model.settle(Settle("", one.group, one.seq, *rest), time.monotonic())
        request = Settle(self.verbs.queue, other.group, other.seq, *rest)
        same([expected], run_sync(self.verbs.queues.settle([request], WITHIN_S)))

    def give_back(self) -> None:
        if self.loans:
            take = self.chance.choice(self.loans)[0]
            self.loans = [one for one in self.loans if one[0] != take]
            same(self.model.give_back(take, time.monotonic()), self.verbs.give_back(take))

    def revive(self) -> None:
        dead = [one.job.id for one in self.model.dead.values()]
        ids = self.chance.choice([None, dead[:1]])
        expected = jobs_look.revive(self.model, ids, time.monotonic())
        same(expected, run_sync(self.verbs.queues.revive(self.verbs.queue, ids, WITHIN_S)))

    def purge(self) -> None:
        state, ids = self.chance.choice([(JobState.DEAD, None), (None, self._some_ids())])
        expected = jobs_look.purge(self.model, state, ids, BATCH_MAX, time.monotonic())
        purge = self.verbs.queues.purge(self.verbs.queue, state, ids, BATCH_MAX, WITHIN_S)
        same(expected, run_sync(purge))

    def _some_ids(self) -> list[str]:
        known = [one.id for one in jobs_look.records(self.model, time.monotonic())]
        return self.chance.sample(known, min(len(known), 2))

    def compare(self) -> None:
        """Compare the state of all jobs."""
        verbs, now = self.verbs, time.monotonic()
        expected = jobs_look.records(self.model, now)
        found = run_sync(verbs.queues.jobs(verbs.queue, None, None, 10_000, WITHIN_S))
        # Dead letters of several groups that are retried together come in another order
        same(by_group(expected), by_group(found))
        for state in JobState:
            some = run_sync(verbs.queues.jobs(verbs.queue, state, None, 10_000, WITHIN_S))
            same([one for one in found if one.state is state], some, "age", "expires_in")
        for group in GROUPS:
            some = run_sync(verbs.queues.jobs(verbs.queue, None, group, 10_000, WITHIN_S))
            same([one.id for one in found if one.group == group], [one.id for one in some])
        sums = run_sync(verbs.queues.survey(verbs.queue, WITHIN_S, exact=True))
        if sums:
            model = jobs_look.survey(verbs.queue, self.model, now)
            same(model._replace(oldest=0.0), sums[0]._replace(oldest=0.0))


def same(expected: Any, found: Any, *but: str) -> None:
    """Compare a reply of the store with that of the model, without the fields ``but``."""
    if but:
        nothing = dict.fromkeys(but, 0.0)
        expected = [one._replace(**nothing) for one in expected]
        found = [one._replace(**nothing) for one in found]
    assert found == expected


def by_payload(deliveries: Any) -> list[Delivered]:
    return sorted(deliveries, key=lambda one: int(one.payload))


def seen(one: Delivered) -> tuple[Any, ...]:
    return one.payload, one.id, one.group, one.attempt


def by_group(records: Any) -> list[tuple[Any, ...]]:
    ordered = sorted(records, key=lambda one: one.group)
    return [(one.id, one.group, one.state, one.payload, one.attempts, one.owner) for one in ordered]


def test_jobs_stand_as_they_do_in_the_model(mariadb_url: str, own_name: str) -> None:
    verbs = Verbs(mariadb_url, own_name)
    both = Both(verbs, dice("queues on MariaDB beside the model"))
    for at in range(STEPS):
        both.step()
        if at % 10 == 9:
            both.compare()
    both.compare()
    verbs.close()
