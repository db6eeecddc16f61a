"""The pages (every .md file): their links, their headings, and their snippets, made runnable.

A page marks the blocks that run:

* Every ``python`` block runs, top to bottom, in one namespace per page. So a later block can use
  names of an earlier one; ``await`` at top level works. A block that can't run here has the line
  ``<!-- not run: the reason -->`` directly above it.
* An ``sh`` block runs if ``<!-- run -->`` is directly above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})\s*(\w*)")
COMMENT = re.compile(r"^\s*<!--\s*(.*?)\s*-->\s*$")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|^\s*\[[^\]]+\]:\s*(\S+)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
CODE = re.compile(r"`[^`]*`")


@dataclass(frozen=True)
class Snippet:
    """One fenced block: its language, the comment above it, and where its code begins."""

    line: int
    language: str
    mark: str
    code: str

    @property
    def runs(self) -> bool:
        """True if a test runs this block."""
        if self.language == "python":
            return not self.mark.startswith("not run:")
        return self.language == "sh" and self.mark == "run"


def snippets(text: str) -> Iterator[Snippet]:
    """Return the fenced blocks of a page."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opening = FENCE.match(lines[number])
        number += 1
        if not opening:
            continue
        indent, fence, language = opening.groups()
        above = COMMENT.match(lines[number - 2]) if number > 1 else None
        start = number
        while number < len(lines) and not lines[number].strip().startswith(fence):
            number += 1
        code = "".join(line.removeprefix(indent) + "\n" for line in lines[start:number])
        yield Snippet(start + 1, language, above[1] if above else "", code)
        number += 1


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Return (number, text) of the lines outside fenced blocks."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        opening = FENCE.match(line)
        if fence:
            if line.strip().startswith(fence):
                fence = ""
        elif opening:
            fence = opening[2]
        else:
            yield number, line


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page."""
    headings = (HEADING.match(line) for _, line in prose(text))
    return {_anchor(heading[1]) for heading in headings if heading}


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken_links(page: Path) -> Iterator[str]:
    """Return the relative links of a page that lead nowhere."""
    for number, line in prose(_read(page)):
        for found in LINK.finditer(CODE.sub("", line)):
            link = found[1] or found[2]
            if re.match(r"[a-z]+:", link):
                continue
            place, _, anchor = link.partition("#")
            target = (page.parent / place) if place else page
            if not target.exists():
                yield f"{number}: {link} doesn't exist"
            elif anchor and target.suffix == ".md" and anchor not in anchors(_read(target)):
                yield f"{number}: {link}: no such heading"


def _read(page: Path) -> str:
    return page.read_text(encoding="utf-8")
