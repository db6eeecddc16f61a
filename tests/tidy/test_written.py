"""The pages that are made from the code match the code, and leave nothing out."""

from __future__ import annotations

import doctest
import importlib
import re
import shutil
import subprocess

import pytest

from holdfast.cli import parser
from tests.tidy import man, written
from tests.tidy.test_commands import commands, flags
from tests.tidy.tree import ROOT


@pytest.mark.parametrize("place", written.WRITTEN)
def test_the_page_is_as_the_code_is(place: str) -> None:
    said = (ROOT / place).read_text(encoding="utf-8")
    assert said == written.WRITTEN[place](), "run: .venv/bin/python -m tests.tidy.written"


@pytest.mark.parametrize("module", written.MODULES)
def test_each_public_name_is_there_with_the_first_words_of_its_docstring(module: str) -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    section = page.partition(f"## {module}\n")[2].partition("\n## ")[0]
    for name in importlib.import_module(module).__all__:
        found = re.search(rf"^### `{name}(?:\(.*\))?`.*\n\n(.+)$", section, re.MULTILINE)
        assert found, f"{module}.{name}"
        assert len(found[1]) > 15, f"{module}.{name}: {found[1]}"


def test_what_a_method_waits_for_and_returns_can_be_looked_up() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for use in ("`acquire(", "`ack()`", "`get_many(", "`break_(name, fence)`", "`remaining()`"):
        assert re.search(rf"^\| {re.escape(use)}.*\| .{{10,}} \|$", page, re.MULTILINE), use


def test_the_manual_has_every_command_and_every_flag() -> None:
    page = (ROOT / "docs" / "man" / "holdfast.1").read_text(encoding="utf-8")
    for name, of in commands(parser()):
        section = page.partition(f"\n.SH {man.roff(name.upper())}\n")[2].partition("\n.SH ")[0]
        assert section, name
        missing = [flag for flag in flags(of) if f"\\fB{man.roff(flag)}\\fR" not in section]
        assert missing == [], name


def test_the_manual_can_be_formatted() -> None:
    page = ROOT / "docs" / "man" / "holdfast.1"
    macros = set(re.findall(r"^\.(\S+)", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert macros == {"TH", "SH", "PP", "TP", "B", "I", "nf", "fi"}
    if groff := shutil.which("groff"):
        done = subprocess.run(
            [groff, "-man", "-ww", "-z", "-Tutf8", str(page)], capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", [man, written], ids=["man", "written"])
def test_the_examples_of_the_writers_are_true(module: object) -> None:
    failed, tried = doctest.testmod(module)  # type: ignore[arg-type]
    assert (failed, tried > 0) == (0, True)
