"""The queue verbs of Redis and of the memory store give the same answers to random sequences.

The test sets the clock (see `verbs.Verbs`), so leases and intervals end without a wait.
"""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.queue.model import Job, Settle, Verdict
from holdfast.runtime.blocking import run_sync
from holdfast.stores.redis.keys import PREFIX
from holdfast.stores.redis.queue_keys import Layout
from holdfast.stores.redis.queues import ServerQueues
from tests.stores.job_twins import *  # noqa: F403
from tests.stores.job_twins import JobTwins
from tests.stores.redis.ports import PlainPort
from tests.stores.redis.verbs import START, Verbs
from tests.torture.scale import seed_of, times

SEED = seed_of("jobs on Redis, as in memory")


class RedisTwins(JobTwins):
    start = START
    onward = True
    looks = 1.0
    lists_revived_last = False

    def __init__(self, verbs: Verbs, seed: object, calm: bool = False) -> None:
        super().__init__(seed, calm)
        self.verbs = verbs
        self.queues: Any = ServerQueues(PlainPort(verbs), PREFIX, Layout(1))  # type: ignore[arg-type]

    def ask(self, verb: str, *what: Any) -> Any:
        self.verbs.at(self.now)
        if verb == "survey":
            name, exact = what
            return run_sync(self.queues.survey(name, 10.0, exact))
        return run_sync(getattr(self.queues, verb)(*what, 10.0))

    def step(self) -> None:
        if not self.calm:
            super().step()
            return
        # Sometimes all leases expire
        self.now += 2.1 if self.dice.random() < 0.02 else self.dice.randrange(1, 60) / 1000
        acts = {self.put: 5, self.take: 2} if len(self.loans) <= 2 else {}
        if self.loans:
            acts |= {self.go_on: 6, self.settle: 1, self.extend: 1}
        self.dice.choices([*acts], [*acts.values()])[0]()


@pytest.fixture
def twins(verbs: Verbs) -> RedisTwins:
    return RedisTwins(verbs, SEED)


@pytest.mark.parametrize("number", range(times(20, 3)))
def test_random_sequences_have_the_same_answers(number: int, verbs: Verbs) -> None:
    for turn in range(3):
        RedisTwins(verbs, f"{SEED}-{number}-{turn}").walk(times(600, 150))


def test_what_is_usual_has_the_same_answers(verbs: Verbs) -> None:
    """Calm runs reach the fast paths of the scripts, and the points where these paths end."""
    for number in range(times(400, 15)):
        RedisTwins(verbs, f"{SEED}-calm-{number}", calm=True).walk(50)


def test_settle_and_take_takes_nothing_before_recovery_is_checked(
    twins: RedisTwins, verbs: Verbs
) -> None:
    twins.send(*(Job(f"{n}" * 32, "", b"p") for n in range(3)))
    (job,) = twins.ask("take", take := twins.wish()).deliveries
    done = Settle(twins.name, "", job.seq, take.id, Verdict.ACK)
    # When recovery has the record of another server
    verbs.run_id = b"f" * 40
    try:
        settled, taken = twins.ask("settle_and_take", [done], twins.wish())
    finally:
        verbs.run_id = b""
    # Then the job is settled, and no other is delivered
    assert (settled, taken.deliveries) == ([True], ())
    (record,) = twins.ask("survey", twins.name, True)
    assert (record.waiting, record.taken) == (2, 0)
