"""A PgBouncer before a PostgreSQL: it assigns a server session to each transaction."""

from __future__ import annotations

import contextlib
import shutil

import psycopg

from .postgres_server import PostgresServer
from .process import Program, free_port, give, need, new_folder, unprivileged


class PgBouncer(Program):
    """One pooler, started when it is made, with few server sessions."""

    def __init__(
        self, server: PostgresServer, mode: str = "transaction", sessions: int = 5
    ) -> None:
        super().__init__(new_folder("pgbouncer"))
        self.host = server.host
        self.port = free_port()
        config = self.folder / "pgbouncer.ini"
        config.write_text(
            f"[databases]\n* = host={server.host} port={server.port} user=postgres\n"
            "[pgbouncer]\n"
            f"listen_addr = {self.host}\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = any\npool_mode = {mode}\ndefault_pool_size = {sessions}\n"
            f"pidfile = {self.folder / 'pid'}\n"
        )
        give(config)
        command = [*unprivileged(), need("pgbouncer", "/usr/sbin/pgbouncer"), str(config)]
        self.launch(command, self._answers)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{self.host}:{self.port}/postgres"

    def _answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(self.url, connect_timeout=2).close()
            return True
        return False

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
