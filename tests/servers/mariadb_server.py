"""A real MariaDB: a test starts it on a free port of the loopback, and ends it.

Its settings are options of ``mariadbd``, without the dashes::

    with MariadbServer(folder, "wait_timeout=2") as server:
        client = Client(server.url)
        server.kill()
        server.start()

It writes its log at every commit, as MariaDB does by default, so a killed server has lost nothing.
But the kernel decides when the log reaches the disk. If the tests run as root, the server runs as
an unprivileged user, because it refuses to run as root.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from holdfast.testing.surroundings import surroundings

from .process import Program, free_port, give, need, new_folder, unprivileged

#: The environment variable with the path of another server program.
ENV = "MARIADB_SERVER"
HOST = "127.0.0.1"
DATABASE = "holdfast"
#: A user with all rights in the database; `root`, through the socket, has all rights everywhere.
USER, PASSWORD = "app", "sesame"
#: The folders with the SQL of the system tables on Debian and other systems.
SHARES = ("/usr/share/mysql", "/usr/share/mariadb", "/usr/local/share/mariadb")
SYSTEM = tuple(
    f"mysql_{one}.sql" for one in ("system_tables", "performance_tables", "system_tables_data")
)
_SMALL = (
    *("innodb_log_file_size=24M", "innodb_buffer_pool_size=24M", "key_buffer_size=64K"),
    *("innodb_data_file_path=ibdata1:4M:autoextend", "innodb_autoextend_increment=1"),
    *("innodb_temp_data_file_path=ibtmp1:1M:autoextend", "aria_pagecache_buffer_size=1M"),
    *("table_open_cache=200", "max_connections=300", "performance_schema=OFF"),
)
BOOT_S = 60.0


def program() -> str:
    """The server's program; without one the test is skipped, or failed in CI."""
    return need(os.environ.get(ENV) or "mariadbd", "/usr/sbin/mariadbd")


def own_folder() -> Path:
    return new_folder("mariadb")


@functools.cache
def template() -> Path:
    """A data folder with an empty database; the data of each server is a copy of it."""
    share = next((one for one in map(Path, SHARES) if (one / SYSTEM[0]).exists()), None)
    assert share is not None, f"no {SYSTEM[0]} in {SHARES}"
    place = own_folder()
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    words = ["create database mysql;", "use mysql;", "SET @auth_root_socket=NULL;"]
    words += [(share / one).read_text(encoding="utf-8") for one in SYSTEM]
    words += [f"create database {DATABASE};", ""]
    options = ["no-defaults", "bootstrap", f"datadir={place}", "skip-networking", *_SMALL]
    options += ["innodb_flush_log_at_trx_commit=0", "innodb_flush_method=nosync"]
    # A starting server removes the temporary tables in the folder where it would put its own.
    options.append(f"tmpdir={place}")
    done = subprocess.run(
        [*unprivileged(), program(), *(f"--{one}" for one in options)],
        input="\n".join(words),
        text=True,
        capture_output=True,
        timeout=BOOT_S,
        env=surroundings(),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return place


#: The error number after the server has ended an idle connection; a clock step can cause it.
GONE_AWAY = 2006


class MariadbServer(Program):
    """One server, started when it is made.

    ``settings``: options as for ``mariadbd``. ``grants``: SQL statements that make more users. They
    run as root at each start. With ``users`` False they do not run, because the users exist
    already. ``data``: another data folder to begin with.
    """

    def __init__(
        self,
        folder: Path,
        *settings: str,
        port: int = 0,
        grants: tuple[str, ...] = (),
        data: Path | None = None,
        users: bool = True,
    ) -> None:
        super().__init__(folder)
        self._program = program()
        self.host = HOST
        self.port = port or free_port()
        self.place = own_folder()
        self.data = self.place / "data"
        self.socket = self.place / "socket"
        self._settings = settings
        self._grants = grants
        self._users = users
        self._admin: Connection[Any] | None = None
        shutil.copytree(data or template(), self.data)
        for one in [self.data, *self.data.rglob("*")]:
            give(one)
        self.start()

    # -- address ---------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return self.url_for(USER, PASSWORD)

    def url_for(self, user: str, password: str, port: int = 0, scheme: str = "mysql") -> str:
        return f"{scheme}://{user}:{password}@{self.host}:{port or self.port}/{DATABASE}"

    # -- start and end ---------------------------------------------------------------------

    def start(self) -> None:
        first = self.place / "first.sql"
        words = [
            f"CREATE USER IF NOT EXISTS {USER}@'%' IDENTIFIED BY '{PASSWORD}'",
            f"GRANT ALL ON {DATABASE}.* TO {USER}@'%'",
            *self._grants,
        ]
        first.write_text("".join(f"{one};\n" for one in words), encoding="utf-8")
        give(first)
        options = [
            *("no-defaults", f"datadir={self.data}", f"tmpdir={self.place}"),
            *(f"socket={self.socket}", f"port={self.port}", f"bind-address={self.host}"),
            *([f"init-file={first}"] if self._users else []),
            *("skip-name-resolve", "innodb_flush_log_at_trx_commit=2"),
            *("innodb_flush_method=nosync", *_SMALL, *self._settings),
        ]
        self._forget()
        command = [*unprivileged(), self._program, *(f"--{one}" for one in options)]
        self.launch(command, self._answers)

    def restart(self) -> None:
        """End it with SIGTERM and start it again at the same port, with its data."""
        self.terminate()
        self.start()

    def _answers(self) -> bool:
        # PyMySQL leaks a socket when no server listens at the other end.
        with socket.socket(socket.AF_UNIX) as one:
            try:
                one.connect(str(self.socket))
            except OSError:
                return False
        try:
            self.ask("SELECT 1")
        except pymysql.MySQLError:
            return False
        return True

    # -- requests --------------------------------------------------------------------------

    def connect(self, **options: Any) -> Connection[Any]:
        """A new PyMySQL connection by TCP, as a user makes one; the caller closes it."""
        mine = {"host": self.host, "port": self.port, "user": USER, "password": PASSWORD}
        return pymysql.connect(**{**mine, "database": DATABASE, **options})

    def root(self, **options: Any) -> Connection[Any]:
        """A new connection as root through the socket; the caller closes it."""
        mine: dict[str, Any] = {"unix_socket": str(self.socket), "user": "root"}
        return pymysql.connect(**{**mine, "autocommit": True, "connect_timeout": 5, **options})

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement as root; return all its rows."""
        kept = self._admin is not None
        if self._admin is None:
            self._admin = self.root()
        try:
            with self._admin.cursor() as cursor:
                cursor.execute(sql, values or None)
                return list(cursor.fetchall())
        except pymysql.err.OperationalError as wrong:
            self._forget()
            if kept and wrong.args[0] == GONE_AWAY:
                return self.ask(sql, *values)
            raise

    def counts(self, *names: str) -> dict[str, int]:
        """Counters of the whole server, such as ``Questions``, the number of statements so far."""
        rows = self.ask("SHOW GLOBAL STATUS")
        return {name: int(value) for name, value in rows if name in names}

    def _forget(self) -> None:
        if self._admin is not None:
            with contextlib.suppress(pymysql.MySQLError):
                self._admin.close()
            self._admin = None

    def close(self) -> None:
        self._forget()
        self.kill()
        shutil.rmtree(self.place, ignore_errors=True)
