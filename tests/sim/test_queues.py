"""Queues in virtual time: seeded histories of puts, takes and settles, with faults."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.core.queue.model import Job, Pace, Patience, Put, Settle, Take, Verdict
from holdfast.testing.promise import promised
from holdfast.testing.simulator.campaign import campaign
from holdfast.testing.simulator.queues import check, make_plan, run
from holdfast.testing.simulator.queues.history import QUEUE_KINDS
from holdfast.testing.simulator.queues.server import QueueServer
from holdfast.testing.simulator.running import quiet
from holdfast.testing.simulator.shrink import smaller
from holdfast.testing.simulator.world import World
from tests.torture.scale import times

HISTORIES = times(10_000, 75)
PARTS = 4


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    quiet()
    yield
    logging.getLogger("holdfast").setLevel(logging.NOTSET)


@pytest.mark.usual(2)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_interleaving_breaks_a_promise(part: int) -> None:
    """When puts, takes, settles and faults are interleaved, then every promise holds."""
    many = HISTORIES // PARTS
    sums = list(campaign(part * many, many, 2, "queues"))
    found = [one for each in sums for one in each.violations]
    with promised("the rules of queues"):
        assert found == [], "./dev sim --queues --replay SEED"
    assert sum(one.histories for one in sums) == many
    assert {kind for one in sums for kind in one.faults} == {*QUEUE_KINDS, "step"}


def test_histories_in_a_row_violate_nothing() -> None:
    """Check histories in this process, where a planted bug has an effect."""
    found = [one.violation for one in map(check, range(400)) if one.violation is not None]
    assert found == []


def test_a_group_that_came_back_outlives_what_is_left_of_its_first_life() -> None:
    """When the clock is set back, a group that rests for 9 s rests for at most 8 s.

    If the group is forgotten after that and comes back, the old end of 9 s has no effect on it.
    """
    server = QueueServer(World(0), 6.0)
    queue, pace = server.queue("q"), Pace(9.0)

    def put(number: int, now: float) -> None:
        assert queue.put(Put("q", "lane", number, (Job(str(number), "g", b""),), 60.0), now)

    put(1, 0.0)
    take = Take("q", "t", 1, 6.0, "owner", pace, Patience())
    (given,) = queue.take(take, 0.0).deliveries
    assert queue.settle(Settle("q", "g", given.seq, "t", Verdict.ACK), 0.0)
    assert queue.tracks["g"].due == 9.0
    server.clamp(0.0)
    assert queue.tracks["g"].due == 8.0
    # Another execution immediately: now two ends of a rest are stored, and the later one is
    # outdated
    put(2, 8.0)
    (given,) = queue.take(take._replace(id="u", pace=Pace()), 8.0).deliveries
    assert queue.settle(Settle("q", "g", given.seq, "u", Verdict.ACK), 8.0)
    put(3, 8.5)
    put(4, 9.5)
    assert [row.job.id for row in queue.tracks["g"].rows] == ["3", "4"]


def test_the_same_seed_is_the_same_history() -> None:
    """When a seed is run twice, with others in between, then the story is the same."""
    first = [check(seed, telling=True).story for seed in range(10)]
    again = [check(seed, telling=True).story for seed in reversed(range(10))][::-1]
    assert first == again


def test_a_smaller_plan_is_run_as_well() -> None:
    """Given a plan without some of its parts, when it is run, then it is a valid history too."""
    for plan in smaller(make_plan(3)):
        assert run(plan).violation is None


def test_the_command_replays_the_same_history_for_a_seed() -> None:
    command = [sys.executable, "-m", "holdfast.testing", "sim", "--queues", "--replay", "11"]
    told = [
        subprocess.run(
            command, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert b"no violation" in told[0]
