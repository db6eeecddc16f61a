"""A suite measured each figure of the comparison in README and two pages of docs.

A figure is the text of a link to the section of a performance page, and must occur there. After a
measurement that moved a figure, write the new one into the comparison.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.pages import anchors, prose
from tests.tidy.tree import ROOT

PAGES = ("README.md", "docs/choosing.md", "docs/stores/README.md")
_LINK = re.compile(r"\[([^\]]+)\]\(((?:docs/|\.\./)?performance[\w-]*\.md)#([\w-]+)\)")
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\w,.]*\d)")
#: A text that looks like a measurement.
_FIGURE = re.compile(r"\d[\d,.]* (?:x |times|µs|us\b)")


def section(page: Path, anchor: str) -> str:
    """Return the text below the heading with this anchor, to the next heading."""
    parts = re.split(r"^(#+ .*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        if anchor in anchors(heading):
            return body
    raise LookupError(f"{page.name} has no heading #{anchor}")


def stands(number: str, text: str) -> bool:
    """Return whether this is one of the numbers in the text, rounded to as many places.

    >>> stands("1.8", "| 1.82 (1.8 to 1.84) |"), stands("1.7", "| 1.82 |"), stands("4,720", "4,720")
    (True, False, True)
    """
    wanted = float(number.replace(",", ""))
    digits = len(number.replace(",", "").replace(".", "").lstrip("0"))
    measured = (float(one.replace(",", "")) for one in _NUMBER.findall(text))
    return any(float(f"{one:.{digits}g}") == wanted for one in measured)


def wrong(page: Path) -> Iterator[str]:
    """Return the figures of a page that occur in no table, and those without a link to one."""
    for number, line in prose(page.read_text(encoding="utf-8")):
        for text, place, anchor in _LINK.findall(line):
            measured = section(page.parent / place, anchor)
            for figure in _NUMBER.findall(re.sub(r"`[^`]*`", "", text)):
                if not stands(figure, measured):
                    yield f"{number}: {figure} isn't in {place}#{anchor}"
        if line.startswith("|"):
            yield from (
                f"{number}: no link shows where {bare!r} was measured"
                for bare in _FIGURE.findall(_LINK.sub("", line))
            )


@pytest.mark.parametrize("page", PAGES)
def test_each_figure_of_the_comparison_was_measured(page: str) -> None:
    assert list(wrong(ROOT / page)) == []
    assert len(_LINK.findall((ROOT / page).read_text(encoding="utf-8"))) >= 8


def test_the_comparison_has_every_mechanism_and_every_question() -> None:
    text = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    tables = [line for line in text.splitlines() if line.startswith("| mechanism |")]
    assert len(tables) == 3
    for head in tables:
        for asked in ("to deploy", "cost of", "scales out", "reliability", "effect on what runs"):
            assert asked in head
    for mechanism in (
        "Redis lock", "ZooKeeper lock", "database row lock", "database lock with a lease",
        "embedded lock", "queue on Redis", "queue on ZooKeeper", "queue on PostgreSQL",
        "embedded queue", "guard on Redis",
    ):  # fmt: skip
        assert f"| **{mechanism}**" in text, mechanism


def test_planted_figures_are_found(tmp_path: Path) -> None:
    (tmp_path / "performance.md").write_text("# A\n## Pair\n| 0.544 (0.5 to 0.6) |\n## B\n9.9\n")
    page = tmp_path / "page.md"
    page.write_text(
        "| [0.54 x y](performance.md#pair) | [9.9 x y](performance.md#pair) | 3 x z | 2 round |\n"
    )
    assert list(wrong(page)) == [
        "1: 9.9 isn't in performance.md#pair",
        "1: no link shows where '3 x ' was measured",
    ]
