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
