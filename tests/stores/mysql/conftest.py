"""The table that the shared tests need for MySQL and MariaDB, and their servers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest

from holdfast import Client
from holdfast.core.guard.model import Entry, Finish, Wish
from holdfast.core.model import Claim, Kind, Spec
from holdfast.core.ports import Store
from holdfast.runtime.blocking import run_sync
from holdfast.stores.mysql.blocking.port import ThreadPort
from holdfast.stores.mysql.schema import QUEUE_VERSION, REFRESH_VERSION, VERSION
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import HOLD_END, MYSQL, Proxy
from holdfast.url import find
from tests.servers.mariadb_server import DATABASE, PASSWORD, USER, MariadbServer
from tests.stores.damage import Damaged
from tests.stores.exhausted import Crowd, Crowded
from tests.stores.sql import bench as shared
from tests.stores.sql.costs import Counting
from tests.stores.sql.fixtures import *  # noqa: F403
from tests.stores.sql.queueing import WITHIN_S
from tests.stores.tables import ITEMS, TablesGround, mysql_tables

NewServer = Callable[..., MariadbServer]
NOW = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))"
LATER = f"{NOW} + 9000000"


def _at(entry: Entry, between: str = ",") -> str:
    guard, key = entry.guard.encode().hex(), entry.key.encode().hex()
    return f" guard = X'{guard}' {between} entry = X'{key}' "


class Bench(shared.Bench):
    """See the base class."""

    scheme = "mysql"
    first, steps = "first", 500
    tables = f"{DATABASE}.holdfast_"
    guard_tables = ("duties", "values", "tallies")
    tombs = (
        "SELECT HEX(id) FROM {tombs} UNION SELECT HEX(id) FROM {takes} WHERE buried"
        " UNION SELECT HEX(id) FROM {refresh_tombs}"
    )
    wire = MYSQL
    weather = True
    goodbye = (b"", HOLD_END)
    begins = f"{USER}\0".encode()
    pool = ThreadPort

    def proxied(self, proxy: Proxy, options: str = "") -> str:
        return f"{self.server.url_for(USER, PASSWORD, proxy.port)}?{options}".rstrip("?")

    def word(self, verb: str) -> bytes:
        if verb == "refresh_read":
            return b"FROM holdfast_refresh_values"
        newer = {"queue": QUEUE_VERSION, "refresh": REFRESH_VERSION}
        version = newer.get(verb.partition("_")[0], VERSION)
        return f"_{verb}_{version}(".encode()

    @contextlib.contextmanager
    def locked(self, name: str, server: Any = None) -> Iterator[None]:
        row = f"SELECT name FROM {DATABASE}.holdfast_lines WHERE name = %s FOR UPDATE"
        with (server or self.server).root(autocommit=False) as other, other.cursor() as cursor:
            cursor.execute(row, (name.encode(),))
            yield
            other.rollback()

    def sessions(self, server: Any, label: str) -> int:
        # A test's own statements run as root.
        look = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = %s AND db = %s"
        return int(server.ask(look, USER, DATABASE)[0][0])

    def labelled(self, server: Any, label: str, pool: int) -> str:
        return f"{server.url}?pool={pool}"

    def sweep(self, client: Client, ahead: float) -> None:
        ((now,),) = self.ask(f"SELECT {NOW}")
        guards: Any = client._ctx.store.guards  # type: ignore[attr-defined]
        sql = guards._calls.sweep(1_000_000, now + round(ahead * 1e6))
        run_sync(guards._port.call(sql, WITHIN_S))

    @contextlib.contextmanager
    def open(self, *statements: str) -> Iterator[Any]:
        """Statements that are executed and not yet committed; the procedures commit by themselves.

        They do what the procedure of the verb does.
        """
        with self.server.connect(autocommit=False) as link, link.cursor() as cursor:
            for sql in statements:
                cursor.execute(sql)
            yield link

    def open_begin(self, wish: Wish) -> contextlib.AbstractContextManager[Any]:
        mine = f"id = X'{wish.id}', fence = {NOW}, lease = {LATER}, ends = 2000000000"
        insert = f"INSERT INTO holdfast_refresh_duties SET {_at(wish.entry)}, {mine}"
        return self.open(f"{insert} ON DUPLICATE KEY UPDATE {mine}")

    def open_finish(self, finish: Finish) -> contextlib.AbstractContextManager[Any]:
        where, values = _at(finish.entry, "AND"), _at(finish.entry)
        fresh = f"fresh = {LATER}, stale = {LATER}, kept = {LATER}, cost = 1"
        insert = f"INSERT INTO holdfast_refresh_values SET {values}, version = {finish.fence}"
        return self.open(
            f"UPDATE holdfast_refresh_duties SET id = NULL, kept = {LATER} WHERE {where}",
            f"{insert}, data = X'{finish.data.hex()}', {fresh}",
        )

    def open_invalidate(self, wish: Wish) -> contextlib.AbstractContextManager[Any]:
        changed, where = "id = NULL, ended = ended + 1", _at(wish.entry, "AND")
        return self.open(f"UPDATE holdfast_refresh_duties SET {changed} WHERE {where}")


@pytest.fixture
def bench(shared_mariadb: MariadbServer) -> Bench:
    """The server that all tests share."""
    return Bench(shared_mariadb)


@pytest.fixture
def new_server(new_mariadb: NewServer) -> NewServer:
    """Makes separate servers, with these options."""
    return new_mariadb


@pytest.fixture
def alone(new_mariadb: NewServer) -> MariadbServer:
    """A server on which `Bench.sessions` counts no session of another test."""
    return new_mariadb()


@pytest.fixture
def damaged(new_mariadb: NewServer) -> Damaged:
    """A separate server whose rows are damaged."""
    server = new_mariadb()

    def ask(text: str, *values: object) -> list[tuple[Any, ...]]:
        with contextlib.closing(server.root()) as one, one.cursor() as cursor:
            cursor.execute("SET innodb_lock_wait_timeout = 2, sql_mode = 'STRICT_ALL_TABLES'")
            cursor.execute(text, values or None)
            return list(cursor.fetchall())

    ground = TablesGround(server.url, ask, DATABASE, mysql_tables(DATABASE))
    return Damaged(ground, items=ITEMS, usual=2, at_once=6)


@pytest.fixture
def crowded(new_mariadb: NewServer) -> Crowded:
    """A server for a dozen connections, and a crowd that takes all of them."""
    server = new_mariadb("max_connections=14", grants=("CREATE USER IF NOT EXISTS crowd@'%'",))
    place: dict[str, Any] = {"host": server.host, "port": server.port, "user": "crowd"}
    # One by one, a session might end between look and KILL.
    crowd = Crowd(
        lambda: pymysql.connect(**place),
        pymysql.OperationalError,
        lambda: server.ask("KILL USER 'app'"),
    )
    return Crowded(f"{server.url}?pool=2", crowd)


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counting]:
    """A server that counts statements, except those in procedures."""
    sent = (
        "SELECT CAST(argument AS CHAR) FROM mysql.general_log WHERE user_host NOT LIKE 'root%'"
        " AND command_type = 'Query'"
    )
    with MariadbServer(tmp_path_factory.mktemp("counted")) as one:
        one.ask("SET GLOBAL log_output = 'TABLE'")

        def since() -> list[str]:
            one.ask("SET GLOBAL general_log = 0")
            found = [text for (text,) in one.ask(sent)]
            one.ask("TRUNCATE mysql.general_log")
            one.ask("SET GLOBAL general_log = 1")
            return found

        yield Counting(one, since, rate=10.0)


def by_both(url: str, name: str = "x", timeout: float = 60) -> None:
    """Acquire a lock by both faces."""
    for face in FACES.values():

        async def main(face: Face = face) -> None:
            async with face.client(url) as client, client.lock(name, timeout=timeout):
                pass

        face.run(main, 90)


class Direct:
    """The verbs of a store for threads, called directly."""

    def __init__(self, url: str) -> None:
        module, parsed = find(url)
        self.store: Store = module.open_blocking(parsed)

    def claim(self, name: str, number: int, ttl: float = 30.0) -> Claim:
        """A claim; the same number gives the same claim."""
        return Claim(f"{number:032x}", Spec(name, Kind.LOCK, 1, 1, ttl, f"owner {number}"))

    def join(self, claim: Claim) -> Any:
        """Try to enter."""
        return run_sync(self.store.join(claim, False, WITHIN_S))

    def close(self) -> None:
        """End its connections."""
        run_sync(self.store.close())


@pytest.fixture
def direct(url: str, locks: Client) -> Iterator[Direct]:
    """A store of the shared server."""
    with contextlib.closing(Direct(url)) as one:
        yield one
