"""The package is what its metadata says: no dependencies, typed, light to import."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest

from tests.tidy.tree import ROOT, SRC, files

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROGRAMS = {**PROJECT["project"]["scripts"], **PROJECT["project"]["entry-points"]["pytest11"]}
#: Slow to import, and not needed by somebody who imports holdfast to take a lock.
HEAVY = ["argparse", "asyncio", "concurrent.futures", "socket", "sqlite3", "subprocess"]


def test_nothing_else_has_to_be_installed() -> None:
    assert PROJECT["project"]["dependencies"] == []
    assert all(PROJECT["project"].get("optional-dependencies", {"none": True}).values())


def test_the_types_are_for_everybody() -> None:
    assert (SRC / "py.typed").is_file()


@pytest.mark.parametrize("target", PROGRAMS.values())
def test_every_entry_point_leads_somewhere(target: str) -> None:
    module, _, name = target.partition(":")
    assert not name or callable(getattr(importlib.import_module(module), name))


def test_importing_holdfast_is_light() -> None:
    code = f"import sys, holdfast; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_every_tool_has_an_exact_version() -> None:
    pinned = set(re.findall(r"^([\w-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    wanted = [w for group in PROJECT["dependency-groups"].values() for w in group]
    names = {re.split(r"[\[<>=~ ]", want)[0] for want in wanted}
    assert names - pinned == set()


def test_every_change_note_has_a_kind() -> None:
    kinds = "|".join(kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"])
    shape = re.compile(rf"\+[a-z0-9-]+\.({kinds})\.md")
    notes = [note.name for note in files(under=ROOT / "changes") if note.name != "README.md"]
    assert [name for name in notes if not shape.fullmatch(name)] == []
