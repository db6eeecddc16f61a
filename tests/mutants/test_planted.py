"""Every bug that is planted in the embedded store and the runtimes makes its test fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.ahead import Ahead, asked
from tests.tidy.tree import ROOT
from tests.torture.scale import FULL

from .planted import PLANTED

LIMIT_S = 110
#: What `prove` ends with when the test has failed.
FAILED = 10 + pytest.ExitCode.TESTS_FAILED
NUMBERS = range(len(PLANTED))
NAMES = [planted.name for planted in PLANTED]
#: Those that are proven in this run.
PROVEN = [number for number in NUMBERS if FULL or not PLANTED[number].seldom]
Proofs = Ahead[int, subprocess.CompletedProcess[str]]


def _prove(number: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutants.prove", str(number)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, cwd=ROOT)


@pytest.fixture(scope="module")
def proofs(request: pytest.FixtureRequest) -> Iterator[Proofs]:
    """All of them, some at a time: many bugs are noticed by a time-out."""
    numbers = asked(request, "test_the_bug_is_caught", "number")
    with Ahead(_prove, numbers, at_once=4) as ahead:
        yield ahead


@pytest.mark.parametrize("number", NUMBERS, ids=NAMES)
def test_the_bug_can_be_planted(number: int) -> None:
    # Or its test would fail for another reason
    for edit in PLANTED[number].edits:
        path = (ROOT / "src").joinpath(*edit.module.split(".")).with_suffix(".py")
        assert path.read_text("utf-8").count(edit.old) == 1, f"{edit.old!r} in {path}"


@pytest.mark.parametrize("number", PROVEN, ids=[NAMES[number] for number in PROVEN])
def test_the_bug_is_caught(number: int, proofs: Proofs) -> None:
    done = proofs[number]
    assert done.returncode == FAILED, done.stdout + done.stderr


def test_there_are_twelve_at_least_and_each_has_a_name_of_its_own() -> None:
    assert len(set(NAMES)) == len(PLANTED) >= 12
