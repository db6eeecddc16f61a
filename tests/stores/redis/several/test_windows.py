"""Recovery in a cluster after a promotion: which claims it refuses, and for how long."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable

import pytest
from redis.cluster import key_slot

from holdfast import Client, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.keys import BUCKETS, bucket_of, recovery_of
from holdfast.stores.redis.queue_keys import SHARDS, bucket_in
from holdfast.testing import lag
from tests.servers.cluster import Cluster
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.stores.redis.several.conftest import alone, group_in, grown, slot_for, whole

lag.watch()

#: The grace period of these tests, in seconds.
GRACE_S = 2.0
NAMES = 12


@pytest.fixture
def cluster(new_cluster: Callable[[], Cluster]) -> Cluster:
    """A cluster for this test alone."""
    return new_cluster()


def without_records(cluster: Cluster) -> None:
    """Delete all records of recovery, as if no bucket had ever been used."""
    for primary in cluster.primaries:
        for bucket in range(BUCKETS):
            if cluster.owner(slot_of(bucket)) is primary:
                primary.ask("DEL", recovery_of("holdfast", bucket))


def slot_of(bucket: int) -> int:
    """Return the slot of a bucket's keys."""
    return int(key_slot(b"%d" % bucket))


def cut_off(cluster: Cluster, primary: RedisServer) -> RedisServer:
    """Cut off the replica of this primary from all further writes, and return the replica."""
    replica = cluster.replica_of(primary)
    primary.ask("WAIT", 1, 1000)
    replica.stop()
    primary.ask("CLIENT", "KILL", "TYPE", "replica")
    return replica


def take_over(cluster: Cluster, primary: RedisServer, replica: RedisServer) -> None:
    """Kill the primary, and let the replica serve its slots with the data that it has."""
    primary.kill()
    replica.go_on()
    replica.ask("CLUSTER", "FAILOVER", "TAKEOVER")
    cluster._promoted(replica)


def names_of(cluster: Cluster, primary: RedisServer, many: int) -> list[str]:
    """Return `many` names of this primary, each in a different bucket."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < many:
        name = f"name-{number}"
        if cluster.owner(slot_for(name)) is primary:
            found.setdefault(bucket_of(name.encode()), name)
        number += 1
    return list(found.values())


def test_a_promoted_node_without_the_first_grant_grants_nothing(cluster: Cluster) -> None:
    without_records(cluster)
    primary = cluster.primaries[0]
    (name,) = names_of(cluster, primary, 1)
    url = f"{cluster.url}?grace={GRACE_S}"
    with Client(url) as holder, Client(url) as other:
        replica = cut_off(cluster, primary)
        hold = holder.lock(name, ttl=20).acquire(timeout=10)
        assert hold
        take_over(cluster, primary, replica)
        # When another client tries for longer than the grace period
        end = time.monotonic() + 2 * GRACE_S
        while time.monotonic() < end:
            with contextlib.suppress(StoreUnavailable):
                assert other.lock(name).acquire(blocking=False) is None
            time.sleep(0.02)
        # Then the holder still holds the lock, and the next fence is higher
        hold.check()
        assert hold.release()
        with other.lock(name, timeout=10) as after:
            assert after.fence > hold.fence


def test_a_node_promoted_before_the_grace_period_refuses_no_claim(cluster: Cluster) -> None:
    names = names_of(cluster, cluster.primaries[0], NAMES)
    url = f"{cluster.url}?grace={GRACE_S}"
    with Client(url) as holder, Client(url) as other, holder.lock("elsewhere", timeout=10) as hold:
        # Given a client that holds a lock elsewhere, and so checks the servers
        cluster.fail_over(cluster.primaries[0])
        time.sleep(2.5 * GRACE_S)
        for name in names:
            assert other.lock(name).acquire(blocking=False)
        hold.check()


@pytest.mark.parametrize("used", [False, True])
def test_a_client_that_has_seen_the_promotion_for_a_window_is_not_refused(
    cluster: Cluster, used: bool
) -> None:
    one, two = names_of(cluster, cluster.primaries[0], 2)
    if not used:
        without_records(cluster)
    cluster.fail_over(cluster.primaries[0])
    with Client(f"{cluster.url}?grace={GRACE_S}") as client:
        # Given a client that has only inspected
        assert client.inspect(one, exact=True) == []
        time.sleep(GRACE_S + 0.1)
        assert client.lock(two).acquire(blocking=False)


def test_a_second_fresh_client_finds_the_windows_over_that_the_first_one_opened(
    cluster: Cluster,
) -> None:
    first, *others = names_of(cluster, cluster.primaries[0], NAMES)
    cluster.fail_over(cluster.primaries[0])
    url = f"{cluster.url}?grace={GRACE_S}"
    with Client(url) as client, client.lock(first, timeout=20):
        time.sleep(0.2)
        with Client(url) as fresh:
            for name in others:
                assert fresh.lock(name).acquire(blocking=False)


def test_the_shards_of_a_queue_open_their_windows_together(cluster: Cluster) -> None:
    primary = cluster.primaries[0]

    def there_of(queue: str) -> list[int]:
        buckets = [bucket_in(queue.encode(), shard) for shard in range(SHARDS)]
        return [at for at, one in enumerate(buckets) if cluster.owner(slot_of(one)) is primary]

    name, there = next(
        (one, there_of(one)) for one in map(str, itertools.count()) if len(there_of(one)) > 2
    )
    cluster.fail_over(primary)
    took: list[float] = []
    for shard in there:
        # When a job arrives in another shard of the promoted node, for a client that just started
        with Client(f"{cluster.url}?grace={GRACE_S}") as client:
            queue = client.queue(name)
            queue.put("x", group=group_in(shard))
            begun = boottime()
            job = queue.take(timeout=10 * GRACE_S)
            took.append(boottime() - begun - lag.since(begun))
            assert job
            assert job.ack()
    # Then only the first take had to wait
    assert max(took[1:]) < GRACE_S / 2 < took[0], took


def test_a_node_that_comes_back_late_is_not_taken_for_one_with_a_slot_that_has_moved(
    new_redis: NewRedis, own_name: str
) -> None:
    # Given a node that has granted a lock
    server = alone(new_redis)
    grown([server])
    url = f"redis+cluster://{server.host}:{server.port}"
    with Client(url) as holder:
        holder.lock(own_name).acquire().release()
    # When it starts again with its saved data, and loading takes longer than the grace period
    server.ask("SAVE")
    server.kill()
    server.start()
    whole(server)
    grown([server])
    # Then it grants nothing new before the earlier holders could have renewed
    with Client(url) as other:
        with pytest.raises(StoreUnavailable, match=r"grants nothing for \d\.\d s more"):
            other.lock(own_name).acquire(blocking=False)
        assert other.lock(own_name).acquire(timeout=10)
