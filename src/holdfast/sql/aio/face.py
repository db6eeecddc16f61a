"""`async_row_lock`: the row lock for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

from ...core import checks
from ...errors import ConfigError
from ...runtime.blocking import boottime
from .. import drivers, names
from ..blocking.face import row_lock
from ..model import Dialect, RowLock
from ..spares import Spares
from ..take import take
from ..words import OUTSIDE
from .beside import AsyncSpare
from .teller import automatic, of_driver

#: Opens a separate connection to the same database.
AsyncOpener = Callable[[], Awaitable[Any]]

#: The caller's connection -> its side connections. A look-up by `Twin.key` takes longer than a
#: lock, because for that key libpq must return all parameters of the connection.
_of_connections: WeakKeyDictionary[Any, AsyncSpare] = WeakKeyDictionary()
_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Spares[AsyncSpare]] = WeakKeyDictionary()


async def async_row_lock(
    connection: Any,
    name: str,
    *,
    timeout: float | timedelta | None = None,
    side_connection: AsyncOpener | None = None,
    table: str = names.TABLE,
) -> RowLock:
    """Lock a name until your own transaction ends: `row_lock` for asyncio.

    ``connection`` is an ``AsyncConnection`` of psycopg, a connection of asyncmy, or an
    ``AsyncConnection`` or ``AsyncSession`` of SQLAlchemy. ``side_connection`` is a coroutine
    function that opens another connection; it isn't allowed with SQLAlchemy, whose engine opens
    one. For the rest see `row_lock`.
    """
    if "sqlalchemy" in drivers.packages(connection):
        return await _over_sqlalchemy(connection, name, timeout, side_connection, table)
    row = names.row(name, table)
    limit = checks.wait(True, timeout)
    teller = of_driver(connection)
    if drivers.outside(connection):
        raise ConfigError(OUTSIDE)
    dialect = drivers.dialect(connection)
    spare = _spare(dialect, connection, side_connection)
    return await take(dialect, teller, spare, row, limit, boottime)


async def _over_sqlalchemy(
    given: Any, name: str, timeout: Any, side_connection: AsyncOpener | None, table: str
) -> RowLock:
    """Run the blocking `row_lock` in SQLAlchemy's greenlet, as SQLAlchemy runs its own code."""
    if not hasattr(given, "run_sync") or side_connection is not None:
        raise ConfigError(
            "async_row_lock takes an AsyncConnection or AsyncSession of SQLAlchemy, "
            "without side_connection"
        )
    locked: RowLock = await given.run_sync(row_lock, name, timeout=timeout, table=table)
    return locked


def _spare(dialect: Dialect, connection: Any, side_connection: AsyncOpener | None) -> AsyncSpare:
    spares = _of_loops.setdefault(asyncio.get_running_loop(), Spares(_forget))
    if side_connection is not None:
        opener = side_connection

        async def opened() -> Any:
            return await automatic(await opener())

        return spares.of(opener, lambda: AsyncSpare(dialect, opened))
    known = _of_connections.get(connection)
    if known is None:
        twin = drivers.twin(connection)
        known = spares.of(twin.key, lambda: AsyncSpare(dialect, twin.open))
        _of_connections[connection] = known
    return known


def _forget(spare: AsyncSpare) -> None:
    task = asyncio.get_running_loop().create_task(spare.close())
    _closing.add(task)
    task.add_done_callback(_closing.discard)


_closing: set[asyncio.Task[None]] = set()
