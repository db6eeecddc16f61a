"""The stores that have serial queues, each on a server of the test's own that may be killed.

A store is here as soon as its ``CAPABILITIES`` say so, and keeps what it has accepted as firmly as
it can.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from holdfast.url import find

#: All but memory, which ends with its process.
SCHEMES = ("sqlite", "redis", "postgresql", "mysql", "zookeeper")
WITH_QUEUES = [one for one in SCHEMES if find(f"{one}://")[0].CAPABILITIES.queues]

#: On ZooKeeper what a dead worker had comes again after so many seconds.
SESSION_S = 4.0


class Place(NamedTuple):
    """A store. ``dies``: its server is killed and started again; None if it has none."""

    url: str
    dies: Callable[[], object] | None = None


def open_place(scheme: str, request: pytest.FixtureRequest) -> Place:
    """A new store of this scheme; what it runs on ends with the test."""
    if scheme == "sqlite":
        return Place(f"sqlite://{request.getfixturevalue('tmp_path')}/queues.db")
    server: Any
    options = ""
    if scheme == "redis":
        server = request.getfixturevalue("new_redis")("appendonly yes", "appendfsync always")
        options = "?recovery=off"  # as it forgets nothing, nobody need wait after a restart
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
    """Each store that has queues, and whose server may be killed."""
    return open_place(request.param, request)
