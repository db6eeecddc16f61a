"""Clients, names and a proxy for the tests of the ZooKeeper store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from holdfast import AsyncClient, Client, NotAcquired, StoreUnavailable
from holdfast.testing import lag
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import Proxy
from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.zookeeper.frames import ZOOKEEPER

MakeClient = Callable[..., Client]
#: The session in seconds of tests that end with a session: as short as a busy machine allows.
SHORT_S = 2.0
#: Options of a URL for the two recipes; foreign nodes of their tests are under separate paths.
LINE, SIMPLE = (f"recipe={one}&prefix={one}" for one in ("kazoo", "simple"))


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


@pytest.fixture
def proxied(proxy: Proxy) -> str:
    """The URL of the shared server behind the proxy, for sessions that outlive a test."""
    return f"zookeeper://127.0.0.1:{proxy.port}?session=20"


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


@pytest.fixture(params=[LINE, SIMPLE], ids=["kazoo", "simple"])
def recipe(request: pytest.FixtureRequest) -> str:
    """Options of a URL: with a line, then without."""
    return str(request.param)


@pytest.fixture
def peer(new_client: MakeClient, zookeeper_url: str, recipe: str) -> Client:
    """A second client of this recipe."""
    return new_client(f"{zookeeper_url}?{recipe}", label="peer")


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
    made = kazoo.exists("/simple/.claims")
    return list(kazoo.get_children("/simple/.claims")) if made else []


def many(client: Client, name: str) -> int:
    """The number of claims to this name."""
    return sum(len(line.claims) for line in client.inspect(name, exact=True))


def eventually(condition: Callable[[], Any], within: float = 10.0) -> None:
    """Wait until ``condition`` is true."""
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, f"it did not come true within {within:g} s"
        time.sleep(0.01)


def play(
    face: Face, url: str, act: Callable[[AsyncClient], Coroutine[Any, Any, None]], within: float
) -> None:
    """Run an act with a client of this face."""

    async def main() -> None:
        async with face.client(url) as client:
            await act(client)

    face.run(main, within)


@contextmanager
def counted(client: Client) -> Iterator[list[list[object]]]:
    """The requests of this client, one list for each round trip."""
    port = client._ctx.store._port  # type: ignore[attr-defined]
    asked: list[list[object]] = []
    before = port.ask

    async def ask(requests: list[object], until: float) -> Any:
        asked.append(list(requests))
        return await before(requests, until)

    port.ask = ask
    try:
        yield asked
    finally:
        port.ask = before


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
        raise AssertionError("the body ran without the lock")
    return str(told.value) if told.errisinstance(NotAcquired) else ""


class Served:
    """A thread that waits for a lock, and releases it at once."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._at: list[float] = []
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()

    def _wait(self) -> None:
        # If the test fails, the client is closed while this thread still waits.
        with suppress(StoreUnavailable), self._lock:
            self._at.append(time.monotonic())

    def after(self, release: Callable[[], object]) -> float:
        """Release the lock, and return the seconds until the waiter held it, less the delays."""
        time.sleep(0.1)  # it waits
        begun = time.monotonic()
        release()
        self._thread.join(20)
        return self._at[0] - begun - lag.since(begun)


def never_two(takes: Sequence[Callable[[], AbstractContextManager[object]]]) -> None:
    """Check that of these locks on one name, each in a separate thread, never two are held."""
    inside: list[str] = []
    most: list[int] = []

    def work(take: Callable[[], AbstractContextManager[object]]) -> None:
        for _ in range(15):
            with take():
                inside.append("one")
                time.sleep(0.001)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work, args=(take,)) for take in takes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1] * 15 * len(takes)


def expire(client: Any, hosts: str = "") -> None:
    """End this client's session on the server, as if the client had been silent for too long.

    ``hosts`` is the server of a client that can't be reached now.
    """
    driver = client._ctx.store._port._driver
    session, password = driver.client.client_id
    while driver.session() == session:
        thief = KazooClient(
            hosts=hosts or ",".join(f"{host}:{port}" for host, port in driver.client.hosts),
            client_id=(session, password),
            timeout=driver.client._session_timeout / 1000,
        )
        try:
            thief.start(2)  # whose connection is the latest has the session
            thief.stop()
            thief.close()
        except KazooTimeoutError:
            continue
        if hosts:
            return
        time.sleep(0.05)
