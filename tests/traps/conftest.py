"""Fixtures of the traps: naive clients, holdfast clients, and a proxy that can delay messages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
import redis

from holdfast import Client
from holdfast.testing.faults import RESP, Proxy
from tests.servers.redis_server import RedisServer


@pytest.fixture
def plain(shared_redis: RedisServer) -> Iterator[Callable[[], redis.Redis]]:
    """Return a function that makes plain clients of the shared server, one for each naive lock."""
    with contextlib.ExitStack() as ends:
        yield lambda: ends.enter_context(shared_redis.client())


@pytest.fixture
def proxy(shared_redis: RedisServer) -> Iterator[Proxy]:
    """A proxy in front of the shared server."""
    with Proxy(shared_redis.host, shared_redis.port, RESP) as one:
        yield one


@pytest.fixture
def ours(redis_url: str) -> Iterator[Callable[..., Client]]:
    """Return a function that makes holdfast clients: directly to the shared server, or through a
    proxy."""
    with contextlib.ExitStack() as ends:

        def make(through: Proxy | None = None) -> Client:
            url = f"redis://127.0.0.1:{through.port}/0" if through else redis_url
            client = ends.enter_context(Client(url))
            # Connect and load the scripts now, so that each later verb is one request.
            with client.lock("warm up"):
                pass
            return client

        yield make
