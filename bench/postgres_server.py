"""A PostgreSQL of the run's own: started on a free port of the loopback, and ended with the run.

It waits for its disk, so that figures are those of a server that loses nothing. As it refuses to
run as root, there it runs as an unprivileged user.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from . import machine
from .servers import HOST, Absent

#: The variable with the address of the server of this run.
ADDRESS = "HOLDFAST_BENCH_POSTGRES"
_READY_S = 20.0
_USERS = ("postgres", "nobody")


def postgres_url(_place: Path | None = None) -> str:
    """The address of the server of this run; all folders share it."""
    return os.environ[ADDRESS]


def connections() -> int:
    """How many connections the server has, without the one that asks."""
    import psycopg

    with psycopg.connect(postgres_url()) as one:
        row = one.execute(
            "SELECT count(*) - 1 FROM pg_stat_activity WHERE backend_type = 'client backend'"
        ).fetchone()
    return int(row[0]) if row else 0


def _program(name: str) -> str:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda at: at.parent.name)
    for at in reversed(folders):
        if (at / name).exists():
            return str(at / name)
    found = shutil.which(name)
    if found is None:
        raise Absent(f"no {name} of PostgreSQL here; ./dev test installs it where it may")
    return found


def _user() -> pwd.struct_passwd:
    for name in _USERS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise Absent(f"none of the users {', '.join(_USERS)} is known here")


def _unprivileged(folder: Path) -> Sequence[str]:
    """What to write before a command; the folder is given to that user."""
    setpriv = shutil.which("setpriv")
    with_us = [setpriv, "--pdeathsig=KILL"] if setpriv else []
    if os.getuid():
        return with_us
    if setpriv is None:
        raise Absent("no setpriv on the PATH, and PostgreSQL doesn't run as root")
    user = _user()
    os.chown(folder, user.pw_uid, user.pw_gid)
    who = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return [setpriv, *who, "--pdeathsig=KILL"]


@contextlib.contextmanager
def postgres_server() -> Generator[str]:
    """Start it; yields what it is, in words."""
    import psycopg

    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-postgres-"))
    server = None
    before = os.environ.get(ADDRESS, "")
    try:
        server, port = _started(folder)
        os.environ[ADDRESS] = f"postgresql://postgres@{HOST}:{port}/postgres"
        machine.companions.add(server.pid)
        with psycopg.connect(postgres_url()) as one:
            row = one.execute("SHOW server_version").fetchone()
        yield f"PostgreSQL {str(row[0]).split()[0] if row else ''} on the loopback, durable"
    finally:
        os.environ[ADDRESS] = before
        if server is not None:
            machine.companions.discard(server.pid)
            server.kill()
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _started(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    import psycopg

    data, before, port = folder / "data", _unprivileged(folder), _free_port()
    make = [_program("initdb"), "--auth=trust", "--username=postgres", "--locale=C"]
    subprocess.run(
        [*before, *make, "--encoding=UTF8", "-D", str(data)],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    settings = [f"port={port}", f"listen_addresses={HOST}", f"unix_socket_directories={folder}"]
    options = [word for one in settings for word in ("-c", one)]
    with (folder / "log").open("ab") as log:
        server = subprocess.Popen(
            [*before, _program("postgres"), "-D", str(data), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=folder,
        )
    end = time.monotonic() + _READY_S
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(host=HOST, port=port, user="postgres", connect_timeout=2).close()
            return server, port
        time.sleep(0.02)
    server.kill()
    server.wait()
    raise Absent(f"PostgreSQL doesn't start: {(folder / 'log').read_text(errors='replace')[-500:]}")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        port: int = one.getsockname()[1]
        return port
