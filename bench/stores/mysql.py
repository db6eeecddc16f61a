"""The MariaDB arena: one server on the same machine. The floor inserts and deletes a row."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast import Client

from .. import crew, servers
from ..contenders import Arena, Contender, Part
from ..model import Target
from ..servers import url
from . import feeds_ours, ours, shields_ours, shields_sql
from .shields_sql import SELECT, SELECT_ASYNC

OURS = "holdfast"
OURS_ASYNC = "holdfast, asyncio"
FLOOR = "INSERT, DELETE, PyMySQL"
FLOOR_ASYNC = "INSERT, DELETE, asyncmy"
_ONCE: frozenset[Part] = frozenset({"uncontended"})
_LOCKS: frozenset[Part] = frozenset({"uncontended", "contention"})
_READY_S = 60.0
_TABLE = "CREATE TABLE IF NOT EXISTS floor (name VARBINARY(512) PRIMARY KEY) ENGINE=InnoDB"
_INSERT = "INSERT INTO floor VALUES (%s)"
_DELETE = "DELETE FROM floor WHERE name = %s"


@contextlib.contextmanager
def around() -> Generator[str]:
    """Start the server of the tests, but durable: a commit is on the disk before its reply."""
    settings = ("innodb_flush_log_at_trx_commit=1", "innodb_flush_method=O_DIRECT")
    with (
        servers.folder() as place,
        servers.running("mariadb_server", "MariadbServer", place, *settings) as server,
    ):
        crew.alone(_first, _READY_S)
        ((version,),) = server.ask("SELECT VERSION()")
        yield f"MariaDB {version} on the loopback, durable"


def _first() -> None:
    with Client(url()) as client:
        client.lock(ours.NAME).acquire().release()


def _place_of() -> dict[str, Any]:
    parts = urlsplit(url())
    return {
        "host": parts.hostname,
        "port": parts.port,
        "user": parts.username,
        "password": parts.password,
        "database": parts.path[1:],
        "autocommit": True,
    }


def _connect() -> Any:
    pymysql: Any = importlib.import_module("pymysql")
    return pymysql.connect(**_place_of())


class Rows:
    """The floor over PyMySQL: insert a row and delete it, each in a transaction.

    It has no order, no lease and no wait."""

    def __init__(self, place: Path) -> None:
        self._name = ours.own_name(place)
        self._connection = _connect()
        self._cursor = self._connection.cursor()
        self._cursor.execute(_TABLE)

    async def take(self) -> None:
        self._cursor.execute(_INSERT, (self._name,))

    async def within(self, seconds: float) -> bool:
        raise RuntimeError("the floor doesn't wait")

    async def free(self) -> None:
        self._cursor.execute(_DELETE, (self._name,))

    async def close(self) -> None:
        self._connection.close()

    def pair(self) -> Callable[[], object]:
        execute, name = self._cursor.execute, self._name

        def pair() -> None:
            execute(_INSERT, (name,))
            execute(_DELETE, (name,))

        return pair


class RowsAsyncio:
    """The floor over asyncmy; see `Rows`."""

    def __init__(self, place: Path) -> None:
        self._name = ours.own_name(place)
        self._connection: Any = None

    async def _open(self) -> Any:
        if self._connection is None:
            asyncmy: Any = importlib.import_module("asyncmy")
            self._connection = await asyncmy.connect(**_place_of())
            await self._ask("SET sql_notes = 0")  # else the driver prints that the table exists
            await self._ask(_TABLE)
        return self._connection

    async def _ask(self, sql: str, *values: str) -> None:
        connection = self._connection or await self._open()
        async with connection.cursor() as cursor:
            await cursor.execute(sql, values or None)

    async def take(self) -> None:
        await self._ask(_INSERT, self._name)

    async def within(self, seconds: float) -> bool:
        raise RuntimeError("the floor doesn't wait")

    async def free(self) -> None:
        await self._ask(_DELETE, self._name)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.ensure_closed()

    def pair(self) -> Callable[[], object]:
        async def pair() -> None:
            await self._ask(_INSERT, self._name)
            await self._ask(_DELETE, self._name)

        return pair


def commands(_place: Path) -> Mapping[str, Sequence[str]]:
    """Return the commands whose start is measured; the first one is the reference."""
    take = "from holdfast import lock; lock('x').acquire().release()"
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import holdfast, take and free a lock": [sys.executable, "-c", take],
        "import pymysql": [sys.executable, "-c", "import pymysql"],
        "holdfast run x -- true": [sys.executable, "-m", "holdfast", "run", "x", "--", "true"],
    }


MYSQL = Arena(
    name="mysql",
    title="MariaDB, next to a row that comes and goes",
    contenders=(
        Contender(OURS, ours.kept(url, ours.own_name), parts=_LOCKS, period_s=0.14),
        Contender(
            OURS_ASYNC, ours.on_loop(url, ours.own_name), "asyncio", parts=_LOCKS, period_s=0.14
        ),
        Contender(FLOOR, Rows, package="pymysql", project="PyMySQL", parts=_ONCE),
        Contender(FLOOR_ASYNC, RowsAsyncio, "asyncio", package="asyncmy", parts=_ONCE),
    ),
    reference=OURS,
    url=url,
    commands=commands,
    around=around,
    feeders=feeds_ours.feeders(url),
    shielders=(*shields_ours.shielders(url), *shields_sql.mysql(_place_of)),
    suites=(
        "uncontended",
        "contention",
        "queue",
        "queue-fairness",
        "queue-depth",
        "guard",
        "startup",
    ),
    targets={
        "uncontended": [
            Target(OURS, "pair", "ratio", at_most=2.0, stretch=1.3),
            Target(OURS_ASYNC, "pair", "ratio", at_most=2.0, stretch=1.3, against=FLOOR_ASYNC),
        ],
        "contention-8": [
            Target(OURS, "jain", "value", at_least=0.98),
            Target(OURS, "starved", "value", at_most=0.0),
            Target(OURS, "overlaps", "value", at_most=0.0, safety=True),
            Target(OURS_ASYNC, "overlaps", "value", at_most=0.0, safety=True),
        ],
        **shields_ours.targets(SELECT, SELECT_ASYNC),
    },
    references={
        "uncontended": FLOOR,
        "uncontended-warm": FLOOR,
        **shields_ours.references(SELECT),
    },
    crowds=(8,),
)
