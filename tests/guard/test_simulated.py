"""Guards in virtual time: seeded interleavings of get, compute and invalidate, with faults."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.testing.promise import promised
from holdfast.testing.simulator.campaign import campaign
from holdfast.testing.simulator.guards import check, make_plan, run
from holdfast.testing.simulator.running import quiet
from holdfast.testing.simulator.shrink import smaller
from tests.torture.scale import times

HISTORIES = times(10_000, 40)
PARTS = 4


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    quiet()
    yield
    logging.getLogger("holdfast").setLevel(logging.NOTSET)


@pytest.mark.usual(2)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_interleaving_gives_a_value_from_before_an_invalidation(part: int) -> None:
    many = HISTORIES // PARTS
    sums = list(campaign(part * many, many, 2, "guards"))
    with promised("the rules of guards"):
        assert [v for one in sums for v in one.violations] == [], "./dev sim --guards --replay SEED"
    assert sum(one.histories for one in sums) == many
    assert sum(one.faults.total() for one in sums) > many


def test_the_same_seed_is_the_same_history() -> None:
    first = [check(seed, telling=True).story for seed in range(10)]
    again = [check(seed, telling=True).story for seed in reversed(range(10))][::-1]
    assert first == again


def test_histories_in_a_row_violate_nothing() -> None:
    """Run some histories in this process, in which a planted bug is active."""
    found = [one.violation for one in map(check, range(60)) if one.violation is not None]
    with promised("the rules of guards"):
        assert found == []


def test_a_history_does_not_depend_on_the_hash_seed() -> None:
    command = [sys.executable, "-m", "holdfast.testing", "sim", "--guards", "--replay", "11"]
    one, other = (
        subprocess.run(
            command, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in "12"
    )
    assert one == other
    assert b"no violation" in one


def test_a_smaller_plan_is_run_as_well() -> None:
    for plan in smaller(make_plan(5)):
        assert run(plan).violation is None
