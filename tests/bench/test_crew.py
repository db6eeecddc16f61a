"""The processes of a reading: they start together, and none is left running."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bench import crew
from bench.crew import Seat


def test_each_task_runs_in_a_separate_process_and_all_start_when_the_last_is_ready() -> None:
    def work(seat: Seat) -> tuple[int, int, float, float]:
        time.sleep(0.1 * seat.number)
        ready = time.monotonic()
        seat.ready()
        return seat.number, os.getpid(), ready, time.monotonic()

    told = crew.together([work] * 3, 30)
    assert [number for number, *_ in told] == [0, 1, 2]
    assert len({os.getpid(), *(pid for _, pid, *_ in told)}) == 4
    assert min(start for *_, start in told) >= max(ready for *_, ready, _ in told)


def test_a_process_that_fails_or_hangs_is_reported_and_none_is_left(tmp_path: Path) -> None:
    def work(seat: Seat) -> None:
        if seat.number == 0:
            raise ValueError("planted")
        hang()

    def hang() -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(600)

    def alive() -> bool:
        try:
            os.kill(int((tmp_path / "pid").read_text()), 0)
        except (FileNotFoundError, ProcessLookupError):
            return False
        return True

    begun = time.monotonic()
    with pytest.raises(crew.Failed, match="ValueError: planted"):
        crew.together([work, work], 30)
    assert time.monotonic() - begun < 20
    assert not alive()
    with pytest.raises(crew.Failed, match="1 of 1 processes not done in 2 s"):
        crew.alone(hang, 2)
    assert not alive()
    with pytest.raises(crew.Failed, match="without an answer"):
        crew.alone(lambda: os._exit(3), 30)
