"""A real PostgreSQL: a test starts it on a free port of the loopback, and ends it.

Its settings are lines of a ``postgresql.conf``::

    with PostgresServer("max_connections = 20", fsync=True) as server:
        client = Client(server.url)
        server.crash()

Without ``fsync=True`` it does not wait for the disk. If the tests run as root, the server runs as
an unprivileged user, because it refuses to run as root. Its folder is in the memory file system, or
in the folder for temporary files.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import psycopg

from holdfast.testing.surroundings import surroundings

from .process import Program, free_port, need, new_folder, unprivileged, until

HOST = "127.0.0.1"
#: The command of `shmctl` that removes a segment.
IPC_RMID = 0
#: Settings for a small and quick server. The settings of a test follow them, and take precedence.
SETTINGS = (
    f"listen_addresses = '{HOST}'",
    "shared_buffers = 32MB",
    "dynamic_shared_memory_type = mmap",
    "max_wal_size = 256MB",
    "log_min_messages = warning",
    "log_line_prefix = '%m %p %u '",
    "timezone = UTC",
)


def program(name: str) -> str:
    """A program of PostgreSQL; without it the test is skipped, or failed in CI."""
    found = Path("/usr/lib/postgresql").glob("*/bin")
    versions = sorted(found, key=lambda at: float(at.parent.name))
    return need(*(str(at / name) for at in reversed(versions)), name)


@functools.cache
def _template() -> Path:
    """A cluster made by ``initdb``; all other clusters are copies of it, which is quicker."""
    folder = new_folder("cluster")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    subprocess.run(
        [
            *(*unprivileged(), program("initdb"), "--auth=trust", "--username=postgres"),
            *("--encoding=UTF8", "--locale=C", "--no-sync", f"--pgdata={folder / 'data'}"),
        ],
        check=True,
        capture_output=True,
        cwd=folder,
        env=surroundings(),
    )
    return folder / "data"


class PostgresServer(Program):
    """One server, started when it is made; its superuser is ``postgres``, without a password.

    ``settings``: lines of its ``postgresql.conf``. ``fsync``: whether it waits for the disk.
    ``standby_of``: the primary that it follows, asynchronously.
    """

    def __init__(
        self, *settings: str, fsync: bool = False, standby_of: PostgresServer | None = None
    ) -> None:
        super().__init__(new_folder("postgres"))
        self.host = HOST
        self.port = free_port()
        self.data = self.folder / "data"
        if standby_of is None:
            subprocess.run(
                ["cp", "-a", str(_template()), str(self.data)], check=True, env=surroundings()
            )
        else:
            self._follow(standby_of)
        lines = [
            *SETTINGS,
            f"unix_socket_directories = '{self.folder}'",
            f"port = {self.port}",
            f"fsync = {'on' if fsync else 'off'}",
            *settings,
        ]
        with open(self.data / "postgresql.conf", "a") as config:
            config.write("\n".join(["", *lines, ""]))
        self.start()

    def _follow(self, primary: PostgresServer) -> None:
        where = f"host={primary.host} port={primary.port} user=postgres"
        subprocess.run(
            [
                *(*unprivileged(), program("pg_basebackup"), f"--pgdata={self.data}"),
                *(f"--dbname={where}", "--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
            ],
            check=True,
            capture_output=True,
            cwd=self.folder,
            env=surroundings(),
        )

    # -- address ---------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return self.url_for()

    def url_for(self, user: str = "postgres", database: str = "postgres", options: str = "") -> str:
        """Its TCP address for this user; ``options`` is the query part of the URL."""
        query = f"?{options}" if options else ""
        return f"postgresql://{user}@{self.host}:{self.port}/{database}{query}"

    @property
    def unix_url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}&port={self.port}"

    # -- start and end ---------------------------------------------------------------------

    def start(self) -> None:
        command = [*unprivileged(), program("postgres"), "-D", str(self.data)]
        self.launch(command, self._answers)

    def _answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            self.connect(connect_timeout=2).close()
            return True
        return False

    def crash(self) -> None:
        """Kill all its processes (SIGKILL), as a power cut would, and start it again."""
        self.kill()
        until(self._gone, "its processes are gone")
        self.start()

    def restart(self) -> None:
        self.signal(signal.SIGINT)  # "fast": connections are ended, everything is written
        self._process_ends()
        until(self._gone, "its processes are gone")
        self.start()

    def _process_ends(self) -> None:
        assert self._process is not None
        self._process.wait(20.0)

    def _gone(self) -> bool:
        """Return whether none of its processes works in the cluster's folder."""
        return not any(_works_in(one, self.data) for one in Path("/proc").glob("[0-9]*"))

    @property
    def segment(self) -> int | None:
        """The id of its System V shared memory, which outlives a killed server; None if it ended
        by itself. Without free ids (Linux has 4,096), no server starts on this machine."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            return int(lines[6].split()[1])
        except (FileNotFoundError, IndexError):  # the second: killed while it started
            return None

    # -- requests --------------------------------------------------------------------------

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """A new psycopg connection with autocommit; the caller closes it."""
        given = {"host": self.host, "port": self.port, "user": "postgres", "dbname": "postgres"}
        return psycopg.connect(**{**given, **options}, autocommit=True)

    def ask(self, query: str, *values: object, **options: Any) -> list[tuple[Any, ...]]:
        """Run one statement as the superuser; return its rows."""
        with self.connect(**options) as connection:
            found = connection.execute(query, values or None)  # type: ignore[call-overload]
            return list(found.fetchall()) if found.description else []

    def close(self) -> None:
        self.kill()
        with contextlib.suppress(AssertionError):
            until(self._gone, "its processes are gone")
        segment = self.segment
        if segment is not None:
            ctypes.CDLL(None).shmctl(segment, IPC_RMID, None)
        shutil.rmtree(self.folder, ignore_errors=True)


def _works_in(process: Path, folder: Path) -> bool:
    """Return whether the process exists and works in this folder."""
    try:
        return os.readlink(process / "cwd") == str(folder)
    except OSError:
        return False
