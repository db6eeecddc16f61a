"""The tables and procedures, as they stand in ``schema/``, and what else a session must be told.

The procedures carry a version in their names: programs of two versions of holdfast can use one
database at the same time, as long as the tables stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...runtime.files import text
from .config import DEFAULT_PREFIX

#: Of the procedures. A change of what they do is a new version.
VERSION = 3
FILES = ("tables", "line", "join", "keep", "leave", "together", "sweep")
#: The same for serial queues, which came later: a client that uses locks alone needs none of these.
QUEUE_VERSION = 2
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
#: The same for refresh guards, which came later still.
REFRESH_VERSION = 2
REFRESH_FILES = ("refresh_tables", "refresh_begin", "refresh_end", "refresh_sweep")
#: Between two statements, on a separate line.
_END = "//"
#: The tables and procedures are made under this, whatever the server's default is.
SQL_MODE = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION"
#: In place of DEFAULT, which is what the server's host has chosen.
UNLIMITED = (1 << 64) - 1
#: Somebody else has made it in the same moment.
ALREADY = frozenset({1007, 1050, 1060, 1062, 1304, 1586})


def session(version: str) -> str:
    """What each session is told first, by what the server says of its version.

    A second is the least wait for a lock that every server knows; nobody who locks a row of ours
    keeps it for longer than a verb takes. What a host may have limited for people would cut off
    our answers: each request has its own time limit, and asks for no more rows than it wants.
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
    """What makes all that is missing, one statement after the other."""
    for file in files:
        for part in _text(file).split(f"\n{_END}\n"):
            if part.strip():
                yield part.strip().replace(f"{DEFAULT_PREFIX}_", f"{prefix}_")


def script(prefix: str) -> str:
    """The same as one script, for the server's own client."""
    parts = [f"SET SESSION sql_mode = '{SQL_MODE}'", *statements(prefix)]
    return f"DELIMITER {_END}\n" + f"\n{_END}\n".join([*parts, "DELIMITER ;\n"])


def _text(file: str) -> str:
    return text(__name__.rpartition(".")[0], "schema", f"{file}.sql")
