"""Clients of the dialects, a redis-py client that acts as other libraries do, and a proxy."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest
import redis

from holdfast import Client
from holdfast.testing.faults import RESP, Proxy
from tests.servers.redis_server import RedisServer

#: Makes clients for threads from a dialect and options of the URL; the fixture closes them.
Ours = Callable[..., Client]


@pytest.fixture
def prefix() -> str:
    """A prefix for the keys that only this test uses."""
    return f"p{secrets.token_hex(5)}:"


@pytest.fixture
def ours(shared_redis: RedisServer, prefix: str) -> Iterator[Ours]:
    """Return a function that makes clients of a dialect on the shared server or another port."""
    made: list[Client] = []

    def make(dialect: str = "plain", port: int = 0, client: str = "", **options: str) -> Client:
        words = {"prefix": prefix, **options}
        place = f"127.0.0.1:{port or shared_redis.port}/0"
        query = "&".join(f"{name}={value}" for name, value in words.items())
        made.append(Client(f"redis+{dialect}://{place}?{query}", label=client or "ours"))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def raw(shared_redis: RedisServer) -> Iterator[redis.Redis]:
    """A client of redis-py that does what other programs do."""
    with shared_redis.client() as client:
        yield client


@pytest.fixture
def proxy(shared_redis: RedisServer) -> Iterator[Proxy]:
    """A proxy between a client and the shared server."""
    with Proxy(shared_redis.host, shared_redis.port, RESP) as one:
        yield one


class Behind:
    """One name, and a client of another program behind the proxy."""

    def __init__(self, ours: Ours, proxy: Proxy, raw: redis.Redis, prefix: str, name: str) -> None:
        self.ours, self.proxy, self.raw, self.name = ours, proxy, raw, name
        self.prefix, self.key = prefix, prefix + name

    def warm(self, dialect: str, **options: str) -> Client:
        """A client behind the proxy that has connected."""
        made = self.ours(dialect, self.proxy.port, **options)
        made.lock("warm").acquire().release()
        return made

    def url(self, dialect: str, **options: str) -> str:
        """The URL of a client behind the proxy."""
        words = "".join(f"&{name}={value}" for name, value in options.items())
        return f"redis+{dialect}://127.0.0.1:{self.proxy.port}/0?prefix={self.prefix}{words}"


@pytest.fixture
def at(ours: Ours, proxy: Proxy, raw: redis.Redis, prefix: str, own_name: str) -> Behind:
    return Behind(ours, proxy, raw, prefix, own_name)
