"""The executor of statements over a blocking connection of a driver or a wrapper."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.paramstyle import render
from ..drivers import driver, style
from ..model import Answer, plain


class CursorTeller:
    """The executor over cursors of a DB-API 2 driver, or of a wrapper."""

    def __init__(self, cursor: Callable[[], Any], paramstyle: str) -> None:
        self._cursor = cursor
        self._style = paramstyle

    async def ask(self, text: str, values: Mapping[str, Any]) -> Answer:
        """Execute a statement; see `model.Teller`."""
        cursor = self._cursor()
        try:
            cursor.execute(*render(text, self._style, values))
            row = cursor.fetchone() if cursor.description else None
            return Answer(None if row is None else plain(row), cursor.rowcount)
        finally:
            cursor.close()

    async def rows(self, text: str, values: Mapping[str, Any]) -> list[Sequence[Any]]:
        """Execute a statement and return its rows; see `model.Teller`."""
        cursor = self._cursor()
        try:
            cursor.execute(*render(text, self._style, values))
            return [plain(row) for row in cursor.fetchall()]
        finally:
            cursor.close()


class SqlAlchemyTeller:
    """The executor over SQLAlchemy's ``Connection``, so that SQLAlchemy notices the transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._style: str = connection.dialect.paramstyle

    async def ask(self, text: str, values: Mapping[str, Any]) -> Answer:
        """Execute a statement; see `model.Teller`."""
        with self._result(text, values) as result:
            row = result.fetchone() if result.returns_rows else None
            return Answer(row, result.rowcount)

    async def rows(self, text: str, values: Mapping[str, Any]) -> list[Sequence[Any]]:
        """Execute a statement and return its rows; see `model.Teller`."""
        return list(self._result(text, values))

    def _result(self, text: str, values: Mapping[str, Any]) -> Any:
        sql, parameters = render(text, self._style, values)
        return self._connection.exec_driver_sql(sql, parameters or None)


def of_driver(connection: Any) -> CursorTeller:
    """Return an executor over a driver's connection; it uses plain cursors where it can."""
    module: Any = sys.modules[driver(connection)]
    return CursorTeller(_cursors(module, connection), style(connection))


def _cursors(module: Any, connection: Any) -> Callable[[], Any]:
    if module.__name__ == "psycopg":
        return lambda: module.Cursor(connection, row_factory=module.rows.tuple_row)
    if module.__name__ == "pymysql":
        return lambda: connection.cursor(module.cursors.Cursor)
    cursor: Callable[[], Any] = connection.cursor
    return cursor
