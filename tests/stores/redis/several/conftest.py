"""Several servers, for all tests of this folder: watched by sentinels, and in a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from redis.cluster import key_slot

from holdfast.core.queue.model import Job
from holdfast.stores.redis.guard import WINDOW_S
from holdfast.stores.redis.keys import bucket_of
from holdfast.stores.redis.queue_keys import SHARDS, Layout
from tests.servers.cluster import Cluster
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.servers.sentinels import Watched


def grown(servers: list[RedisServer], seconds: float = WINDOW_S["reclaim"]) -> None:
    """Wait until the guard takes no server for one that has just started."""

    def old(server: RedisServer) -> bool:
        return bool(server.info("server")["uptime_in_seconds"] > seconds + 1)

    for server in servers:
        until(lambda server=server: old(server), "it is up for long enough", 2 * seconds + 20)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three primaries with a replica each, that no test may leave otherwise than it was."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as one:
        grown(one.servers)
        yield one


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A primary, two replicas and three sentinels, that no test may leave otherwise."""
    with Watched(tmp_path_factory.mktemp("watched")) as one:
        yield one


def slot_for(name: str) -> int:
    """The slot of a name's keys."""
    return int(key_slot(b"%d" % bucket_of(name.encode())))


def client_of(cluster: Cluster) -> redis.RedisCluster:
    """A client as a user makes one; close it."""
    first = next(one for one in cluster.servers if one.runs)
    return redis.RedisCluster(host=first.host, port=first.port)


def group_in(shard: int) -> str:
    """A group that belongs to this shard of a queue."""
    names = (f"g{number}" for number in range(1000))
    return next(one for one in names if Layout(SHARDS).home_of(Job("x", one, b"")) == shard)
