"""A Redis that loses acknowledged data, and clients that hold locks at that time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import redis

from holdfast import Client, Hold, StoreUnavailable
from holdfast.testing.faults import RESP, Proxy
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.servers.sentinels import Watched

#: Makes a primary with replicas (see `Watched`).
NewWatched = Callable[..., Watched]
#: The grace period of these tests in seconds: recovery grants nothing new in this time. A holder
#: that pauses for two seconds must still renew in time.
GRACE_S = 3.0


def url(port: int, *options: str) -> str:
    """The URL of a server or a proxy."""
    return f"redis://127.0.0.1:{port}/0?" + "&".join(options)


def tries(client: Client, name: str, until_: float) -> Hold | None:
    """Try repeatedly, without waiting in line, until the lock is granted or ``until_`` is
    reached."""
    while time.monotonic() < until_:
        with contextlib.suppress(StoreUnavailable):
            if hold := client.lock(name).acquire(blocking=False):
                return hold
        time.sleep(0.01)
    return None


@contextlib.contextmanager
def following(server: RedisServer) -> Iterator[Proxy]:
    """Yield a proxy that leads to this server until it is moved."""
    with Proxy(server.host, server.port, RESP) as proxy:
        yield proxy


def move(proxy: Proxy, server: RedisServer) -> None:
    """Lead the proxy to this server after this call."""
    proxy.lead_to(server.host, server.port)
    proxy.reset()


def used(client: Client) -> None:
    """Wait until this client is granted a lock."""
    hold = client.lock("warm up").acquire(timeout=15)
    assert hold
    hold.release()


def demote(watched: Watched, former: RedisServer, primary: RedisServer) -> None:
    """Make the former primary a replica of the new one, and wait until it has all data."""
    watched.promote(primary)
    former.ask("REPLICAOF", primary.host, primary.port)
    until(lambda: watched.primary is primary, "it is the only primary")
    watched.settled()


def evict(server: RedisServer) -> None:
    """Make the server evict all of its data."""
    server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
    server.ask("CONFIG", "SET", "maxmemory", 1)
    while server.ask("DBSIZE"):
        with contextlib.suppress(redis.ResponseError):
            server.ask("SET", "more", "x")
    server.ask("CONFIG", "SET", "maxmemory", 0)
