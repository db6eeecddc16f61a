"""The demo, run in full on real processes, and its audit, which must find a corrupt ledger."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.cli.demo import ledger

ENTRIES_MIN = 27
WORKERS = {f"w{n}" for n in range(1, 10)}


class Told(NamedTuple):
    """The output of one run of the demo, and the ledger that it left."""

    code: int
    text: str
    ledger: bytes


def tell(folder: Path, *options: str, **env: str) -> Told:
    """Run the demo, with its output in a pipe."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "demo", *options],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=100,
        env={**os.environ, "TMPDIR": str(folder), **env},
    )
    assert done.stderr == ""
    kept = [path.read_bytes() for path in folder.glob("*/ledger.txt")]
    return Told(done.returncode, done.stdout, b"".join(kept))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The result of one full run."""
    return tell(tmp_path_factory.mktemp("demo"), "--keep", PYTHONIOENCODING="utf-8")


def test_the_story_ends_well(told: Told) -> None:
    assert told.code == 0, told.text
    assert "All promises were kept." in told.text
    assert "kill -9" in told.text
    assert "Refused" in told.text
    assert "\x1b" not in told.text  # the output is a pipe


def test_the_ledger_adds_up(told: Told) -> None:
    entries = [ledger.read(line) for line in told.ledger.splitlines(keepends=True)]
    balance, fence = 0, 0
    for number, entry in enumerate(entries, 1):
        balance += entry.amount
        assert (entry.number, entry.balance) == (number, balance)
        assert entry.fence > fence
        fence = entry.fence
    assert len(entries) >= ENTRIES_MIN
    assert {entry.worker for entry in entries} == WORKERS


def test_without_unicode_the_timeline_is_drawn_in_ascii(tmp_path: Path) -> None:
    plain = tell(tmp_path, PYTHONIOENCODING="ascii", COLUMNS="40")
    assert plain.code == 0, plain.text
    assert list(tmp_path.iterdir()) == []
    assert plain.text.isascii()
    drawn = [line for line in plain.text.splitlines() if re.match(r"w\d  ", line)]
    assert drawn
    assert max(map(len, drawn)) <= 40


@pytest.mark.parametrize("fault", ["amount", "fence", "missing", "double", "torn", "foreign"])
def test_the_verdict_finds_a_corrupt_ledger(told: Told, fault: str) -> None:
    data = told.ledger
    lines = data.splitlines(keepends=True)
    promised = [ledger.read(line) for line in lines]
    assert ledger.audit(data, promised) == []
    entry = promised[5]
    bad = {
        "amount": entry._replace(amount=entry.amount + 5).line().encode(),
        "fence": entry._replace(fence=promised[3].fence).line().encode(),
        "missing": b"",
        "double": lines[5] + lines[5],
        "torn": lines[5][:11],
        "foreign": b"another program wrote here\n",
    }[fault]
    assert ledger.audit(b"".join([*lines[:5], bad, *lines[6:]]), promised)
