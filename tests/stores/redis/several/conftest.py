"""Several servers for all tests of this folder: watched by sentinels, or in a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.cluster import key_slot

from holdfast.core.queue.model import Job
from holdfast.stores.redis.keys import bucket_of
from holdfast.stores.redis.queue_keys import SHARDS, Layout
from holdfast.stores.redis.recovery import WINDOW_S
from holdfast.testing.faces import FACES, Face
from tests.faced import pytest_pyfunc_call  # noqa: F401 # a hook: it runs tests with a `face`
from tests.servers.cluster import SLOTS, Cluster
from tests.servers.fixtures import NewRedis
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.servers.sentinels import Watched


def grown(servers: list[RedisServer], seconds: float = WINDOW_S["reclaim"]) -> None:
    """Wait until no server counts as just started, so that recovery has no reason to refuse."""

    def old(server: RedisServer) -> bool:
        return bool(server.info("server")["uptime_in_seconds"] > seconds + 1)

    for server in servers:
        until(lambda server=server: old(server), "it is up for long enough", 2 * seconds + 20)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three primaries with one replica each; every test must leave the cluster unchanged."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as one:
        grown(one.servers)
        yield one


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A primary, two replicas and three sentinels; every test must leave them unchanged."""
    with Watched(tmp_path_factory.mktemp("watched")) as one:
        yield one


@pytest.fixture(params=FACES.values(), ids=FACES)
def face(request: pytest.FixtureRequest) -> Face:
    """Each face."""
    found: Face = request.param
    return found


def alone(new_redis: NewRedis, *settings: str, **options: Any) -> RedisServer:
    """Return a cluster that is one node with all slots."""
    server = new_redis("cluster-enabled yes", *settings, known=False, **options)
    server.ask("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
    whole(server)
    return server


def whole(server: RedisServer) -> None:
    """Wait until the cluster of this node serves all slots."""
    until(lambda: b"cluster_state:ok" in server.ask("CLUSTER", "INFO"), "the cluster is whole")


@contextlib.contextmanager
def moved_back(cluster: Cluster, slot: int) -> Iterator[RedisServer]:
    """Yield a primary that doesn't have this slot; at the end, move the slot back."""
    owner = cluster.owner(slot)
    try:
        yield next(one for one in cluster.primaries if one is not owner)
    finally:
        cluster.move(slot, owner)


def slot_for(name: str) -> int:
    """Return the slot of a name's keys."""
    return int(key_slot(b"%d" % bucket_of(name.encode())))


def client_of(cluster: Cluster) -> redis.RedisCluster:
    """Return a client such as a user would make; the caller closes it."""
    first = next(one for one in cluster.servers if one.runs)
    return redis.RedisCluster(host=first.host, port=first.port)


def group_in(shard: int) -> str:
    """Return a group that belongs to this shard of a queue."""
    names = (f"g{number}" for number in range(1000))
    return next(one for one in names if Layout(SHARDS).home_of(Job("x", one, b"")) == shard)
