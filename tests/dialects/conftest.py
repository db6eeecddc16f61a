"""Clients of the dialects, a client of redis-py that acts as others do, and a proxy in between."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest
import redis

from holdfast import Client
from holdfast.testing.faults import RESP, Proxy
from tests.servers.redis_server import RedisServer

#: Makes clients for threads: the dialect, then options of the URL; closed afterwards.
Ours = Callable[..., Client]


@pytest.fixture
def prefix() -> str:
    """What the keys of this test begin with, and no other's."""
    return f"p{secrets.token_hex(5)}:"


@pytest.fixture
def ours(shared_redis: RedisServer, prefix: str) -> Iterator[Ours]:
    """Makes clients of a dialect on the shared server, or at another port."""
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
    """A client of redis-py, which does what other programs do."""
    with shared_redis.client() as client:
        yield client


@pytest.fixture
def proxy(shared_redis: RedisServer) -> Iterator[Proxy]:
    """Stands between a client and the shared server."""
    with Proxy(shared_redis.host, shared_redis.port, RESP) as one:
        yield one
