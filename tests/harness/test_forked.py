"""A forked program behaves like a program that was started from nothing.

``tests/faults/test_subject.py`` tests its ends and its signals: a subject is forked there, too.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing import starting
from holdfast.testing.faults import Subject, SubjectGone
from tests import forked

ACTS = "tests.faults.acts"


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
