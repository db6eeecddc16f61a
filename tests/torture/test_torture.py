"""A torture run breaks no promise, and a planted bug shows that it would detect one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.testing.faults import dice
from holdfast.testing.surroundings import surroundings
from holdfast.testing.torture import Options, run
from tests.torture.scale import times

SECONDS = times(90, 5)


def test_processes_under_torture_break_no_promise() -> None:
    seed = dice("torture").randrange(1 << 32)
    outcome = run(Options(seconds=SECONDS, seed=seed))
    print(outcome)
    outcome.demand()
    assert outcome.verdict.figures["held"] > 5 * SECONDS
    assert set(outcome.strikes) == {"kill", "stop", "fork"}


@pytest.mark.usual(0)
def test_a_client_that_does_not_look_at_its_deadline_is_found_out() -> None:
    # Given a bug: a process doesn't check its deadline, so it still uses its hold after a stop
    seed = dice("torture, with a bug").randrange(1 << 32)
    options = Options(seconds=3, seed=seed, names=1, ttl=0.3, strikes=("stop",))
    # When it is run (several times, if no stop came at the right moment)
    for _ in range(10):
        outcome = run(options._replace(first="tests.torture.no_deadline"))
        print(outcome)
        if "exclusion" in outcome.verdict.counts:
            break
    assert outcome.verdict.counts.get("exclusion", 0) > 0


@pytest.mark.parametrize("words", ["", "--queues --jobs 40 --groups 4 --putters 1 --every 0"])
def test_the_command_prints_its_verdict_and_keeps_the_histories(words: str, tmp_path: Path) -> None:
    def said(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast.testing", *words],
            capture_output=True,
            text=True,
            env=surroundings(PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    kept = tmp_path / "kept"
    few = ["--processes", "3", "--seed", "7", "--folder", str(kept)]
    few += [] if words else ["--seconds", "2"]
    told = said("torture", *words.split(), *few)
    assert told.startswith("seed 7, 3 processes\n")
    assert "no promise is broken" in told
    files = [str(file) for file in kept.glob("*.jsonl")]
    assert len(files) > 3
    assert "no promise is broken" in said("judge", *files)
