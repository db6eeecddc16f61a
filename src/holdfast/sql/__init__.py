"""A lock inside your own transaction: the lock and the protected write end together.

Work in one transaction of PostgreSQL, MySQL or MariaDB needs no lease. `row_lock` locks the row of
the name in the same transaction. So the lock ends when the transaction ends, never before: by a
commit, a rollback or a lost connection::

    with psycopg.connect(...) as connection:
        row_lock(connection, "trans_id:4711", timeout=0)
        ...  # read, decide, write
    # COMMIT: the refund and the end of the lock are one

* `row_lock` for threads, `async_row_lock` for asyncio; both return a `RowLock`.
* `create_sql` returns the statement that creates the table, for your own migrations. If the table
  is missing, the first lock creates it.
* `purge` removes the rows of names that weren't used for a long time.
"""

from .aio.face import async_row_lock
from .blocking.face import purge, row_lock
from .model import RowLock
from .table import create_sql

__all__ = ["RowLock", "async_row_lock", "create_sql", "purge", "row_lock"]
