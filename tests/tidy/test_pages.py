"""What the pages say is true: their links lead somewhere and their snippets run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.pages import broken_links, snippets
from tests.tidy.tree import ROOT, files, relative

PAGES = files(".md")
#: The pages that must be there, whatever else is.
NEEDED = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/cli.md",
    "docs/fencing.md",
    "docs/guarantees.md",
]
PAGE_S_MAX = 60


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """What a reader has: an empty home, and `holdfast` on the path."""
    command = tmp_path / "bin" / "holdfast"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    (tmp_path / "home").mkdir()
    return {
        "HOME": str(tmp_path / "home"),
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }


def run(command: list[str], surroundings: dict[str, str]) -> None:
    done = subprocess.run(
        command,
        cwd=surroundings["HOME"],
        env=surroundings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PAGE_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def of(language: str) -> list[str]:
    """The pages that have something to run in this language."""
    pages = (p for p in PAGES if any(s.language == language and s.runs for s in snippets(text(p))))
    return [relative(p) for p in pages]


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", NEEDED)
def test_the_page_is_there(page: str) -> None:
    assert (ROOT / page).is_file()


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_the_readme_has_python_that_runs() -> None:
    assert "README.md" in of("python")


@pytest.mark.parametrize("page", of("python"))
def test_the_python_of_the_page_runs(page: str, surroundings: dict[str, str]) -> None:
    run([sys.executable, "-Werror", "-m", "tests.tidy.run_page", str(ROOT / page)], surroundings)


def test_the_shell_commands_of_the_pages_run(surroundings: dict[str, str]) -> None:
    for page in of("sh"):
        blocks = [s.code for s in snippets(text(ROOT / page)) if s.language == "sh" and s.runs]
        run(["sh", "-eux", "-c", "\n".join(blocks)], surroundings)


def test_a_planted_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    links = "[a](b.md) [c](#title-one) [d](#two) `[e](f)`"
    page.write_text(f"# Title: one\n{links}\n```\n[g](h)\n```\n")
    assert list(broken_links(page)) == ["2: b.md doesn't exist", "2: #two: no such heading"]


def test_a_planted_failing_snippet_is_found(tmp_path: Path, surroundings: dict[str, str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run: it would fail -->\n```python\nraise OSError\n```\n"
        "```python\nimport asyncio\nx = 41\nawait asyncio.sleep(0)\n```\n"
        "```python\nx += 1\nassert x != 42, 'planted'\n```\n"
    )
    with pytest.raises(AssertionError, match=r'page.md", line 12[\s\S]*planted'):
        run([sys.executable, "-m", "tests.tidy.run_page", str(page)], surroundings)
