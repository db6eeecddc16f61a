"""Each suite measures what it names, and detects a lock that doesn't exclude."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import syscalls
from bench.contenders import Contender
from bench.model import Reading
from bench.stores.embedded import EMBEDDED, OURS
from bench.stores.peers import Flock
from bench.suites import contention, handoff, timeouts, uncontended
from tests.tidy.tree import ROOT

FLOCK = Contender("flock", Flock)


class Open:
    """A lock that excludes no process."""

    def __init__(self, place: Path) -> None:
        self.place = place

    async def take(self) -> None:
        """Acquire without waiting."""

    async def within(self, seconds: float) -> bool:
        time.sleep(seconds + 0.05)
        return False

    async def free(self) -> None:
        """Release nothing."""

    async def close(self) -> None:
        """Close nothing."""

    def pair(self) -> Callable[[], object]:
        return lambda: time.sleep(0.001)


OPEN = Contender("open", Open)


def ours() -> Contender:
    return next(one for one in EMBEDDED.contenders if one.label == OURS)


def test_a_lock_that_excludes_no_process_is_found(tmp_path: Path) -> None:
    def reading() -> Reading:
        return contention.read(OPEN, 4, 0.5, tmp_path)

    assert any(sum(reading()["overlaps"]) > 0 for _ in range(10))


@pytest.mark.parametrize("contender", [FLOCK, ours()], ids=["flock", "holdfast"])
def test_a_lock_that_excludes_has_no_overlaps(contender: Contender, tmp_path: Path) -> None:
    reading = contention.read(contender, 4, 0.3, tmp_path)

    assert list(reading["overlaps"]) == [0]
    assert len(reading["shares"]) == 4
    assert sum(reading["shares"]) > 0


def test_each_suite_times_what_it_names(tmp_path: Path) -> None:
    # A hand-off takes more than zero, without the time for which the holder kept the lock
    taken = handoff.read(ours(), 3, tmp_path)["us"]
    assert len(taken) == 3
    assert all(0 < us < 1e6 * handoff.SETTLE_S * 50 for us in taken)
    # A late time-out is seen
    assert min(timeouts.read(OPEN, 2, 0.2, tmp_path)["over_ms"]) >= 50
    reading = uncontended.read(OPEN, 5, tmp_path)
    assert len(reading["us"]) == 5
    assert min(reading["us"]) >= 1000
    assert reading["cpu_us"][0] < min(reading["us"])


def test_the_program_that_strace_looks_at_runs(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "bench.syscalls", "embedded", OURS, "3", str(tmp_path)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "src")},
        check=True,
        timeout=60,
    )
    assert (tmp_path / "locks.db").exists()
    # And the table of strace is read
    assert syscalls.total("100.00    0.000000           0        40         3 total\n") == 40
    assert syscalls.total("strace: not permitted\n") is None
