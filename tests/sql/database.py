"""A separate database for these tests in a real PostgreSQL or MariaDB, and connections to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg

from holdfast import NotAcquired
from holdfast.sql import row_lock
from tests.servers.mariadb_server import MariadbServer
from tests.servers.postgres_server import PostgresServer

NAME = "orders"
USER, PASSWORD = "limited", "sesame"
LEVELS = ("READ COMMITTED", "REPEATABLE READ")


class Database:
    """The methods that both kinds of database share.

    Each kind also has ``connect(**options)``, a connection of the driver, which begins a
    transaction with its first statement; ``url(user)`` for that user, or for one with all rights;
    and the number of ``connections()``, open ``transactions()`` and ``waiting()`` ones.
    """

    word: str
    server: Any

    def ask(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement with all rights in the database, commit, and return its rows."""
        with self.open() as connection:
            cursor = connection.cursor()
            cursor.execute(text, values or None)
            rows = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
            return rows

    @contextmanager
    def open(self, level: str = "", **options: Any) -> Iterator[Any]:
        """A connection with this isolation level; it is rolled back at the end."""
        with closing(self.connect(**options)) as connection:
            if level:
                self.set_level(connection, level)
            try:
                yield connection
            except BaseException:
                with suppress(Exception):  # a thread may still wait in it
                    self.kill(connection)
                raise
            connection.rollback()

    def named(self, user: str) -> str:
        """The user as a GRANT names it."""
        return user

    def grant(self, text: str) -> None:
        """Run a GRANT with the rights for it."""
        self.ask(text)

    def count(self, table: str = "holdfast_rows") -> int:
        """The number of rows of a table."""
        return int(self.ask(f"SELECT count(*) FROM {table}")[0][0])


class PostgresDatabase(Database):
    """A database in a PostgreSQL."""

    word = "postgresql"

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        server.ask(f"CREATE DATABASE {NAME}")

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        mine = {"host": self.server.host, "port": self.server.port, "user": "postgres"}
        return psycopg.connect(**{**mine, "dbname": NAME, **options})

    def set_level(self, connection: Any, level: str) -> None:
        connection.isolation_level = getattr(psycopg.IsolationLevel, level.replace(" ", "_"))

    def url(self, user: str = "") -> str:
        return str(self.server.url_for(user or "postgres", NAME))

    def kill(self, connection: Any) -> None:
        self.server.ask("SELECT pg_terminate_backend(%s)", connection.info.backend_pid)

    def kill_others(self, connection: Any) -> None:
        for (one,) in self._backends("pid <> %s", connection.info.backend_pid):
            self.server.ask("SELECT pg_terminate_backend(%s)", one)

    def connections(self) -> int:
        return len(self._backends("true"))

    def waiting(self) -> int:
        return len(self._backends("wait_event_type = 'Lock'"))

    def transactions(self) -> int:
        return len(self._backends("state <> 'idle'"))

    def _backends(self, where: str, *values: Any) -> list[tuple[int]]:
        text = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND "
        return self.server.ask(text + where, NAME, *values)

    def new_user(self, user: str, password: str) -> None:
        self.ask(f"CREATE ROLE {user} LOGIN PASSWORD '{password}'")


class MariadbDatabase(Database):
    """A database in a MariaDB."""

    word = "mysql"

    def __init__(self, server: MariadbServer) -> None:
        self.server = server
        server.ask(f"CREATE DATABASE {NAME}")
        server.ask(f"GRANT ALL ON {NAME}.* TO app@'%'")

    def connect(self, **options: Any) -> Any:
        return self.server.connect(**{"database": NAME, **options})

    def set_level(self, connection: Any, level: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")

    def url(self, user: str = "") -> str:
        address = self.server.url_for(user or "app", PASSWORD)
        return str(address).rpartition("/")[0] + f"/{NAME}"

    def kill(self, connection: Any) -> None:
        self.server.ask(f"KILL {connection.thread_id()}")

    def kill_others(self, connection: Any) -> None:
        for one in self._threads():
            if one != connection.thread_id():
                self.server.ask(f"KILL {one}")

    def connections(self) -> int:
        return len(self._threads())

    def _threads(self) -> list[int]:
        text = "SELECT id FROM information_schema.processlist WHERE db = %s"
        return [one for (one,) in self.server.ask(text, NAME)]

    def waiting(self) -> int:
        return self._status().count("LOCK WAIT ")

    def transactions(self) -> int:
        return self._status().count(", ACTIVE ")

    def _status(self) -> str:
        """The engine's own report; its tables in information_schema can be outdated."""
        said = str(self.server.ask("SHOW ENGINE INNODB STATUS")[0][2])
        return said.rpartition("LIST OF TRANSACTIONS")[2]

    def new_user(self, user: str, password: str) -> None:
        self.server.ask(f"CREATE USER {user}@'%' IDENTIFIED BY '{password}'")

    def named(self, user: str) -> str:
        return f"{user}@'%'"

    def grant(self, text: str) -> None:
        self.server.ask(text.replace(" ON ", f" ON {NAME}."))


def run(connection: Any, text: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement in the connection's transaction; return its rows."""
    cursor = connection.cursor()
    cursor.execute(text, values or None)
    return list(cursor.fetchall()) if cursor.description else []


def refused(connection: Any, name: str, timeout: float = 0) -> bool:
    """Return whether another transaction holds the name."""
    try:
        row_lock(connection, name, timeout=timeout)
    except NotAcquired:
        return True
    return False
