"""Every planted bug is caught, by the invariant that is made for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.ahead import Ahead, asked

from .simulated import MUTANTS

LIMIT_S = 110


def _hunt(number: int) -> str:
    command = [sys.executable, "-m", "tests.mutants.hunt", str(number)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def hunts(request: pytest.FixtureRequest) -> Iterator[Ahead[int, str]]:
    """All hunts, two at a time."""
    numbers = asked(request, "test_planted_bug_is_caught", "number")
    with Ahead(_hunt, numbers, at_once=2) as ahead:
        yield ahead


@pytest.mark.parametrize("number", range(len(MUTANTS)), ids=[m.name for m in MUTANTS])
def test_planted_bug_is_caught(number: int, hunts: Ahead[int, str]) -> None:
    """Given the bug in the core, when histories run, then the right invariant is violated."""
    found = hunts[number]
    assert found, "not noticed in any history"
    assert found.split(":")[0] in MUTANTS[number].caught_by, found


def test_there_are_thirty_at_least_and_each_has_a_name_of_its_own() -> None:
    """Given the table of planted bugs, then it has at least 30 different ones."""
    assert len({m.name for m in MUTANTS}) == len(MUTANTS) >= 30
