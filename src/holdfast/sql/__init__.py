"""A lock in your own transaction: the guarded write and the lock live or die together.

For work that is one transaction of PostgreSQL, MySQL or MariaDB a lease is more than is needed.
`row_lock` locks a row that stands for the name, in that very transaction, so the lock ends when
the work is committed, rolled back or cut off, and never before::

    with psycopg.connect(...) as connection:
        row_lock(connection, "trans_id:4711", timeout=0)
        ...  # read, decide, write
    # COMMIT: the refund and the end of the lock are one

* `row_lock` for threads, `async_row_lock` for asyncio; both give a `RowLock`.
* `create_sql` says how the table is made, where that isn't left to them.
* `purge` removes the rows of names that nobody has used for long.
"""

from .aio.face import async_row_lock
from .blocking.face import purge, row_lock
from .model import RowLock
from .table import create_sql

__all__ = ["RowLock", "async_row_lock", "create_sql", "purge", "row_lock"]
