"""Clients, names and a proxy for the tests of the ZooKeeper store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from holdfast import Client, NotAcquired, StoreUnavailable
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import Proxy
from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.zookeeper.frames import ZOOKEEPER

MakeClient = Callable[..., Client]
#: The session in seconds of tests that end with a session: as short as a busy machine allows.
SHORT_S = 2.0
#: Options for the recipe without lines; foreign nodes of its tests are under a separate path.
SIMPLE = "recipe=simple&prefix=simple"


@pytest.fixture
def short_url(zookeeper_url: str) -> str:
    """The URL of the server that all tests share, for sessions that end soon."""
    return f"{zookeeper_url}?session={SHORT_S}"


@pytest.fixture
def new_client(zookeeper_url: str) -> Iterator[MakeClient]:
    """Return a function that makes clients, of the shared server by default; close them later."""
    made: list[Client] = []

    def make(store: Any = None, **options: Any) -> Client:
        made.append(Client(zookeeper_url if store is None else store, **options))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def other(new_client: MakeClient) -> Client:
    """A second client of the shared server, for example to inspect what the first one left."""
    return new_client(label="other")


@pytest.fixture
def proxy(shared_zookeeper: ZooKeeperServer) -> Iterator[Proxy]:
    """A proxy between a client and the shared server."""
    with Proxy(shared_zookeeper.host, shared_zookeeper.port, ZOOKEEPER) as one:
        yield one


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Face:
    """The face for threads, then the face for asyncio."""
    return FACES[request.param]


@pytest.fixture
def kazoo(shared_zookeeper: ZooKeeperServer) -> Iterator[KazooClient]:
    """A client of kazoo without holdfast."""
    client = shared_zookeeper.client()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def ours(new_client: MakeClient, zookeeper_url: str) -> Client:
    """A client of the simple recipe."""
    return new_client(f"{zookeeper_url}?{SIMPLE}", label="ours")


@pytest.fixture
def rival(new_client: MakeClient, zookeeper_url: str) -> Client:
    """A second client of the simple recipe."""
    return new_client(f"{zookeeper_url}?{SIMPLE}", label="rival")


@pytest.fixture
def path(own_name: str, kazoo: KazooClient) -> str:
    """The path at which foreign clients find the lock of this name with the simple recipe."""
    kazoo.ensure_path("/simple")
    return f"/simple/{own_name}"


def claims(kazoo: KazooClient) -> list[str]:
    """The nodes that holdfast keeps next to the locks of the simple recipe, invisible to others."""
    return list(kazoo.get_children("/simple/.claims"))


def eventually(condition: Callable[[], Any], within: float = 10.0) -> None:
    """Wait until ``condition`` is true."""
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, f"it did not come true within {within:g} s"
        time.sleep(0.01)


def kept_out(lock: Any, timeout: float) -> None:
    """Check that the lock is refused in this time.

    If the server is late by a tenth of a second, the acquire raises, and is repeated.
    """

    def refused() -> bool:
        try:
            assert lock.acquire(timeout=timeout) is None
        except StoreUnavailable:
            return False
        return True

    eventually(refused)


def refusal(lock: Any) -> str:
    """The message of the refusal; "" if the server was late."""
    with pytest.raises((NotAcquired, StoreUnavailable)) as told, lock:
        raise AssertionError("the body ran unheld")
    return str(told.value) if told.errisinstance(NotAcquired) else ""


def expire(client: Any) -> None:
    """End this client's session on the server, as if the client had been silent for too long."""
    driver = client._ctx.store._port._driver
    session, password = driver.client.client_id
    while driver.session() == session:
        thief = KazooClient(
            hosts=",".join(f"{host}:{port}" for host, port in driver.client.hosts),
            client_id=(session, password),
            timeout=driver.client._session_timeout / 1000,
        )
        try:
            thief.start(2)  # whose connection is the latest has the session
            thief.stop()
            thief.close()
        except KazooTimeoutError:
            continue
        time.sleep(0.05)
