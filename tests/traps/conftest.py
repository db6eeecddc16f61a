"""Fixtures of the traps: holdfast clients, and a proxy that can delay messages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from holdfast import Client
from holdfast.testing.faults import RESP, Proxy
from tests.servers.redis_server import RedisServer

#: Makes a holdfast client: directly to the shared server, or through a proxy.
Ours = Callable[..., Client]


@pytest.fixture
def proxy(shared_redis: RedisServer) -> Iterator[Proxy]:
    """A proxy in front of the shared server."""
    with Proxy(shared_redis.host, shared_redis.port, RESP) as one:
        yield one


@pytest.fixture
def ours(redis_url: str) -> Iterator[Ours]:
    with contextlib.ExitStack() as ends:

        def make(through: Proxy | None = None) -> Client:
            url = f"redis://127.0.0.1:{through.port}/0" if through else redis_url
            client = ends.enter_context(Client(url))
            # Connect and load the scripts now, so that each later verb is one request.
            with client.lock("warm up"):
                pass
            return client

        yield make
