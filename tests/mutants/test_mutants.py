"""Every planted bug is caught, by the invariant that is made for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from .simulated import MUTANTS

LIMIT_S = 110


def _hunt(number: int) -> str:
    command = [sys.executable, "-m", "tests.mutants.hunt", str(number)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def hunts() -> Iterator[dict[int, Future[str]]]:
    """All hunts, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        yield {number: pool.submit(_hunt, number) for number in range(len(MUTANTS))}


@pytest.mark.parametrize("number", range(len(MUTANTS)), ids=[m.name for m in MUTANTS])
def test_planted_bug_is_caught(number: int, hunts: dict[int, Future[str]]) -> None:
    """Given the bug in the core, when histories run, then the right invariant is violated."""
    found = hunts[number].result(timeout=LIMIT_S)
    assert found, "not noticed in any history"
    assert found.split(":")[0] in MUTANTS[number].caught_by, found


def test_there_are_thirty_at_least_and_each_has_a_name_of_its_own() -> None:
    """Given the table of planted bugs, then it has at least 30 different ones."""
    assert len({m.name for m in MUTANTS}) == len(MUTANTS) >= 30
