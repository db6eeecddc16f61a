"""Check the database of queues for impossible states, and repair it, by the rules in ``books.sql``.

After a checkpoint by another program, or on a bad disk, the tables of a file can be from different
times, or parts can be unreadable. SQLite's own check detects few differences between tables. The
repair makes a new database: it copies every readable row, and derives the rest from the jobs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from ..sql import books, create_queues
from .rows import SEQ_BITS

#: Maximum number of ranges that are read from a table that can't be read as a whole.
LOOKS_MAX = 200
#: Tables in which each row has a number, and tables with another key.
NUMBERED = ("queues", "groups", "jobs", "loans")
KEYED = ("known", "lanes", "tombs", "meta")
FIRST, LAST = -(1 << 63), (1 << 63) - 1


def prepare(connection: sqlite3.Connection, now: float) -> None:
    """Add the functions and views of the rules to a connection."""
    names: dict[int, str] = {}
    with suppress(sqlite3.Error):
        names.update(connection.execute("SELECT id, name FROM queues"))
    connection.create_function("called", 1, lambda job: called(job, names))
    connection.create_function("moment", 0, lambda: now)
    connection.create_function("readable", 2, _readable, deterministic=True)
    connection.create_function("clock", 1, _is_clock, deterministic=True)
    for name, statement in books().items():
        if name.startswith("view"):
            connection.execute(statement)


def called(job: int, names: Mapping[int, object]) -> str:
    """A job's name in messages: its place among all accepted jobs of its queue, and the queue."""
    queue = job >> SEQ_BITS
    return f"job {job & (1 << SEQ_BITS) - 1} of queue {names.get(queue, f'number {queue}')!r}"


def _readable(kind: str, raw: bytes | None) -> bool:
    if kind != "text" or raw is None:
        return False
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_clock(raw: bytes | None) -> bool:
    """Does this text contain a boot id, and the offset that is added to the clock of that boot?"""
    try:
        boot, _, offset = (raw or b"").decode().partition(" ")
        return int(boot) >= 0 and abs(float(offset)) < 1e11
    except ValueError:
        return False


def broken(connection: sqlite3.Connection, most: int = 3) -> list[str]:
    """Messages about broken rules, at most ``most`` for each rule."""
    found: list[str] = []
    for name, statement in books().items():
        kind, _, what = name.partition(" ")
        if kind == "must":
            rows = connection.execute(f"{statement} LIMIT {most}")
            found += [words for (words,) in rows]
        elif kind == "drop":
            (count,) = connection.execute(f"SELECT count(*) FROM {statement}").fetchone()  # noqa: S608
            found += [f"{count} impossible rows: {what}"] * bool(count)
    return found


def settle(connection: sqlite3.Connection) -> None:
    """Remove and change rows, so that the database keeps the rules."""
    for name, statement in books().items():
        if name.startswith("mend"):
            connection.execute(statement)
        elif name.startswith("drop"):
            connection.execute(f"DELETE FROM {statement}")  # noqa: S608


def salvage(old: sqlite3.Connection, made: sqlite3.Connection) -> set[str]:
    """Fill a new database with every row of a damaged one that can be read; return the tables that
    also have unreadable rows."""
    for statement in create_queues().values():
        made.execute(statement)
    old.text_factory = _text
    unread: set[str] = set()
    for table in (*NUMBERED, *KEYED):
        columns = made.execute("SELECT count(*) FROM pragma_table_info(?)", (table,)).fetchone()[0]
        places = ", ".join("?" * columns)
        rows = (_numbered if table in NUMBERED else _keyed)(old, table, unread)
        sql = f"INSERT OR IGNORE INTO {table} VALUES ({places})"  # noqa: S608 - constants
        made.executemany(sql, rows)
    return unread


def _text(raw: bytes) -> str | bytes:
    """Decode a text; invalid text stays bytes, so that the rules find it."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _numbered(
    old: sqlite3.Connection, table: str, unread: set[str]
) -> Iterator[tuple[object, ...]]:
    """Yield the readable rows of a table. It reads from both ends until an error, and then reads
    both halves of the unread middle in this way."""
    looks, parts = 0, [(FIRST, LAST)]
    while parts and looks < LOOKS_MAX:
        first, last = parts.pop()
        looks += 1
        where = "NOT INDEXED WHERE rowid BETWEEN ? AND ? ORDER BY rowid"
        sql = f"SELECT rowid, * FROM {table} {where}"  # noqa: S608 - constants, all of them
        low, high = first - 1, last + 1
        with suppress(sqlite3.Error):
            for number, *row in old.execute(sql, (first, last)):
                yield tuple(row)
                low = number
            continue
        unread.add(table)
        with suppress(sqlite3.Error):
            for number, *row in old.execute(f"{sql} DESC", (low + 1, last)):
                yield tuple(row)
                high = number
        if high - low > 2:
            middle = (low + high) // 2
            parts += [(low + 1, middle), (middle + 1, high - 1)]


def _keyed(old: sqlite3.Connection, table: str, unread: set[str]) -> Iterator[tuple[object, ...]]:
    """Yield the readable rows of a table: from its start until an error, then from its end."""
    for order in ("ASC", "DESC"):
        with suppress(sqlite3.Error):
            sql = f"SELECT * FROM {table} ORDER BY 1 {order}"  # noqa: S608 - constants
            yield from old.execute(sql)
            return
        unread.add(table)


def gone(old: sqlite3.Connection, made: sqlite3.Connection) -> dict[int, str]:
    """Return the jobs that the old database mentions and the new one doesn't have. By the number of
    each job: its id, or an empty string if the id is unknown."""
    found: dict[int, str] = {}
    there: Callable[[object], bool] = lambda job: (  # noqa: E731
        made.execute("SELECT 1 FROM jobs WHERE job = ?", (job,)).fetchone() is not None
    )
    for sql in (
        "SELECT job, '' FROM ready",
        "SELECT job, '' FROM loans",
        "SELECT job, id FROM jobs INDEXED BY jobs_by_id",
    ):
        with suppress(sqlite3.Error):
            for job, job_id in old.execute(sql):
                if isinstance(job, int) and not there(job):
                    found[job] = job_id if isinstance(job_id, str) else ""
    return found
