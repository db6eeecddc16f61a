"""A forked program behaves like a program that was started from nothing."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing import starting
from holdfast.testing.faults import Subject, SubjectGone
from tests import forked

ACTS = "tests.faults.acts"


@pytest.fixture(params=["forked", "from nothing"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type:
    """The two ways to start a program; the value is the class of the process."""
    forks = request.param == "forked"
    monkeypatch.setattr(starting, "popen", forked.popen if forks else subprocess.Popen)
    return forked.Forked if forks else subprocess.Popen


def test_both_find_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_TEST", "is there")
    found: list[dict[str, Any]] = []
    for way in (forked.popen, subprocess.Popen):
        monkeypatch.setattr(starting, "popen", way)
        with Subject(f"{ACTS}:tells_all") as one:
            found.append(one.hear())
    here, there = found
    assert here == there
    assert here["environment"]["HOLDFAST_TEST"] == "is there"
    assert here["cwd"] == str(tmp_path)


def test_each_end_of_a_forked_process_is_reported(
    kind: type, capfd: pytest.CaptureFixture[str]
) -> None:
    for how, status in (("0", 0), ("7", 7), ("raises", 1)):
        with Subject(f"{ACTS}:exits", how) as one:
            assert isinstance(one.process, kind)
            assert one.rest() == ["at exit"]
            assert one.end() == status
    assert "ValueError: planted" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_signal_ends_it_as_any_program(kind: type, number: signal.Signals) -> None:
    with Subject(f"{ACTS}:exits", "waits") as one:
        assert one.hear() == "waits"
        assert one.ended is None
        with pytest.raises(subprocess.TimeoutExpired):
            one.process.wait(0.01)
        one.signal(number)
        assert one.process.wait(20) == -number
        assert one.ended == -number
        one.signal(number)  # to one that is gone: nothing


def test_what_python_reads_at_its_start_is_obeyed() -> None:
    with Subject(f"{ACTS}:tells_all", environment={"PYTHONHASHSEED": "1"}) as one:
        assert isinstance(one.process, subprocess.Popen)
        assert one.hear()["environment"]["PYTHONHASHSEED"] == "1"


def test_many_at_once_leave_no_descriptor() -> None:
    with Subject(f"{ACTS}:exits", "0") as one:
        one.end()
    before = len(os.listdir("/proc/self/fd"))
    many = [Subject(f"{ACTS}:exits", "waits") for _ in range(20)]
    for one in many:
        assert one.hear() == "waits"
    for one in many:
        with one:
            one.kill()
            with pytest.raises(SubjectGone):
                one.hear()
    assert len(os.listdir("/proc/self/fd")) == before
