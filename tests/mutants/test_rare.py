"""A run of tests fails for a bug that shows rarely: a broken promise is final."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.tidy.tree import ROOT
from tests.torture.scale import ALL

from .rare import BUGS, RARE, Rare

FINAL = "FAILED, a promise was broken"


@pytest.mark.skipif(not ALL, reason="a whole run of tests for each bug: HOLDFAST_TORTURE=full")
@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_a_run_fails_finally_with_a_bug_that_shows_rarely(bug: Rare) -> None:
    env = {**os.environ, RARE: bug.name, "PYTEST_ADDOPTS": "-p tests.mutants.rare"}
    env.pop("HOLDFAST_TORTURE", None)
    command = [sys.executable, "-m", "tests.runner", *bug.groups]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert FINAL in done.stderr, done.stderr
