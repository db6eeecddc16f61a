"""The statements, from the files in ``schema/``: named blocks, read once, then constants."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_FOLDER = Path(__file__).resolve().parent.parent / "schema"


def blocks(text: str) -> dict[str, str]:
    r"""Each ``-- name: x`` block of a file as one statement, without its comments.

    >>> blocks("-- name: one\n-- why\nSELECT 1\n\n-- name: two\nSELECT\n  2\n")
    {'one': 'SELECT 1', 'two': 'SELECT\n  2'}
    """
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("-- name: "):
            lines = found.setdefault(line.removeprefix("-- name: ").strip(), [])
        elif line.strip() and not line.startswith("--"):
            lines.append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}


@cache
def create() -> dict[str, str]:
    """The statements that make a new database, in order."""
    return blocks((_FOLDER / "create.sql").read_text("utf-8"))


@cache
def verbs() -> Any:
    """The statements of the verbs, as attributes."""
    return SimpleNamespace(**blocks((_FOLDER / "verbs.sql").read_text("utf-8")))
