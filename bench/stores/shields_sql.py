"""The floors for reads of a value over SQL: a bare SELECT by primary key, over holdfast's drivers.

A thread or task that finds no idle connection opens a new one, so that two of them never share a
connection. Each process has a separate table, so that two processes never make the same table.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from ..contenders import peer
from ..shields import VALUE, Shielder, awaited

SELECT, SELECT_ASYNC = "SELECT, bare", "SELECT, bare, asyncio"
_KEY = ("hot",)


def _made(cursor: Any, mark: str) -> str:
    """Make a table with the value; return the SELECT. ``mark``: the driver's placeholder."""
    table = f"bare_{uuid.uuid4().hex}"
    cursor.execute(f"CREATE TABLE {table} (name VARCHAR(200) PRIMARY KEY, data VARCHAR(200))")
    cursor.execute(f"INSERT INTO {table} VALUES ({mark}, {mark})", (*_KEY, VALUE))
    return f"SELECT data FROM {table} WHERE name = {mark}"


class Select:
    """A SELECT of an existing value. ``connect`` returns a cursor on a new connection."""

    def __init__(self, connect: Callable[[], Any], mark: str = "%s") -> None:
        first = connect()
        self._connect, self._idle = connect, [first]
        self._sql = _made(first, mark)

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        try:
            cursor = self._idle.pop()
        except IndexError:
            cursor = self._connect()
        cursor.execute(self._sql, _KEY)
        (value,) = cursor.fetchone()
        self._idle.append(cursor)
        return value

    def close(self) -> None:
        for cursor in self._idle:
            cursor.connection.close()


class SelectInLoop:
    """A SELECT that blocks the event loop, because SQLite has no asynchronous driver here."""

    def __init__(self, connect: Callable[[], Any], mark: str) -> None:
        self._select = Select(connect, mark)

    async def get(self, key: str, compute: Callable[[], Any]) -> Any:
        return self._select.get(key, compute)

    async def close(self) -> None:
        self._select.close()


class SelectTasks:
    """A SELECT for asyncio. ``make`` returns a cursor of the driver for threads."""

    def __init__(self, make: Callable[[], Any], connect: Callable[[], Awaitable[Any]]) -> None:
        maker = make()
        self._sql = _made(maker, "%s")
        maker.connection.close()
        self._connect = connect
        self._idle: list[Any] = []

    async def get(self, key: str, compute: Callable[[], Any]) -> Any:
        cursor = self._idle.pop() if self._idle else await self._connect()
        await cursor.execute(self._sql, _KEY)
        (value,) = await cursor.fetchone()
        self._idle.append(cursor)
        return value

    async def close(self) -> None:
        for cursor in self._idle:
            await awaited(cursor.connection.close())


def sqlite() -> list[Shielder]:
    """Return the SELECTs by sqlite3, in a file next to the store, in WAL mode like the store."""

    def connect(place: Path) -> Any:
        # Another thread can reuse a connection, so sqlite3 must not check its thread
        file = place / "bare.db"
        connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        return connection.cursor()

    return [
        Shielder(SELECT, lambda place, *_: Select(lambda: connect(place), "?"), reads=True),
        Shielder(
            SELECT_ASYNC,
            lambda place, *_: SelectInLoop(lambda: connect(place), "?"),
            "asyncio",
            reads=True,
        ),
    ]


def postgres(url: Callable[[], str]) -> list[Shielder]:
    """Return the SELECTs by psycopg, as prepared statements from the first execution."""

    def connect() -> Any:
        return peer("psycopg").connect(url(), autocommit=True, prepare_threshold=0).cursor()

    async def aconnect() -> Any:
        opened = peer("psycopg").AsyncConnection.connect(
            url(), autocommit=True, prepare_threshold=0
        )
        return (await opened).cursor()

    return _both(connect, aconnect, "psycopg", "psycopg")


def mysql(server: Callable[[], Mapping[str, Any]]) -> list[Shielder]:
    """Return the SELECTs by PyMySQL and asyncmy. ``server`` returns their connection arguments."""

    def connect() -> Any:
        return peer("pymysql").connect(**server()).cursor()

    async def aconnect() -> Any:
        return (await peer("asyncmy").connect(**server())).cursor()

    return _both(connect, aconnect, "pymysql", "asyncmy")


def _both(
    connect: Callable[[], Any],
    aconnect: Callable[[], Awaitable[Any]],
    package: str,
    apackage: str,
) -> list[Shielder]:
    return [
        Shielder(SELECT, lambda *_: Select(connect), package=package, reads=True),
        Shielder(
            SELECT_ASYNC,
            lambda *_: SelectTasks(connect, aconnect),
            "asyncio",
            package=apackage,
            reads=True,
        ),
    ]
