"""`row_lock` and `purge`, for threads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ...core import checks
from ...runtime.blocking import boottime, run_sync
from .. import names
from ..model import Batch, RowLock
from ..take import purge as purge_
from ..take import take
from .given import Opener, given


def row_lock(
    connection: Any,
    name: str,
    *,
    timeout: float | timedelta | None = None,
    side_connection: Opener | None = None,
    table: str = names.TABLE,
) -> RowLock:
    """Lock a name until your own transaction ends, in PostgreSQL, MySQL or MariaDB.

    ``connection`` is one of psycopg or PyMySQL or of another DB-API 2 driver, a ``Connection`` or
    ``Session`` of SQLAlchemy, or ``django.db.connection``, in a transaction or about to begin one.
    ``timeout`` is the maximum wait in seconds: 0 is one try, None waits without a time limit.

    Guarantee: after it returns, no other transaction has the lock of this name until yours ends, by
    ``COMMIT``, by ``ROLLBACK`` or with its connection. Data that your transaction reads after this
    is not older than the last holder's commit. So take the lock first in the transaction.

    The first use of a name creates its row, and the table if it is missing, over a separate
    connection, which stays open. ``side_connection`` is a function that opens this connection, if
    it can't be derived from yours; pass the same function each time. ``table`` is the name of
    another table, or of a table in a schema: ``schema.table``.

    Errors: ``NotAcquired`` after ``timeout``; your transaction continues. ``StaleSnapshot`` if your
    transaction reads data from before the last holder's commit, and ``Deadlock`` if the database
    ended a deadlock at your cost: roll back and start a new transaction. ``ConfigError`` outside a
    transaction, for an invalid name or connection, or if rights are missing. ``NotSupported`` if
    the server is too old. ``StoreUnavailable`` if no separate connection can be opened, or if it
    gets no answer in time (``timeout``, but at least 2 s; 10 s if it is None), for example because
    a pooler has no session left. The driver's other errors are raised unchanged.
    """
    row = names.row(name, table)
    limit = checks.wait(True, timeout)
    dialect, teller, spare, _ = given(connection, side_connection).inside()
    return run_sync(take(dialect, teller, spare, row, limit, boottime))


def purge(
    connection: Any,
    older_than: float | timedelta,
    *,
    kind: str | None = None,
    batch: int = 500,
    progress: Callable[[int], object] | None = None,
    side_connection: Opener | None = None,
    table: str = names.TABLE,
) -> int:
    """Remove the rows of names that weren't used for ``older_than`` seconds; return how many.

    ``older_than`` is at least an hour; no transaction should stay open for longer. Names in use are
    skipped without waiting. ``purge`` works in short transactions of ``batch`` rows over a separate
    connection (see `row_lock`). ``connection`` only names the database; it may be inside or outside
    a transaction. ``kind`` limits the purge to names with this beginning, up to their first colon.
    ``progress`` is called after each batch with the number of rows removed so far. The user needs
    SELECT, UPDATE and DELETE on the table. Purging is optional: without it the table has a row for
    every name ever used.
    """
    age = checks.seconds("older_than", older_than, names.AGE_S_MIN, names.AGE_S_MAX)
    size = checks.count("batch", batch, names.BATCH_MAX)
    only = None if kind is None else names.kind(kind)
    wanted = Batch(names.table(table), "", only, ("", ""), size)
    dialect, _, spare, _ = given(connection, side_connection)
    return run_sync(purge_(dialect, spare, wanted, age, progress or (lambda _: None)))
