"""The simulator itself: many histories without a violation, and equal histories for equal seeds."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.testing.promise import promised
from holdfast.testing.simulator import check, make_plan, run
from holdfast.testing.simulator.campaign import campaign
from holdfast.testing.simulator.faults import KINDS
from holdfast.testing.simulator.running import quiet
from tests.torture.scale import times

#: Number of histories whose plans are checked, and number of histories that are played.
HISTORIES = 2000
PLAYED = times(HISTORIES, 140)
#: Number of tests that share the histories; a single test that takes minutes would look like a
#: hang.
PARTS = 4


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    quiet()
    yield
    logging.getLogger("holdfast").setLevel(logging.NOTSET)


@pytest.mark.usual(2)
@pytest.mark.parametrize("part", range(PARTS))
def test_hundreds_of_histories_violate_nothing(part: int) -> None:
    """When the real core meets every fault in the histories, then every invariant holds."""
    many = PLAYED // PARTS
    tallies = list(campaign(part * many, many, jobs=2))
    with promised("the rules of locks"):
        assert [v for t in tallies for v in t.violations] == [], "./dev sim --replay SEED tells it"
    assert sum(t.histories for t in tallies) == many
    steps, seconds = sum(t.steps for t in tallies), sum(t.seconds for t in tallies)
    print(f"{steps} steps, {steps / seconds:,.0f} per second and core")


def test_every_kind_of_fault_was_there_often() -> None:
    """Given the plans of those histories, then each kind of fault occurs at least 100 times."""
    planned = [fault.kind for seed in range(HISTORIES) for fault in make_plan(seed).faults]
    assert {kind: planned.count(kind) for kind in set(KINDS) if planned.count(kind) < 100} == {}


def test_a_history_is_long_and_has_claimants_and_faults_enough() -> None:
    """Given some seeds, then a history has at least 300 steps, 4 claimants and 3 faults."""
    for seed in range(60):
        verdict = check(seed)
        assert verdict.steps >= 300, seed
        assert len(verdict.plan.actors) >= 4, seed
        assert len(verdict.plan.faults) >= 3, seed


def test_the_same_seed_is_the_same_history() -> None:
    """When a seed is run twice, with other histories in between, then the story is the same."""
    first = [check(seed, telling=True).story for seed in range(15)]
    again = [check(seed, telling=True).story for seed in reversed(range(15))][::-1]
    assert first == again


def test_a_history_does_not_depend_on_the_hash_seed() -> None:
    """When another interpreter with another hash seed runs it, then the story is the same."""
    command = [sys.executable, "-m", "holdfast.testing", "sim", "--replay", "11"]
    stories = [
        subprocess.run(command, capture_output=True, check=True, env=_env(seed)).stdout
        for seed in ("1", "2")
    ]
    assert stories[0] == stories[1]
    assert b"no violation" in stories[0]


def _env(seed: str) -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONHASHSEED": seed}


def test_a_plan_with_something_left_out_can_be_run() -> None:
    """Given a plan without its faults, when it is run, then no promise is broken."""
    plan = make_plan(3)
    assert run(plan._replace(faults=(), actors=plan.actors[:2])).violation is None
