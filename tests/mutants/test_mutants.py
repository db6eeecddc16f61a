"""The simulator catches every planted bug by an invariant that is made for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.testing.surroundings import surroundings
from tests.ahead import Ahead, asked
from tests.tidy.tree import ROOT

from .changed import places, proven
from .failure import judge
from .hunt import TABLE
from .simulated import MUTANTS

LIMIT_S = 110
NAMES = [one.name for one in MUTANTS]
NEAR = {one.name: places(one) for one in MUTANTS}
Hunts = Ahead[str, list[str]]


def _hunt(name: str) -> list[str]:
    command = [sys.executable, "-m", "tests.mutants.hunt", str(NAMES.index(name))]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=surroundings()
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def hunts(request: pytest.FixtureRequest) -> Iterator[Hunts]:
    """All hunts, two at a time."""
    names = asked(request, "test_planted_bug_is_caught", "name")
    with Ahead(_hunt, names, at_once=2) as ahead:
        yield ahead


def test_each_can_be_planted() -> None:
    # Otherwise only a rare proof of the bug would notice the missing text
    lost = [
        (one.name, edit.old)
        for one in MUTANTS
        for edit in one.edits
        if ROOT.joinpath("src", *edit.module.split("."))
        .with_suffix(".py")
        .read_text("utf-8")
        .count(edit.old)
        != 1
    ]
    assert lost == []


@pytest.mark.parametrize("name", proven(TABLE, NAMES, NEAR, most=4))
def test_planted_bug_is_caught(name: str, hunts: Hunts) -> None:
    """Given the bug in the core, when histories run, then the right invariant is violated."""
    found, seed, broken = hunts[name]
    assert found, "not noticed in any history"
    caught_by = MUTANTS[NAMES.index(name)].caught_by
    assert found.split(":")[0] in caught_by, f"{found} ({seed})"
    judge(TABLE, name, found, broken)


def test_there_are_at_least_thirty_mutants_with_unique_names() -> None:
    """Given the table of planted bugs, then it has at least 30 different ones."""
    assert len({m.name for m in MUTANTS}) == len(MUTANTS) >= 30
