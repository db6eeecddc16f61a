"""Messages and errors for a row lock that can't be taken."""

from __future__ import annotations

from ..core.checks import TIMEOUT_S_MAX
from ..errors import StoreUnavailable

OUTSIDE = (
    "row_lock was called outside a transaction, where the lock would end immediately: begin one, "
    "or open the connection without autocommit"
)

REMOVED = "its row was just removed"


def stale(name: str, why: str) -> str:
    """Return the message for a snapshot that is older than a change of another transaction."""
    return (
        f"{name!r:.80}: this transaction reads data from before the lock ({why}), so the lock "
        "would not protect that data. Roll back and start a new transaction: take the row lock "
        "first in it, or use READ COMMITTED"
    )


def deadlock(name: str) -> str:
    """Return the message for a deadlock that the database ended at the cost of this transaction."""
    return (
        f"{name!r:.80}: your transaction and another one waited for each other, and the database "
        "refused yours. It can't continue (MySQL has rolled back all of it): roll back and start a "
        "new one. Take names in the same order everywhere to prevent this"
    )


def busy(name: str, waited: float) -> str:
    """Return the message for a lock that another transaction holds."""
    long = f"was not free within {waited:.3g} s" if 0 < waited < TIMEOUT_S_MAX else "is not free"
    return (
        f"the row lock {name!r:.80} {long}: another transaction holds it until it commits or rolls "
        "back. Your transaction is unchanged: continue without the lock, try later, or give a "
        "longer timeout"
    )


def elsewhere(name: str, table: str, label: str) -> str:
    """Return the message for a row that a side connection created but the caller can't see."""
    return (
        f"{name!r:.80}: your connection can't see the row that was made in {table!r} over a "
        f"separate connection. Both must lead to the same {label} database and schema: write the "
        "table as schema.table, and check side_connection="
    )


def not_opened(wrong: Exception) -> StoreUnavailable:
    """Return the error for a side connection that can't be opened."""
    return StoreUnavailable(
        f"row_lock couldn't open its separate connection to your database: {wrong}"
    )


def no_answer(name: str, waited: float) -> StoreUnavailable:
    """Return the error for a side connection that got no answer in time."""
    return StoreUnavailable(
        f"{name!r:.80}: row_lock got no answer over its separate connection for {waited:.3g} s. It "
        "makes the row of a new name there, and needs a second session of the server for that. "
        "Behind a pooler such as PgBouncer, raise default_pool_size above the number of concurrent "
        "transactions, or give side_connection=, a function that connects to the server directly. "
        "Your transaction is unchanged"
    )


def no_right_to_purge(table: str, wrong: Exception) -> str:
    """Return the message for a user that may take row locks but may not remove rows."""
    return (
        f"the rows of {table!r} can't be removed ({wrong}): purge needs SELECT, UPDATE and DELETE "
        "on it. Purging is optional: without it the table keeps a row for every name"
    )
