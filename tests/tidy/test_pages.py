"""The needed pages exist, and the links of all pages lead somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.covered import enough
from tests.tidy.pages import broken_links
from tests.tidy.tree import ROOT, files, relative

PAGES = [*files(".md"), ROOT / "llms.txt"]


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_the_walk_sees_all_pages() -> None:
    enough("pages", PAGES)
    needed = {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"}
    needed |= {f"docs/{name}.md" for name in ("cli", "fencing", "guarantees", "proof")}
    assert needed <= {*map(relative, PAGES)}


def test_a_planted_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    links = "[a](b.md) [c](#title-one) [d](#two) `[e](f)`"
    page.write_text(f"# Title: one\n{links}\n```\n[g](h)\n```\n")
    assert list(broken_links(page)) == ["2: b.md doesn't exist", "2: #two: no such heading"]
