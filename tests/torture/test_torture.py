"""A torture run breaks no promise, and a planted bug shows that it would detect one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.testing.faults import dice
from holdfast.testing.torture import Options, run
from tests.torture.scale import times

SECONDS = times(90, 5)


def test_processes_under_torture_break_no_promise() -> None:
    # Given processes of both faces that lock, and are killed, stopped, forked and cancelled
    seed = dice("torture").randrange(1 << 32)
    outcome = run(Options(seconds=SECONDS, seed=seed))
    print(outcome)
    # Then no promise is broken, and no claim is left
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
    # Then the verdict names overlaps
    assert outcome.verdict.counts.get("exclusion", 0) > 0


def test_the_command_prints_its_verdict_and_keeps_the_histories(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast.testing", "torture", "--seconds", "2", "--seed", "7"]
    command += ["--processes", "3", "--folder", str(tmp_path / "kept")]
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("seed 7, 3 processes\n")
    assert "no promise is broken" in done.stdout
    files = [str(file) for file in (tmp_path / "kept").glob("*.jsonl")]
    assert len(files) > 3
    again = subprocess.run(
        [sys.executable, "-m", "holdfast.testing", "judge", *files],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert again.returncode == 0, again.stdout + again.stderr
