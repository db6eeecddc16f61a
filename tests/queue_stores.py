"""The stores that have serial queues, each on a separate server that the test can kill.

A store is listed here if its ``CAPABILITIES`` name queues. Each server gets the most durable
settings for accepted data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from holdfast.url import find

#: All stores except memory, which ends with its process.
SCHEMES = ("sqlite", "redis", "postgresql", "mysql", "zookeeper")
WITH_QUEUES = [one for one in SCHEMES if find(f"{one}://")[0].CAPABILITIES.queues]

#: Seconds after which ZooKeeper delivers the jobs of a dead worker again.
SESSION_S = 4.0


class Place(NamedTuple):
    """A store. ``dies`` kills its server and starts it again; None if the store has no server."""

    url: str
    dies: Callable[[], object] | None = None


def open_place(scheme: str, request: pytest.FixtureRequest) -> Place:
    """Return a new store of this scheme; its server ends with the test."""
    if scheme == "sqlite":
        return Place(f"sqlite://{request.getfixturevalue('tmp_path')}/queues.db")
    server: Any
    options = ""
    if scheme == "redis":
        server = request.getfixturevalue("new_redis")("appendonly yes", "appendfsync always")
        options = "?recovery=off"  # it forgets nothing, so no client must wait after a restart
    elif scheme == "postgresql":
        server = request.getfixturevalue("new_postgres")(fsync=True)
        return Place(server.url, server.crash)
    elif scheme == "mysql":
        server = request.getfixturevalue("new_mariadb")("innodb_flush_log_at_trx_commit=1")
    else:
        server = request.getfixturevalue("new_zookeeper")()
        options = f"?session={SESSION_S:g}"  # whose end is noticed is that of a session, not a ttl

    def die() -> None:
        server.kill()
        server.start()

    return Place(server.url + options, die)


@pytest.fixture(params=WITH_QUEUES)
def durable(request: pytest.FixtureRequest) -> Place:
    """Each store that has queues and whose server can be killed; SQLite has no server."""
    return open_place(request.param, request)
