"""Every planted bug makes its test fail with the failure that it was planted for."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.testing.surroundings import surroundings
from tests.ahead import Ahead, asked
from tests.tidy.tree import ROOT

from .changed import places, proven, replaced
from .failure import judge
from .planted import PLANTED

LIMIT_S = 110
#: The exit code of `prove` after a failed test.
FAILED = 10 + pytest.ExitCode.TESTS_FAILED
TABLE = "planted"
BUGS = {planted.name: planted for planted in PLANTED}
#: The files near each bug that a usual run can prove. A proof needs a process, and some a server.
NEAR = {name: places(one) for name, one in BUGS.items() if not one.seldom}
PROVEN = proven(TABLE, BUGS, NEAR, most=16)


class Proof(NamedTuple):
    """The end of the test of a bug, and its output."""

    code: int
    said: str
    #: The failure of the test, and a sign that the planted code can't run.
    failure: str = ""
    broken: str = ""


Proofs = Ahead[str, Proof]


def _prove(name: str) -> Proof:
    with tempfile.TemporaryDirectory(prefix="holdfast-told-") as place:
        told = Path(place) / "told"
        command = [sys.executable, "-m", "tests.mutants.prove", name, str(told)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S, cwd=ROOT, env=surroundings()
        )
        how = json.loads(told.read_text("utf-8")) if told.exists() else {}
    return Proof(done.returncode, done.stdout + done.stderr, **how)


@pytest.fixture(scope="module")
def proofs(request: pytest.FixtureRequest) -> Iterator[Proofs]:
    """All proofs, four at a time; many bugs are noticed by a time-out."""
    names = asked(request, "test_the_bug_is_caught", "name")
    with Ahead(_prove, names, at_once=4) as ahead:
        yield ahead


@pytest.mark.parametrize("name", BUGS)
def test_the_bug_can_be_planted(name: str) -> None:
    # Otherwise its test would fail for another reason
    for edit in BUGS[name].edits:
        path = (ROOT / "src").joinpath(*edit.module.split(".")).with_suffix(".py")
        assert path.read_text("utf-8").count(edit.old) == 1, f"{edit.old!r} in {path}"


def test_what_is_replaced_in_a_script_is_there() -> None:
    # Otherwise nothing is planted, and the test of the bug would fail for another reason
    files = [one for end in ("sql", "lua") for one in (ROOT / "src").rglob(f"*.{end}")]
    scripts = "\n".join(one.read_text("utf-8") for one in files)
    edits = [
        (name, edit.new)
        for name, one in BUGS.items()
        for edit in one.edits
        if ".replace(" in edit.new
    ]
    assert len(edits) > 10
    gone = [(name, old) for name, new in edits for old in replaced(new) if old not in scripts]
    assert gone == []


@pytest.mark.parametrize("name", PROVEN)
def test_the_bug_is_caught(name: str, proofs: Proofs) -> None:
    proof = proofs[name]
    assert proof.code == FAILED, proof.said
    judge(TABLE, name, proof.failure, proof.broken)


def test_there_are_at_least_twelve_planted_bugs_with_unique_names() -> None:
    assert len(BUGS) == len(PLANTED) >= 12
