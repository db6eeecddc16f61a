"""Messages and errors for a row lock that can't be taken."""

from __future__ import annotations

from ..core.checks import TIMEOUT_S_MAX
from ..errors import StoreUnavailable

OUTSIDE = (
    "row_lock was called outside a transaction, where the lock would be gone at once: begin one, "
    "or open the connection without autocommit"
)

REMOVED = "the row for it was removed just now"


def stale(name: str, why: str) -> str:
    """The message for a snapshot that is older than another transaction's change."""
    return (
        f"{name!r:.80}: what this transaction reads is older than the lock ({why}), so the lock "
        "would protect nothing that you have read or read now. Roll back and start a new "
        "transaction: take the row lock first in it, or use READ COMMITTED"
    )


def deadlock(name: str) -> str:
    """The message when the database chose our transaction to end a deadlock."""
    return (
        f"{name!r:.80}: you and another transaction waited for each other, and the database has "
        "refused you. Your transaction is over (MySQL has rolled back all of it): roll back and "
        "start a new one. Take names in one order everywhere, so that it doesn't happen"
    )


def busy(name: str, waited: float) -> str:
    """The message when another transaction holds the lock."""
    long = f"after {waited:.3g} s" if 0 < waited < TIMEOUT_S_MAX else "at once"
    return (
        f"the row lock {name!r:.80} was not to be had {long}: another transaction has it, and "
        "keeps it until it commits or rolls back. Your transaction is as it was: go on without, "
        "try later, or give a longer timeout"
    )


def elsewhere(name: str, table: str, label: str) -> str:
    """The message when the row that a side connection created is not visible."""
    return (
        f"{name!r:.80}: the row made for it in {table!r} over a separate connection can't be seen "
        f"by yours. Both must come to the same {label} database and schema: write the table as "
        "schema.table, and check `beside`"
    )


def not_opened(wrong: Exception) -> StoreUnavailable:
    """The error when no side connection can be opened."""
    return StoreUnavailable(
        f"row_lock couldn't open its separate connection to your database: {wrong}"
    )


def no_answer(name: str, waited: float) -> StoreUnavailable:
    """The error when the side connection had to wait for too long."""
    return StoreUnavailable(
        f"{name!r:.80}: row_lock had no answer over its separate connection for {waited:.3g} s. It "
        "makes the row of a new name there, beside your transaction, and needs a second session of "
        "the server for that. Behind a pooler such as PgBouncer, raise default_pool_size above the "
        "number of transactions at once, or give side_connection=, a function that connects to the "
        "server directly. Your transaction is as it was"
    )


def no_right_to_purge(table: str, wrong: Exception) -> str:
    """The message when the user may use row locks but may not remove their rows."""
    return (
        f"the rows of {table!r} can't be removed ({wrong}): that needs SELECT, UPDATE and DELETE "
        "on it. It may be left out; then the table keeps a row for every name"
    )
