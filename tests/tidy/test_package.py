"""The package matches its metadata: no dependencies, typed, light to import."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest

from holdfast.core.drivers import NEEDED
from tests.tidy.tree import ROOT, SRC, files

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROGRAMS = {**PROJECT["project"]["scripts"], **PROJECT["project"]["entry-points"]["pytest11"]}
#: Modules that are slow to import, and not needed by an import of holdfast for a lock.
HEAVY = ["argparse", "asyncio", "concurrent.futures", "socket", "sqlite3", "subprocess"]


def test_nothing_else_has_to_be_installed_and_the_types_are_there() -> None:
    assert PROJECT["project"]["dependencies"] == []
    assert all(PROJECT["project"].get("optional-dependencies", {"none": True}).values())
    assert (SRC / "py.typed").is_file()
    assert "urls" not in PROJECT["project"]  # no address is invented
    data = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert data == {"docs/man/holdfast.1": "share/man/man1/holdfast.1"}


def test_the_extras_are_complete_and_named_by_the_error_for_a_missing_driver() -> None:
    extras = dict(PROJECT["project"]["optional-dependencies"])
    (everything,) = extras.pop("all")
    assert everything == f"holdfast[{','.join(extras)}]"
    assert set(NEEDED.values()) - {""} == {one for extra in extras.values() for one in extra}


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


def test_the_notes_become_the_changelog() -> None:
    """The changelog contains each note under the heading of its kind."""
    done = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    plain = " ".join(done.stdout.split())
    kinds = {kind["directory"]: kind["name"] for kind in PROJECT["tool"]["towncrier"]["type"]}
    for note in (ROOT / "changes").glob("+*.md"):
        words = " ".join(note.read_text(encoding="utf-8").split())
        before, found, _ = plain.partition(words)
        assert found, f"{note.name} isn't in the changelog"
        heading = re.findall(r"### ([A-Z][\w ]*?) - ", before + " - ")[-1]
        assert heading == kinds[note.name.split(".")[-2]], note.name
        assert "](" not in words, f"{note.name}: a link would lead elsewhere from CHANGELOG.md"


def description() -> str:
    """Return the description that a package index shows, made as a build makes it."""
    from hatchling.metadata.core import ProjectMetadata
    from hatchling.plugin.manager import PluginManager

    return str(ProjectMetadata(str(ROOT), PluginManager()).core.readme)


def test_an_index_shows_the_readme_without_what_it_has_not() -> None:
    from readme_renderer import markdown

    shown, readme = description(), (ROOT / "README.md").read_text(encoding="utf-8")
    page = markdown.render(shown)
    assert page is not None
    targets = re.findall(r"(?:href|src)=\"([^\"]*)\"", page)
    assert [to for to in targets if to and not re.match(r"https?:|#", to)] == []
    assert "<img" not in page
    assert "<!--" not in shown
    # The rest is there: headings, and code to the letter
    headings = re.compile(r"^#+ .*$", re.MULTILINE)
    blocks = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    assert headings.findall(shown) == headings.findall(readme)
    assert blocks.findall(shown) == blocks.findall(readme)
    assert len(blocks.findall(shown)) >= 8
    assert "`docs/guarantees.md`" in shown
