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

    Guarantee: when it returns, no other transaction has this name's lock until yours ends: by
    ``COMMIT``, by ``ROLLBACK`` or with its connection. Data that you read in the transaction after
    this is not older than the last holder's commit. So take the lock first in the transaction.

    The first use creates the row of a name, and the table too, over a separate connection, which is
    kept open. ``side_connection`` opens it, if it can't be derived from yours; give the same
    function each time. ``table`` is another table, or one in a schema: ``schema.table``.

    Errors: ``NotAcquired`` when the time has expired; your transaction continues.
    ``StaleSnapshot``: it reads data from before the last holder; ``Deadlock``: the database refused
    it; after these two, roll back and start a new one. ``ConfigError`` outside a transaction, for
    an invalid name or connection, or if rights are missing; ``NotSupported`` by an older server;
    ``StoreUnavailable`` if no separate connection can be opened, or if it has no answer in time
    (``timeout``, but 2 s at least; 10 s without one), for example if a pooler has no session left;
    the driver's own errors.
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

    ``older_than`` is an hour at least; no transaction should stay open for longer. Names in use are
    neither removed nor waited for. It works in short transactions of ``batch`` rows over a separate
    connection (see `row_lock`); ``connection`` only shows where, inside or outside a transaction.
    ``kind``: only names with this beginning, up to and with their first colon. ``progress`` is
    called after every batch with the number of removed rows. It needs SELECT, UPDATE and DELETE on
    the table. Purging is optional: without it the table has a row for every name ever used.
    """
    age = checks.seconds("older_than", older_than, names.AGE_S_MIN, names.AGE_S_MAX)
    size = checks.count("batch", batch, names.BATCH_MAX)
    only = None if kind is None else names.kind(kind)
    wanted = Batch(names.table(table), "", only, ("", ""), size)
    dialect, _, spare, _ = given(connection, side_connection)
    return run_sync(purge_(dialect, spare, wanted, age, progress or (lambda _: None)))
