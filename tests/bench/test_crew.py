"""The processes of a reading: they start together, and none is left running."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bench import crew
from bench.crew import Seat


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_each_task_runs_in_a_separate_process_and_answers_come_in_order() -> None:
    told = crew.together([lambda seat: (seat.number, os.getpid())] * 3, 30)

    assert [number for number, _ in told] == [0, 1, 2]
    assert len({os.getpid(), *(pid for _, pid in told)}) == 4


def test_all_start_when_the_last_one_is_ready() -> None:
    def work(seat: Seat) -> tuple[float, float]:
        time.sleep(0.1 * seat.number)
        ready = time.monotonic()
        seat.ready()
        return ready, time.monotonic()

    told = crew.together([work] * 3, 30)

    assert min(start for _, start in told) >= max(ready for ready, _ in told)


def test_one_that_fails_is_reported_with_its_traceback() -> None:
    with pytest.raises(crew.Failed, match="ZeroDivisionError"):
        crew.alone(lambda: 1 / 0, 30)


def test_one_that_fails_doesn_t_leave_the_others_waiting(tmp_path: Path) -> None:
    def work(seat: Seat) -> None:
        if seat.number == 0:
            raise ValueError("planted")
        (tmp_path / "pid").write_text(str(os.getpid()))
        seat.ready()

    begun = time.monotonic()
    with pytest.raises(crew.Failed, match="planted"):
        crew.together([work, work], 30)

    assert time.monotonic() - begun < 20
    assert not (tmp_path / "pid").exists() or not alive(int((tmp_path / "pid").read_text()))


def test_a_hanging_process_is_killed_at_its_time_limit(tmp_path: Path) -> None:
    def work() -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(600)

    with pytest.raises(crew.Failed, match="1 of 1 processes not done in 2 s"):
        crew.alone(work, 2)

    assert not alive(int((tmp_path / "pid").read_text()))


def test_one_that_ends_without_a_word_is_reported() -> None:
    with pytest.raises(crew.Failed, match="without an answer"):
        crew.alone(lambda: os._exit(3), 30)


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="Linux keeps cores awake")
def test_spinners_end_with_their_regime() -> None:
    def children() -> set[str]:
        return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())

    before = children()
    with crew.spinners([0]):
        assert len(children() - before) == 1
    assert children() == before
