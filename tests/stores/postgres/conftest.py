"""The table that the shared tests need for PostgreSQL, and its servers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from holdfast import Client
from holdfast.core.guard.model import Finish, Wish
from holdfast.stores.postgres.blocking.port import ThreadPort
from holdfast.stores.postgres.calls import Call, bounded
from holdfast.stores.postgres.config import settings
from holdfast.stores.postgres.guard_calls import GuardCalls
from holdfast.stores.postgres.queue_calls import QueueCalls
from holdfast.testing.faces import Face
from holdfast.testing.faults import HOLD_REQUEST, Proxy, Step, aim
from holdfast.url import find
from tests.servers.postgres_server import PostgresServer
from tests.stores.damage import Damaged
from tests.stores.exhausted import Crowd, Crowded
from tests.stores.sql import bench as shared
from tests.stores.sql.costs import Counting
from tests.stores.sql.fixtures import *  # noqa: F403
from tests.stores.tables import ITEMS, TablesGround, postgres_tables

NewServer = Callable[..., PostgresServer]


class Bench(shared.Bench):
    """See the base class."""

    scheme = "postgresql"
    first, steps = "headexp", 600  # one call removes 300, or 600 if it settles the line twice
    tables = "holdfast."
    guard_tables = ("duties", "values", "waiters", "tallies")
    tombs = "SELECT id FROM {tombs}"
    acks_wait = False
    goodbye = (b"X\0\0\0\4", HOLD_REQUEST)
    begins = b"application_name"
    pool = ThreadPort

    def proxied(self, proxy: Proxy, options: str = "") -> str:
        place = f"postgres@127.0.0.1:{proxy.port}/postgres"
        # Without TLS, because the proxy must read the messages
        return f"postgresql://{place}?sslmode=disable&application_name=x&{options}".rstrip("&")

    def word(self, verb: str) -> bytes:
        # Each request contains the name of its prepared statement.
        return f"holdfast_{verb}\0".encode()

    @contextlib.contextmanager
    def locked(self, name: str, server: Any = None) -> Iterator[None]:
        row = "SELECT FROM holdfast.lines WHERE name = %s FOR UPDATE"
        with (server or self.server).connect() as other, other.transaction(force_rollback=True):
            other.execute(row, (name.encode(),))
            yield

    def sessions(self, server: Any, label: str) -> int:
        found = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        return int(server.ask(found, label)[0][0])

    def labelled(self, server: Any, label: str, pool: int) -> str:
        return str(server.url_for(options=f"pool={pool}&application_name={label}"))

    def sweep(self, client: Client, ahead: float) -> None:
        with self.server.connect(options="-c search_path=holdfast") as link:
            ends = round(ahead * 1e6)
            link.execute("SELECT refresh_sweep_4(clock_4() + %s, 1000000, 0)", [ends])

    @contextlib.contextmanager
    def open(self, verb: Call) -> Iterator[psycopg.Connection[Any]]:
        """A verb that is executed and not yet committed, so that others do not see its changes."""
        call = bounded(verb, 5.0)
        formats = list(call.verb.formats)
        with self.server.connect() as link:
            link.pgconn.exec_(b"BEGIN")
            values = [*call.values, *call.bound]
            link.pgconn.exec_params(call.verb.sql, values, param_formats=formats)
            yield link

    @property
    def guards(self) -> GuardCalls:
        """The verbs of refresh guards."""
        return GuardCalls(settings(find(self.server.url)[1]))

    @property
    def queues(self) -> QueueCalls:
        """The verbs of queues."""
        return QueueCalls(settings(find(self.server.url)[1]))

    def open_begin(self, wish: Wish) -> contextlib.AbstractContextManager[Any]:
        return self.open(self.guards.begin(wish, ""))

    def open_finish(self, finish: Finish) -> contextlib.AbstractContextManager[Any]:
        return self.open(self.guards.finish(finish))

    def open_invalidate(self, wish: Wish) -> contextlib.AbstractContextManager[Any]:
        return self.open(self.guards.invalidate([wish.entry]))


@pytest.fixture
def bench(shared_postgres: PostgresServer) -> Bench:
    """The server that all tests share."""
    return Bench(shared_postgres)


@pytest.fixture
def new_server(new_postgres: NewServer) -> NewServer:
    """Makes separate servers, with these lines of their configuration."""
    return new_postgres


@pytest.fixture
def alone(shared_postgres: PostgresServer) -> PostgresServer:
    """A server on which `Bench.sessions` counts no session of another test."""
    return shared_postgres


@pytest.fixture
def damaged(new_postgres: NewServer) -> Damaged:
    """A separate server whose rows are damaged."""
    server = new_postgres("max_connections = 300")

    def ask(text: str, *values: object) -> list[tuple[Any, ...]]:
        return server.ask(text, *values, options="-c lock_timeout=2s")

    ground = TablesGround(server.url, ask, "holdfast", postgres_tables())
    return Damaged(ground, items=ITEMS, usual=3, at_once=6)


@pytest.fixture
def crowded(new_postgres: NewServer) -> Crowded:
    """A server for a dozen connections, and a crowd that takes all of them."""
    server = new_postgres("max_connections = 16")
    server.ask("CREATE ROLE app LOGIN")
    server.ask("CREATE ROLE crowd LOGIN")
    server.ask("GRANT CREATE ON DATABASE postgres TO app")
    kick = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'"
    full = psycopg.OperationalError
    crowd = Crowd(lambda: server.connect(user="crowd"), full, lambda: server.ask(kick))
    return Crowded(server.url_for("app", options="pool=2"), crowd)


@pytest.fixture(scope="module")
def counting() -> Iterator[Counting]:
    """A server that counts statements and pages."""
    sent = (
        "SELECT query, calls FROM pg_stat_statements"
        " WHERE query LIKE 'SELECT%\"holdfast\".%' AND query NOT LIKE '%pg\\_%'"
    )
    with PostgresServer(
        "shared_preload_libraries = pg_stat_statements", "shared_buffers = 128MB"
    ) as one:
        one.ask("CREATE EXTENSION pg_stat_statements")

        def since() -> list[str]:
            found = one.ask(sent)
            one.ask("SELECT pg_stat_statements_reset()")
            return [text for text, calls in found for _ in range(calls)]

        yield Counting(one, since, rate=1.0)


def acknowledged(server: PostgresServer, commits: bool) -> None:
    """Let commits be acknowledged again, or wait for a standby that doesn't exist."""
    name = "synchronous_standby_names"
    server.ask(f"ALTER SYSTEM RESET {name}" if commits else f"ALTER SYSTEM SET {name} = 'nobody'")
    server.ask("SELECT pg_reload_conf()")


def asked_when_woken(face: Face, urls: tuple[str, str], name: str, turns: int) -> tuple[int, bool]:
    """The fewest requests of a waiter in one of these turns, and whether it can be woken.

    A client of the first URL holds the name and then releases it; one of the second URL waits.
    """
    asked: list[int] = []

    async def main() -> bool:
        async with face.client(urls[0]) as one, face.client(urls[1]) as two:
            for _ in range(turns):
                hold = await one.lock(name).acquire()
                steps: list[Step] = []

                async def work() -> None:
                    async with two.lock(name, timeout=20):
                        pass

                with aim(getattr(two, "_thing", two), steps.append):
                    waiter = face.start(work)
                    while not (await one.inspect(name))[0].waiters:
                        await face.sleep(0.01)
                    await face.sleep(0.2)
                    await hold.release()
                    await waiter.result(20)
                asked.append(steps.count(Step("turn", "before")))
            return bool(two.capabilities.wakes_waiters)

    woken = face.run(main, 90)
    return min(asked), woken
