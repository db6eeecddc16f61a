"""The tables and procedures of ``schema/``, and the settings of a session.

The names of the procedures contain a version. So programs of two versions of holdfast can use one
database at the same time, as long as the tables stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...core.layout import newer
from ...runtime.files import text
from .config import DEFAULT_PREFIX

#: The version of the procedures. A change of their behaviour needs a new version.
VERSION = 4
FILES = ("tables", "line", "join", "stand", "leave", "together", "sweep")
#: Version and files of serial queues, which are newer than locks: a client of locks doesn't need
#: these files.
QUEUE_VERSION = 3
QUEUE_FILES = (
    "queue_tables",
    "queue_track",
    "queue_heal",
    "queue_put",
    "queue_take",
    "queue_settle",
    "queue_mend",
    "queue_sweep",
)
#: Version and files of refresh guards, which came after serial queues.
REFRESH_VERSION = 2
REFRESH_FILES = ("refresh_tables", "refresh_begin", "refresh_end", "refresh_sweep")
#: The separator between two statements, on a separate line.
_END = "//"
#: The SQL mode in which tables and procedures are made; the default of a server may differ.
SQL_MODE = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION"
#: The largest limit. It replaces DEFAULT, which the provider of the server can have changed.
UNLIMITED = (1 << 64) - 1
#: The layout of the tables, in the comment of `holdfast_lines` (none: 1). A release that raises
#: it drops the procedures of all earlier ones. These try to make them again, and are refused.
LAYOUT = 1
_LAYOUT = (
    "SELECT table_comment FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_name = 'holdfast_lines'"
)
#: Errors about a table or procedure that another client has made at the same moment.
ALREADY = frozenset({1007, 1050, 1060, 1062, 1304, 1586})


def layout_of(prefix: str) -> str:
    """Return a query for the comment that contains the layout: one row, or none."""
    return _LAYOUT.replace(f"{DEFAULT_PREFIX}_", f"{prefix}_")


def refuse_newer(rows: Sequence[Sequence[object]], label: str) -> None:
    """Raise ``ConfigError`` if the layout in the reply to `layout_of` is of a later release."""
    for (comment,) in rows:
        found = re.fullmatch(r"layout (\d+)", str(comment))
        if found and int(found[1]) > LAYOUT:
            raise newer(label, found[1], LAYOUT)


def session(version: str) -> str:
    """Return the first statement of each session, for a server of this version.

    A request waits for a locked row at most one second, the shortest limit that every server
    accepts; then the request is rolled back and sent again. Limits that a provider sets for human
    users would cut replies off, so the statement lifts these limits: each request has a separate
    time limit, and asks for no more rows than it needs.
    """
    mariadb = "mariadb" in version.lower()
    isolation = "tx_isolation" if mariadb else "transaction_isolation"
    longest = "max_statement_time" if mariadb else "max_execution_time"
    return (
        f"SET SESSION {isolation} = 'READ-COMMITTED', autocommit = 1, completion_type = 0, "
        f"innodb_lock_wait_timeout = 1, lock_wait_timeout = 5, {longest} = 0, "
        f"sql_select_limit = {UNLIMITED}, sql_big_selects = 1, sql_safe_updates = 0, "
        f"sql_notes = 0, sql_mode = '{SQL_MODE}'"
    )


def statements(
    prefix: str, files: Sequence[str] = (*FILES, *QUEUE_FILES, *REFRESH_FILES)
) -> Iterator[str]:
    """Yield the statements that make missing tables and procedures."""
    for file in files:
        for part in _text(file).split(f"\n{_END}\n"):
            if part.strip():
                yield part.strip().replace(f"{DEFAULT_PREFIX}_", f"{prefix}_")


def script(prefix: str) -> str:
    """Return the statements as one script, for the server's own client."""
    files = ("layout", *FILES, *QUEUE_FILES, *REFRESH_FILES)
    parts = [f"SET SESSION sql_mode = '{SQL_MODE}'", *statements(prefix, files)]
    return f"DELIMITER {_END}\n" + f"\n{_END}\n".join([*parts, "DELIMITER ;\n"])


def _text(file: str) -> str:
    return text(__name__.rpartition(".")[0], "schema", f"{file}.sql")
