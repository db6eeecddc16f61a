"""A Redis that loses what it has acknowledged, and those who hold there meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast import Client, Hold, StoreUnavailable
from holdfast.testing.faults import RESP, Proxy
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.servers.sentinels import Watched

#: Makes a primary with replicas (see `Watched`).
NewWatched = Callable[..., Watched]
#: The windows of these tests: how long nobody is let in. A holder that stands still for two seconds
#: must still come in time.
RECLAIM_S, STRICT_S = 3.0, 3.0


def url(port: int, *options: str) -> str:
    """Of a server or a proxy."""
    return f"redis://127.0.0.1:{port}/0?" + "&".join(options)


def tries(client: Client, name: str, until_: float) -> Hold | None:
    """Ask again and again, without waiting in line, until it is had or the moment is there."""
    while time.monotonic() < until_:
        try:
            hold = client.lock(name).acquire(blocking=False)
        except StoreUnavailable:
            hold = None
        if hold:
            return hold
        time.sleep(0.01)
    return None


@contextmanager
def following(server: RedisServer) -> Iterator[Proxy]:
    """An address that follows the primary."""
    with Proxy(server.host, server.port, RESP) as proxy:
        yield proxy


def move(proxy: Proxy, server: RedisServer) -> None:
    """The address leads to this server from now on."""
    proxy.lead_to(server.host, server.port)
    proxy.reset()


def used(client: Client, within: float = 15.0) -> None:
    """Wait until this client is let in."""
    hold = client.lock("warm up").acquire(timeout=within)
    assert hold
    hold.release()


def demote(watched: Watched, former: RedisServer, primary: RedisServer) -> None:
    """Have the former primary follow the new one, and have all that it has."""
    watched.promote(primary)
    former.ask("REPLICAOF", primary.host, primary.port)
    until(lambda: watched.primary is primary, "it is the only primary")
    watched.settled()
