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
    beside: Opener | None = None,
    table: str = names.TABLE,
) -> RowLock:
    """Lock a name until your own transaction ends, in PostgreSQL, MySQL or MariaDB.

    ``connection`` is one of psycopg or PyMySQL or of another DB-API 2 driver, a ``Connection`` or
    ``Session`` of SQLAlchemy, or ``django.db.connection``, in a transaction or about to begin one.
    ``timeout`` is how long to wait, in seconds: 0 is one try, None waits without a time limit.

    Guarantee: when it returns, no other transaction has this name's lock until yours ends, be that
    by ``COMMIT``, by ``ROLLBACK`` or with its connection. What you read in the transaction from now
    on is not older than the last holder's commit. Take it first, so that the same is true of all
    that you read.

    The row of a name is made when it is first wanted, and the table too, over a separate
    connection, which is kept open. ``beside`` opens it, where it can't be derived from yours; give
    the same function each time. ``table`` is another table, or one in a schema: ``schema.table``.

    Errors: ``NotAcquired`` when the time has expired; your transaction continues.
    ``StaleSnapshot``: it reads what was before the last holder; ``Deadlock``: the database refused
    it; after these, roll back and start a new one. ``ConfigError`` outside a transaction, for a
    name or connection that is none, or if rights are missing; ``NotSupported`` by an older server;
    ``StoreUnavailable`` if no separate connection can be opened, or if it has no answer in time
    (``timeout``, but 2 s at least; 10 s without one), as where a pooler has no session left; the
    driver's own errors.
    """
    row = names.row(name, table)
    limit = checks.wait(True, timeout)
    dialect, teller, spare, _ = given(connection, beside).inside()
    return run_sync(take(dialect, teller, spare, row, limit, boottime))


def purge(
    connection: Any,
    older_than: float | timedelta,
    *,
    kind: str | None = None,
    batch: int = 500,
    progress: Callable[[int], object] | None = None,
    beside: Opener | None = None,
    table: str = names.TABLE,
) -> int:
    """Remove the rows of names that weren't used for ``older_than`` seconds; how many that were.

    ``older_than`` is an hour at least; no transaction should stay open for longer. A name in use is
    never touched, nor waited for. It works in short transactions of ``batch`` rows over a separate
    connection (see `row_lock`); ``connection`` only says where, whether it is in a transaction or
    not. ``kind``: only names that begin so, up to their first colon and with it. ``progress`` is
    told after every batch how many are gone. It needs SELECT, UPDATE and DELETE on the table, and
    may be left out: then the table has a row for every name that was ever used.
    """
    age = checks.seconds("older_than", older_than, names.AGE_S_MIN, names.AGE_S_MAX)
    size = checks.count("batch", batch, names.BATCH_MAX)
    only = None if kind is None else names.kind(kind)
    wanted = Batch(names.table(table), "", only, ("", ""), size)
    dialect, _, spare, _ = given(connection, beside)
    return run_sync(purge_(dialect, spare, wanted, age, progress or (lambda _: None)))
