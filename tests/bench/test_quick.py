"""The command as a whole: a quick run measures everything and takes seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.suites import SUITES
from tests.tidy.tree import ROOT

QUICK_S_MAX = 20.0


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
    )


def test_a_quick_run_measures_everything_in_seconds(tmp_path: Path) -> None:
    begun = time.monotonic()
    done = bench("--quick", "--json", str(tmp_path / "figures.json"))
    took = time.monotonic() - begun

    assert done.returncode == 0, done.stdout + done.stderr
    assert took < QUICK_S_MAX
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert {one["suite"] for one in figures["results"]} == set(SUITES)
    for one in figures["results"]:
        rows = {row["label"]: row for row in one["rows"]}
        ours = [row for label, row in rows.items() if "holdfast" in label]
        assert ours, one["key"]
        assert all(row["figures"] and not row["error"] for row in rows.values()), one["key"]


@pytest.mark.parametrize(
    "words", [["nosuch"], ["--rounds", "0"], ["--store", "paper"], ["--quick", "--write-docs"]]
)
def test_wrong_words_are_refused_before_anything_is_measured(words: list[str]) -> None:
    done = bench(*words)

    assert done.returncode != 0
    assert "usage" in done.stderr or "quick run" in done.stderr
    assert "## " not in done.stdout


def test_one_suite_can_be_chosen() -> None:
    done = bench("startup", "--quick")

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n## ") == 1
    assert "From start to end of a program" in done.stdout
