"""A connection that fails, or takes longer than its verb has time, costs the next verb nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import CHUNKS, HOLD_REQUEST, MYSQL, Proxy, delay_request
from tests.servers.mariadb_server import PASSWORD, USER, MariadbServer
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until

POOL = 3
#: Seconds that connecting takes, and seconds that a verb has.
SLOW_S, LITTLE_S = 1.0, 0.4
LONG_S = 5.0


class Slow(NamedTuple):
    """A server behind a proxy. ``begins``: a part of the first message of a client."""

    proxy: Proxy
    url: str
    begins: bytes


@contextmanager
def postgres(server: PostgresServer, name: str) -> Iterator[Slow]:
    with Proxy(server.host, server.port, CHUNKS) as proxy:
        place = f"postgres@127.0.0.1:{proxy.port}/postgres"
        options = f"sslmode=disable&pool={POOL}&application_name={name}"
        yield Slow(proxy, f"postgresql://{place}?{options}", b"application_name")


@contextmanager
def mariadb(server: MariadbServer, name: str) -> Iterator[Slow]:
    with Proxy(server.host, server.port, MYSQL) as proxy:
        url = f"{server.url_for(USER, PASSWORD, proxy.port)}?pool={POOL}"
        yield Slow(proxy, url, f"{USER}\0".encode())


@pytest.fixture(params=[postgres, mariadb], ids=["postgres", "mariadb"])
def slow(request: pytest.FixtureRequest, own_name: str) -> Iterator[Slow]:
    server = request.getfixturevalue(f"shared_{request.param.__name__}")
    with Client(server.url) as client:  # it makes the tables
        client.inspect(own_name)
    with request.param(server, own_name) as one:
        yield one


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_verbs_with_little_time_get_through_though_connecting_takes_more(
    slow: Slow, own_name: str, face: Face
) -> None:
    async def main() -> None:
        async with face.client(slow.url) as client:
            slow.proxy.arm(slow.begins, delay_request(SLOW_S), 1000)
            store = client._ctx.store  # because a client carries on for longer what it undoes
            found, tries = None, 0
            while found is None:
                tries += 1
                try:
                    found = await store.inspect(own_name, LITTLE_S, True)
                except StoreUnavailable:
                    assert tries < 15
            # Then the first attempt found no connection, and a later one did
            assert tries > 1
            assert slow.proxy.connections <= POOL

    face.run(main, 60.0)


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_what_is_half_made_ends_with_its_client(slow: Slow, own_name: str, face: Face) -> None:
    async def main() -> None:
        async with face.client(slow.url) as client:
            begin = slow.proxy.arm(slow.begins, HOLD_REQUEST, 1000)
            with pytest.raises(StoreUnavailable):
                await client.lock(own_name).acquire(timeout=0)
            begin.wait()
        # When the connection is made after the client was closed
        begin.let_go()

    face.run(main, 60.0)
    until(lambda: not slow.proxy.connections, "no session is left")


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_connections_that_could_not_be_made_take_no_place(
    slow: Slow, own_name: str, face: Face
) -> None:
    async def main() -> None:
        async with face.client(slow.url) as client:
            store = client._ctx.store
            slow.proxy.refuse()
            # When ``POOL`` verbs with little time and ``POOL`` verbs with much time are refused
            for within in (LITTLE_S, LONG_S) * POOL:
                with pytest.raises(StoreUnavailable):
                    await store.inspect(own_name, within, True)
            slow.proxy.heal()
            # Then the next verb finds a free place in the pool
            assert await store.inspect(own_name, LONG_S, True) == []

    face.run(main, 60.0)
