"""The simulator itself: many histories without a violation, and equal histories for equal seeds."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from holdfast.testing.promise import promised
from holdfast.testing.simulator import KINDS, check, faults, make_plan
from holdfast.testing.simulator.campaign import campaign
from holdfast.testing.simulator.queues.history import QUEUE_KINDS
from holdfast.testing.simulator.running import quiet
from holdfast.testing.simulator.shrink import smaller
from tests.torture.scale import times

#: Number of histories whose plans are checked.
HISTORIES = 2000
#: Number of tests that share the histories; a single test that takes minutes would look like a
#: hang.
PARTS = 4


class Contract(NamedTuple):
    """One contract: its number of histories, and the faults that each occur in them."""

    played: int
    faults: set[str]


CONTRACTS = {
    "locks": Contract(times(HISTORIES, 140), set()),
    "queues": Contract(times(10_000, 75), {*QUEUE_KINDS, "step"}),
    "guards": Contract(times(10_000, 40), set()),
}
each_contract = pytest.mark.parametrize("kind", CONTRACTS)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    quiet()
    yield
    logging.getLogger("holdfast").setLevel(logging.NOTSET)


@pytest.mark.usual(4)
@pytest.mark.parametrize("part", range(PARTS))
@each_contract
def test_hundreds_of_histories_violate_nothing(kind: str, part: int) -> None:
    """When the real core meets every fault in the histories, then every invariant holds."""
    contract = CONTRACTS[kind]
    many = contract.played // PARTS
    tallies = list(campaign(part * many, many, 2, kind))
    with promised(f"the rules of {kind}"):
        assert [v for t in tallies for v in t.violations] == [], f"./dev sim --{kind} --replay SEED"
    assert sum(t.histories for t in tallies) == many
    if contract.faults:
        assert {fault for t in tallies for fault in t.faults} == contract.faults
    steps, seconds = sum(t.steps for t in tallies), sum(t.seconds for t in tallies)
    print(f"{steps} steps, {steps / seconds:,.0f} per second and core")


@each_contract
def test_the_same_seed_is_the_same_history(kind: str) -> None:
    """When a seed is run twice, with other histories in between, then the story is the same."""
    check = KINDS[kind].check
    first = [check(seed, telling=True).story for seed in range(15)]
    again = [check(seed, telling=True).story for seed in reversed(range(15))][::-1]
    assert first == again


@each_contract
def test_a_history_does_not_depend_on_the_hash_seed(kind: str) -> None:
    """When another interpreter with another hash seed runs it, then the story is the same."""
    command = [sys.executable, "-m", "holdfast.testing", "sim", "--kind", kind]
    stories = [
        subprocess.run(
            [*command, "--replay", "11"],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert stories[0] == stories[1]
    assert b"no violation" in stories[0]


@each_contract
def test_a_smaller_plan_is_run_as_well(kind: str) -> None:
    """Given a plan without some of its parts, when it is run, then no promise is broken."""
    of = KINDS[kind]
    for plan in smaller(of.make_plan(3)):
        assert of.run(plan).violation is None


@pytest.mark.parametrize("kind, many", [("queues", 400), ("guards", 60)])
def test_histories_in_a_row_violate_nothing(kind: str, many: int) -> None:
    """Run some histories in this process, where a planted bug has an effect."""
    found = [one.violation for one in map(KINDS[kind].check, range(many)) if one.violation]
    with promised(f"the rules of {kind}"):
        assert found == []


def test_every_kind_of_fault_was_there_often() -> None:
    """Given the plans of those histories, then each kind of fault occurs at least 100 times."""
    planned = [fault.kind for seed in range(HISTORIES) for fault in make_plan(seed).faults]
    assert {
        kind: planned.count(kind) for kind in set(faults.KINDS) if planned.count(kind) < 100
    } == {}


def test_a_history_is_long_and_has_claimants_and_faults_enough() -> None:
    """Given some seeds, then a history has at least 300 steps, 4 claimants and 3 faults."""
    for seed in range(60):
        verdict = check(seed)
        assert verdict.steps >= 300, seed
        assert len(verdict.plan.actors) >= 4, seed
        assert len(verdict.plan.faults) >= 3, seed
