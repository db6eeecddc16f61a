"""``./dev test full`` runs the quick tests with one interpreter of each other kind found here."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.runner import __main__, pythons


def python(folder: Path, name: str, says: str) -> Path:
    """Return a program that prints what an interpreter would."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return path


def test_of_each_kind_the_newest_is_taken_and_what_is_too_old_or_broken_is_not(
    tmp_path: Path,
) -> None:
    newer = python(tmp_path, "python3.12", "echo 3 12 9")
    free = python(tmp_path, "python3.13t", "echo 3 13 1 t")
    plain = python(tmp_path, "python3.13", "echo 3 13 0")
    others = [
        python(tmp_path, "older", "echo 3 12 1"),
        python(tmp_path, "python3.10", "echo 3 10 13"),
        python(tmp_path, "shim", "exit 127"),
        tmp_path / "none",
    ]
    found = pythons.found([others[0], newer, free, plain, *others[1:]])
    assert found == {"3.12": newer, "3.13": plain, "3.13t": free}
    assert pythons.missing(found) == ["3.11", "3.14"]


def test_a_full_run_is_all_tests_in_full_and_the_quick_ones_with_every_other_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[tuple[str, str, str]] = []

    def run(chosen: Sequence[object], *_: object) -> None:
        ran.extend(("here", os.environ["HOLDFAST_TORTURE"], "") for _ in chosen[:1])

    def called(words: Sequence[object], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        assert [str(word) for word in words] == [str(pythons.ROOT / "dev"), "test", "quick"]
        ran.append((env["HOLDFAST_VENV"], env.get("HOLDFAST_TORTURE", ""), env["PYTHON"]))
        return subprocess.CompletedProcess([], 3 if "t" in env["HOLDFAST_VENV"] else 0)

    own, ours = pythons.ours(), Path(sys.executable)
    chosen = {own: ours, "3.97": tmp_path / "a", "3.98t": tmp_path / "b"}
    quick = pythons.quick_with_others
    monkeypatch.setenv("HOLDFAST_TORTURE", "")
    monkeypatch.setattr(__main__, "run", run)
    monkeypatch.setattr(__main__, "checks", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(pythons, "quick_with_others", lambda: quick(chosen))
    monkeypatch.setattr(pythons.subprocess, "run", called)
    monkeypatch.setattr(pythons, "ours", lambda: own)
    assert __main__.main("full") == 3
    assert set(ran[:-2]) == {("here", "5", "")}
    assert ran[-2:] == [
        (".venv-3.97", "", str(tmp_path / "a")),
        (".venv-3.98t", "", str(tmp_path / "b")),
    ]
    said = capsys.readouterr().err
    assert "Python 3.97: the quick tests passed" in said
    assert "Python 3.98t: the quick tests FAILED (3)" in said
    absent = ", ".join(pythons.missing([own]))
    assert f"not tested, because this machine has none: Python {absent}" in said
