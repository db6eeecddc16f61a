"""What the traps are laid with: naive clients, ours, and ours through a proxy that holds back."""

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
    """Makes plain clients of the shared server, one for each who locks naively."""
    with contextlib.ExitStack() as ends:
        yield lambda: ends.enter_context(shared_redis.client())


@pytest.fixture
def proxy(shared_redis: RedisServer) -> Iterator[Proxy]:
    """Stands before the shared server."""
    with Proxy(shared_redis.host, shared_redis.port, RESP) as one:
        yield one


@pytest.fixture
def ours(redis_url: str) -> Iterator[Callable[..., Client]]:
    """Makes clients of holdfast: straight to the shared server, or through a proxy."""
    with contextlib.ExitStack() as ends:

        def make(through: Proxy | None = None) -> Client:
            url = f"redis://127.0.0.1:{through.port}/0" if through else redis_url
            client = ends.enter_context(Client(url))
            # Its connection is made and its scripts are known, so that what follows is one request.
            with client.lock("warm up"):
                pass
            return client

        yield make
