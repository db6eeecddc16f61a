"""Clients, scripts and a proxy in between, for the tests of the Redis store."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from holdfast import Client
from holdfast.core.model import LineRecord
from holdfast.stores.redis.blocking import resp
from holdfast.stores.redis.keys import PREFIX, keys_of
from holdfast.stores.redis.library import QUEUE_SCRIPTS, VALUE_SCRIPTS
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import RESP, Proxy
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.stores.redis.verbs import START, Verbs

MakeClient = Callable[..., Client]
Look = Callable[[str], LineRecord | None]


class Counted(Proxy):
    requests = 0

    def chosen(self, message: bytes, *of: str) -> None:
        self.requests += "request" in of


@pytest.fixture(params=FACES.values(), ids=FACES)
def face(request: pytest.FixtureRequest) -> Face:
    face: Face = request.param
    return face


@pytest.fixture
def new_client(redis_url: str) -> Iterator[MakeClient]:
    """Make clients, by default of the shared server, and close them after the test."""
    made: list[Client] = []

    def make(store: Any = None, **options: Any) -> Client:
        made.append(Client(redis_url if store is None else store, **options))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def locks(new_client: MakeClient) -> Client:
    """A client of the shared server."""
    return new_client(label="ours")


@pytest.fixture
def other(new_client: MakeClient) -> Client:
    """A second client, with which tests inspect the store."""
    return new_client(label="other")


@pytest.fixture
def proxy(shared_redis: RedisServer) -> Iterator[Proxy]:
    """A proxy between a client and the shared server."""
    with Proxy(shared_redis.host, shared_redis.port, RESP) as one:
        yield one


@pytest.fixture
def counter(shared_redis: RedisServer) -> Iterator[Counted]:
    """A proxy that counts the requests to the shared server."""
    with Counted(shared_redis.host, shared_redis.port, RESP) as one:
        yield one


@pytest.fixture(params=["resp3", "resp2"])
def proxied(request: pytest.FixtureRequest, proxy: Proxy) -> str:
    """The URL of the server behind the proxy, with either protocol."""
    return f"redis://127.0.0.1:{proxy.port}?protocol={request.param[-1]}"


@pytest.fixture
def by_proxy(proxied: str, proxy: Proxy, new_client: MakeClient) -> Client:
    """A client behind the proxy that has connected already."""
    client = new_client(proxied)
    client.lock(f"warm:{proxy.port}").acquire().release()
    return client


@pytest.fixture
def word() -> Callable[[str], bytes]:
    """A function that returns bytes in the requests of a verb, and of no other."""
    shas = {one.name: one.sha for one in QUEUE_SCRIPTS}
    shas |= {f"refresh_{one.name}": one.sha for one in VALUE_SCRIPTS}
    return {**shas, "refresh_read": b"\r\nGET\r\n"}.__getitem__


@pytest.fixture(params=["own", "hiredis"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The parser of replies that is used: holdfast's, or that of hiredis."""
    if request.param == "own":
        monkeypatch.setattr(resp, "_quick", None)
        for module in ("blocking.link", "aio.wire"):
            monkeypatch.setattr(f"holdfast.stores.redis.{module}.Push", resp.PlainPush)
    elif resp._quick is None:
        pytest.skip("hiredis is not installed")
    return str(request.param)


@pytest.fixture
def verbs(new_redis: NewRedis) -> Iterator[Verbs]:
    """The scripts on a separate server, with the test's clock."""
    with Verbs(new_redis(known=False), clock=True) as one:
        one.at(START)
        yield one


@pytest.fixture
def line(other: Client) -> Look:

    def look(name: str) -> LineRecord | None:
        found = other.inspect(name, exact=True)
        return found[0] if found else None

    return look


def fences(found: LineRecord | None) -> list[int]:
    return [one.fence for one in found.claims] if found else []


def waits(found: LineRecord | None, number: int = 1) -> bool:
    return found is not None and len(found.waiters) == number


def eventually(true: Callable[[], Any], within: float = 10.0) -> Any:
    end = time.monotonic() + within
    while not (found := true()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.002)
    return found


def addresses(server: RedisServer, name: str) -> int:
    """Return the number of waiters that have an address for wake-ups."""
    rows = server.ask("HVALS", keys_of(PREFIX, name.encode())[1])
    return sum(b":poke:" in row for row in rows)


@contextlib.contextmanager
def busy(server: RedisServer) -> Iterator[None]:
    """Keep a server busy with a script that would never end, during the with-block."""
    server.ask("CONFIG", "SET", "lua-time-limit", 10)

    def refuses() -> bool:
        try:
            other.exists("x")
            return False
        except redis.ResponseError as wrong:
            return "BUSY" in str(wrong)

    with server.client() as one, server.client() as other, ThreadPoolExecutor(1) as pool:
        endless = pool.submit(one.eval, "while true do end", 0)
        try:
            eventually(refuses)
            yield
        finally:
            other.script_kill()
        assert isinstance(endless.exception(10), redis.ResponseError)


def connections(server: RedisServer, listening: bool = False) -> set[str]:
    """Return the ids of a server's connections except this one; or only of the listening ones."""
    own = str(server.ask("CLIENT", "ID"))
    text = server.ask("CLIENT", "LIST").decode()
    rows = [dict(word.partition("=")[::2] for word in row.split(" ")) for row in text.splitlines()]
    return {row["id"] for row in rows if row["id"] != own and not (listening and row["sub"] == "0")}
