"""The statements, from the files in ``schema/``: named blocks, read once, then constants."""

from __future__ import annotations

import os
from functools import cache
from types import SimpleNamespace
from typing import Any

_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "schema")


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
    return blocks(_text("create.sql"))


@cache
def verbs() -> Any:
    """The statements of the verbs, as attributes."""
    return SimpleNamespace(**blocks(_text("verbs.sql")))


@cache
def create_queues() -> dict[str, str]:
    """The statements that make a new database of serial queues, in order."""
    return blocks(_text("queues.sql"))


@cache
def jobs() -> Any:
    """The statements of serial queues, as attributes."""
    return SimpleNamespace(**blocks(_text("jobs.sql")))


@cache
def create_values() -> dict[str, str]:
    """The statements that make a new database of refresh guards, in order."""
    return blocks(_text("values.sql"))


@cache
def guards() -> Any:
    """The statements of refresh guards, as attributes."""
    return SimpleNamespace(**blocks(_text("guards.sql")))


def _text(name: str) -> str:
    # Without pathlib, because that would add 2 ms to the start of every program.
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return file.read()
