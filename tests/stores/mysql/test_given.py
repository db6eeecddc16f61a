"""An SQLAlchemy engine in place of a URL: holdfast uses it only to open connections."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from holdfast import AsyncClient, Client, ConfigError, LockLost, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faces import FACES
from holdfast.testing.faults import Proxy
from tests.servers.mariadb_server import PASSWORD, USER, MariadbServer

lag.watch()
#: Settings that would do harm: old snapshots, and transactions that are never ended.
HARM = {"isolation_level": "REPEATABLE READ", "connect_args": {"autocommit": False}}
SESSION = "SELECT @@autocommit, @@tx_isolation"


def of(url: str, driver: str = "pymysql") -> str:
    """The URL in the form for an engine of SQLAlchemy."""
    return url.replace("mysql:", f"mysql+{driver}:").replace("mariadb:", f"mariadb+{driver}:")


@pytest.mark.usual(2)
@pytest.mark.parametrize(
    "face, driver, make",
    [("sync", "pymysql", sqlalchemy.create_engine), ("aio", "asyncmy", create_async_engine)],
    ids=["sync", "aio"],
)
def test_an_engine_is_taken_and_its_pool_left_alone(
    face: str, driver: str, make: Any, url: str, own_name: str, locks: Client
) -> None:
    one = FACES[face]

    async def main() -> None:
        engine = make(of(url, driver), pool_size=1, max_overflow=0)
        async with one.client(engine) as client, client.lock(own_name) as hold:
            # Then it uses the same line as a client with a URL
            (line,) = await one.outside(lambda: locks.inspect(own_name))
            assert line.claims[0].fence == hold.fence
            assert "sesame" not in repr(client)
        assert engine.pool.checkedout() == engine.pool.checkedin() == 0

    one.run(main, 60)


def test_holdfast_uses_its_own_isolation_and_transactions(url: str, own_name: str) -> None:
    engine = sqlalchemy.create_engine(of(url), **HARM)
    with Client(engine) as client:
        client.lock(own_name).acquire().release()
        store: Any = client._ctx.store
        link = store._port._idle[-1]
        assert link.rows(SESSION, 5.0) == ((1, "READ-COMMITTED"),)

    async def main() -> None:
        engine = create_async_engine(of(url, "asyncmy"), **HARM)
        async with AsyncClient(engine) as client:
            await (await client.lock(own_name).acquire()).release()
            store: Any = client._ctx.store
            assert await store._port._idle[-1].ask(SESSION, 5.0) == ((1, "READ-COMMITTED"),)

    asyncio.run(main())


def test_it_connects_as_the_engine_does(shared_mariadb: MariadbServer, own_name: str) -> None:
    # Given connection settings that a URL does not contain
    server = shared_mariadb
    made: list[object] = []

    def creator() -> Any:
        made.append(server.connect())
        return made[-1]

    place = f"mysql+pymysql://{USER}@{server.host}:{server.port}/holdfast"
    for engine in (
        sqlalchemy.create_engine("mysql+pymysql://", creator=creator),
        sqlalchemy.create_engine(place, connect_args={"password": PASSWORD}),
    ):
        with Client(engine) as client, client.lock(own_name):
            pass
    assert made


@pytest.mark.parametrize("lost", [False, True], ids=["there", "lost"])
def test_a_new_connection_decides_nothing_about_the_hold(
    lost: bool, shared_mariadb: MariadbServer, proxy: Proxy, own_name: str, locks: Client
) -> None:
    # Given a hold of a client whose engine connects again by itself
    url = of(shared_mariadb.url_for(USER, PASSWORD, proxy.port))
    engine = sqlalchemy.create_engine(url, pool_pre_ping=True)
    with Client(engine) as client:
        hold = client.lock(own_name).acquire()
        # When its connection is cut, and in one case its claim is gone
        if lost:
            assert locks.break_(own_name, hold.fence)
        proxy.reset()
        time.sleep(0.1)
        with pytest.raises(StoreUnavailable):
            hold.extend()
        # Then the claim decides, not the connection
        if lost:
            with pytest.raises(LockLost):
                hold.extend()
            assert hold.lost is not None
        else:
            hold.extend()
            hold.check()
            assert locks.inspect(own_name)[0].claims[0].fence == hold.fence
            assert hold.release()


def test_a_silent_server_costs_no_more_time_than_was_given(own_name: str) -> None:
    # Given a server that accepts connections and never sends anything
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        engine = sqlalchemy.create_engine(f"mysql+pymysql://app@127.0.0.1:{port}/x")
        with Client(engine) as client:
            begun = boottime()
            with pytest.raises(StoreUnavailable):
                client.lock(own_name).acquire(timeout=0.3)
            took = boottime() - begun - lag.since(begun)
    assert took < 2.0
    # And when the server is gone, no thread of the attempts is left
    end = time.monotonic() + 20
    while any(one.name == "holdfast-connect" for one in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_other_kind_of_engine_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="AsyncClient those for asyncmy"):
        Client(create_async_engine(of(url, "asyncmy")))  # type: ignore[arg-type]

    async def main() -> None:
        with pytest.raises(ConfigError, match="Client takes those for PyMySQL"):
            AsyncClient(sqlalchemy.create_engine(of(url)))

    asyncio.run(main())


def test_a_creator_of_other_connections_is_refused(shared_mariadb: MariadbServer) -> None:
    engine = sqlalchemy.create_engine(
        "mysql+pymysql://", creator=lambda: Other(shared_mariadb.connect())
    )
    with Client(engine) as client, pytest.raises(ConfigError, match="not of PyMySQL"):
        client.lock("x").acquire()


def test_an_error_of_an_engine_is_raised_as_store_unavailable(own_name: str) -> None:
    def creator() -> Any:
        raise LookupError("no secret today")

    async def nothing() -> Any:
        creator()

    engine = sqlalchemy.create_engine("mysql+pymysql://", creator=creator)
    with Client(engine) as client, pytest.raises(StoreUnavailable, match="no secret today"):
        client.lock(own_name).acquire(timeout=0.1)

    async def main() -> None:
        engine = create_async_engine("mysql+asyncmy://", async_creator=nothing)
        async with AsyncClient(engine) as client:
            with pytest.raises(StoreUnavailable, match="no secret today"):
                await client.lock(own_name).acquire(timeout=0.1)

    asyncio.run(main())


class Other:
    """A connection of another driver, which works as a PyMySQL connection does."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
