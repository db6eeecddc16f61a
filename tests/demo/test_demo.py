"""The demo, told whole on real processes; and its verdict, which must see what is wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.cli.demo import ledger

ENTRIES_MIN = 27
WORKERS = {f"w{n}" for n in range(1, 10)}


class Told(NamedTuple):
    """What one run of the demo said and left."""

    code: int
    text: str
    errors: str
    out: Path


def tell(out: Path, *options: str, **env: str) -> Told:
    """Run the demo, its output piped."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "demo", *options],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=100,
        env={**os.environ, **env},
    )
    return Told(done.returncode, done.stdout, done.stderr, out)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """One whole run."""
    out = tmp_path_factory.mktemp("demo")
    return tell(out, "--out", str(out), PYTHONIOENCODING="utf-8")


def test_the_story_ends_well(told: Told) -> None:
    """When the demo is run, then it ends with 0 and says that all is as promised."""
    assert told.code == 0, told.text + told.errors
    assert "All is as promised." in told.text
    assert "One got it, eight were told who has it." in told.text
    assert "kill -9" in told.text
    assert "Refused" in told.text


def test_piped_output_has_no_escape_sequences(told: Told) -> None:
    """Given a pipe instead of a terminal, then nothing of it is a control sequence."""
    assert "\x1b" not in told.text


def test_the_ledger_adds_up(told: Told) -> None:
    """When we read the ledger ourselves, then balances have no gap and fences rise."""
    entries = [ledger.read(line) for line in (told.out / "ledger.txt").read_bytes().splitlines()]
    balance, fence = 0, 0
    for number, entry in enumerate(entries, 1):
        balance += entry.amount
        assert (entry.number, entry.balance) == (number, balance)
        assert entry.fence > fence
        fence = entry.fence
    assert len(entries) >= ENTRIES_MIN
    assert {entry.worker for entry in entries} == WORKERS


def test_the_picture_is_whole_and_needs_nothing_else(told: Told) -> None:
    """Given the picture, then it is well-formed, names every worker and loads nothing."""
    text = (told.out / "timeline.svg").read_text(encoding="utf-8")
    root = ET.fromstring(text)
    words = {"".join(element.itertext()).strip() for element in root.iter()}
    assert words >= WORKERS
    assert not re.search(r'(href|src)\s*=\s*"http', text)
    assert "prefers-color-scheme" in text


def test_without_unicode_the_timeline_is_drawn_in_ascii(tmp_path: Path) -> None:
    """Given a terminal of 40 columns that knows ASCII alone, then every line fits and is ASCII.
    Without --out and --keep nothing is left behind."""
    env = {"PYTHONIOENCODING": "ascii", "COLUMNS": "40", "LC_ALL": "C", "TMPDIR": str(tmp_path)}
    plain = tell(tmp_path, **env)
    assert plain.code == 0, plain.text + plain.errors
    assert list(tmp_path.iterdir()) == []
    assert plain.text.isascii()
    drawn = [line for line in plain.text.splitlines() if re.match(r"w\d  ", line)]
    assert drawn
    assert max(map(len, drawn)) <= 40


def test_a_folder_that_cannot_be_written_is_said_and_is_no_traceback(tmp_path: Path) -> None:
    """Given an --out that is a file, when the demo is run, then it says so and ends with 78."""
    (tmp_path / "taken").write_text("mine")
    told = tell(tmp_path, "--out", str(tmp_path / "taken"))
    assert told.code == 78
    assert "taken" in told.errors
    assert "Traceback" not in told.errors
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize("fault", ["amount", "fence", "missing", "double", "torn", "foreign"])
def test_the_verdict_finds_a_corrupt_ledger(told: Told, fault: str) -> None:
    """Given a ledger with one thing wrong, when it is audited, then something is found."""
    data = (told.out / "ledger.txt").read_bytes()
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
        "foreign": b"somebody else wrote here\n",
    }[fault]
    assert ledger.audit(b"".join([*lines[:5], bad, *lines[6:]]), promised)
