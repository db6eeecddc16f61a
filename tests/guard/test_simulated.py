"""Guards in virtual time: seeded interleavings of get, compute and invalidate, with faults."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.testing.guards import check
from holdfast.testing.guards.__main__ import campaign
from holdfast.testing.promise import promised
from holdfast.testing.simulator.__main__ import quiet
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
    """When callers, changes and faults are interleaved, then every rule holds."""
    many = HISTORIES // PARTS
    sums = list(campaign(part * many, many, jobs=2))
    with promised("the rules of guards"):
        assert [v for one in sums for v in one.violations] == [], "./dev sim --guards --replay SEED"
    assert sum(one.histories for one in sums) == many
    assert sum(one.faults for one in sums) > many


def test_the_same_seed_is_the_same_history() -> None:
    """When a seed is run twice, with others in between, then the story is the same."""
    first = [check(seed, telling=True).story for seed in range(10)]
    again = [check(seed, telling=True).story for seed in reversed(range(10))][::-1]
    assert first == again


def test_histories_in_a_row_violate_nothing() -> None:
    """The same in this process, where a planted bug is in force."""
    found = [one.violation for one in map(check, range(60)) if one.violation is not None]
    with promised("the rules of guards"):
        assert found == []


def test_a_history_does_not_depend_on_the_hash_seed() -> None:
    """When another interpreter with another hash seed runs it, then the story is the same."""
    command = [sys.executable, "-m", "holdfast.testing.guards", "--replay", "11"]
    stories = [
        subprocess.run(
            command, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    ]
    assert stories[0] == stories[1]
    assert b"ok" in stories[0]
