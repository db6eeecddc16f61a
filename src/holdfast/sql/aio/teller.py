"""The executor of statements over a connection of an asyncio driver."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.paramstyle import render
from ...errors import ConfigError
from ..drivers import driver, style
from ..model import Answer, plain


class AsyncTeller:
    """The executor over cursors of psycopg's ``AsyncConnection``, or of asyncmy."""

    def __init__(self, cursor: Callable[[], Any], paramstyle: str) -> None:
        self._cursor = cursor
        self._style = paramstyle

    async def ask(self, text: str, values: Mapping[str, Any]) -> Answer:
        """Execute a statement; see `model.Teller`."""
        cursor = self._cursor()
        try:
            await cursor.execute(*render(text, self._style, values))
            row = await cursor.fetchone() if cursor.description else None
            return Answer(None if row is None else plain(row), cursor.rowcount)
        finally:
            await cursor.close()

    async def rows(self, text: str, values: Mapping[str, Any]) -> list[Sequence[Any]]:
        """Execute a statement and return its rows; see `model.Teller`."""
        cursor = self._cursor()
        try:
            await cursor.execute(*render(text, self._style, values))
            return [plain(row) for row in await cursor.fetchall()]
        finally:
            await cursor.close()


def of_driver(connection: Any) -> AsyncTeller:
    """Return an executor over a driver's connection, with plain cursors."""
    package = driver(connection)
    module: Any = sys.modules[package]
    if package == "psycopg" and isinstance(connection, module.AsyncConnection):
        rows = module.rows.tuple_row
        return AsyncTeller(
            lambda: module.AsyncCursor(connection, row_factory=rows), style(connection)
        )
    if package == "asyncmy":
        plainly = sys.modules["asyncmy.cursors"].Cursor
        return AsyncTeller(lambda: connection.cursor(plainly), style(connection))
    raise ConfigError(
        f"for asyncio a connection of psycopg (AsyncConnection), asyncmy or SQLAlchemy is needed, "
        f"not a {type(connection).__module__}.{type(connection).__qualname__}; for a blocking "
        "connection use row_lock"
    )


async def automatic(connection: Any) -> Any:
    """Set autocommit on a new connection, and return it."""
    change = getattr(connection, "set_autocommit", None) or connection.autocommit
    done = change(True)
    if inspect.isawaitable(done):
        await done
    return connection
