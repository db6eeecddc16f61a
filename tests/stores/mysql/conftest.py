"""Clients, stores, names and a proxy for the tests of MySQL and MariaDB."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from holdfast import Client
from holdfast.core.model import Claim, Kind, LineRecord, Spec
from holdfast.core.ports import Store
from holdfast.runtime.blocking import run_sync
from holdfast.testing.faults import MYSQL, Proxy
from holdfast.url import find
from tests.servers.mariadb_server import PASSWORD, USER, MariadbServer
from tests.servers.process import until

MakeClient = Callable[..., Client]
LIMIT_S = 90.0
#: Maximum seconds for a request of a test.
WITHIN_S = 20.0


@pytest.fixture
def url(mariadb_url: str) -> str:
    """The URL for the tests that several stores share."""
    return mariadb_url


@pytest.fixture
def new_client(mariadb_url: str) -> Iterator[MakeClient]:
    """Makes clients, of the shared server unless a URL is given, and closes them after the test."""
    made: list[Client] = []

    def make(url: str = "", **options: Any) -> Client:
        made.append(Client(url or mariadb_url, **options))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def locks(new_client: MakeClient) -> Client:
    """A client of the shared server that has created the tables."""
    client = new_client(label="ours")
    client.inspect("nobody")
    return client


@pytest.fixture
def proxy(shared_mariadb: MariadbServer) -> Iterator[Proxy]:
    """A proxy between a client and the shared server."""
    with Proxy(shared_mariadb.host, shared_mariadb.port, MYSQL) as one:
        yield one


@pytest.fixture
def by_proxy(
    shared_mariadb: MariadbServer, proxy: Proxy, locks: Client, new_client: MakeClient
) -> Client:
    """A client behind the proxy that has already connected."""
    client = new_client(shared_mariadb.url_for(USER, PASSWORD, proxy.port))
    client.lock(f"warm:{proxy.port}").acquire().release()
    return client


@pytest.fixture
def line(locks: Client) -> Callable[[str], LineRecord | None]:
    """A function that returns the line of a name, or None."""

    def look(name: str) -> LineRecord | None:
        found = locks.inspect(name, exact=True)
        return found[0] if found else None

    return look


class Direct:
    """The verbs of a store for threads, called directly."""

    def __init__(self, url: str) -> None:
        module, parsed = find(url)
        self.store: Store = module.open_blocking(parsed)
        self._ids = 0

    def claim(self, name: str, number: int, ttl: float = 30.0, permits: int = 1) -> Claim:
        """A claim; the same number gives the same claim."""
        kind = Kind.LOCK if permits == 1 else Kind.SEMAPHORE
        return Claim(f"{number:032x}", Spec(name, kind, permits, 1, ttl, f"owner {number}"))

    def join(self, claim: Claim, wait: bool = False) -> Any:
        """Enter the line."""
        return run_sync(self.store.join(claim, wait, WITHIN_S))

    def close(self) -> None:
        """End its connections."""
        run_sync(self.store.close())


@pytest.fixture
def direct(mariadb_url: str, locks: Client) -> Iterator[Direct]:
    """A store of the shared server."""
    one = Direct(mariadb_url)
    yield one
    one.close()


def eventually(true: Callable[[], Any], within: float = 10.0) -> Any:
    """Wait until ``true`` returns a true value, and return it."""
    return until(true, "it came true", within)


def play(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test under asyncio with a time limit."""

    async def bounded() -> None:
        async with asyncio.timeout(LIMIT_S):
            await main()

    asyncio.run(bounded())
