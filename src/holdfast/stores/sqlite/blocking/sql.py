"""The SQL statements: the named blocks of the files in ``schema/``, each file read once."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

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
def _plain(text: str) -> tuple[str, tuple[int, ...] | None]:
    """Return a statement without the numbers of its parameters, and the order of its values (None
    if the values are in order already). Some versions of Python warn of numbered parameters."""
    order = tuple(int(number) - 1 for number in re.findall(r"\?([0-9]+)", text))
    in_order = order == tuple(range(len(order)))
    return re.sub(r"\?[0-9]+", "?", text), None if in_order else order


class Cursor(sqlite3.Cursor):
    """Runs a statement whose parameters may have numbers."""

    def execute(self, sql: str, parameters: Any = ()) -> Self:
        """Run a statement; `_plain` prepares each one once, because the statements are
        constants."""
        text, order = _plain(sql)
        if order is not None:
            parameters = [parameters[one] for one in order]
        return super().execute(text, parameters)


class Unnumbered(sqlite3.Connection):
    """A connection whose cursors are `Cursor` objects."""

    def cursor(self, factory: Any = None) -> Any:
        """Return a new cursor."""
        return super().cursor(Cursor if factory is None else factory)

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        """Run a statement with a new cursor."""
        found: sqlite3.Cursor = self.cursor().execute(sql, parameters)
        return found


#: Python 3.12.0 to 3.12.3 warn of numbered parameters, so the numbers are removed there; elsewhere
#: that would only cost time.
if TYPE_CHECKING or not (3, 12, 0) <= sys.version_info[:3] <= (3, 12, 3):
    Connection = sqlite3.Connection
else:
    Connection = Unnumbered


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
def books() -> dict[str, str]:
    """The rules of a database of serial queues, in order, and the statements that repair it."""
    return blocks(_text("books.sql"))


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
