"""Replicas with sentinels, and a cluster: they fail over, fall behind and move slots on demand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
from redis.cluster import ClusterNode, RedisCluster, key_slot

from tests.servers.cluster import Cluster
from tests.servers.process import until
from tests.servers.sentinels import NAME, Watched

NewWatched = Callable[..., Watched]
NewCluster = Callable[..., Cluster]


# -- sentinels -------------------------------------------------------------------------------


def test_sentinels_promote_a_replica_on_command_and_after_a_crash(
    new_watched: NewWatched,
) -> None:
    watched = new_watched(password="sesame")
    first = watched.primary
    assert len(watched.replicas) == 2
    first.ask("SET", "x", 1)
    watched.settled()
    # When a replica is promoted although all servers are healthy, it has the written value
    second = watched.fail_over()
    assert second is not first
    assert second.ask("GET", "x") == b"1"
    watched.settled()
    # And when the new primary is killed, another replica takes over
    third = watched.lose_primary()
    assert third is not second
    assert third.ask("GET", "x") == b"1"
    # And a client that asks the sentinels finds it
    places = [(one.host, one.port) for one in watched.sentinels]
    sentinel = redis.Sentinel(places, password="sesame")
    until(lambda: sentinel.discover_master(NAME)[1] == third.port, "they name the third")
    for one in sentinel.sentinels:
        one.close()


def test_a_replica_that_was_cut_off_lacks_what_was_written_since(new_watched: NewWatched) -> None:
    # Given replicas that receive no more writes, and a connection to one of them
    watched = new_watched(sentinels=0)
    watched.primary.ask("SET", "x", "old")
    watched.settled()
    watched.cut_off()
    watched.primary.ask("SET", "x", "new")
    replica = watched.replicas[0]
    with replica.client(single_connection_client=True) as client:
        assert client.get("x") == b"old"
        with pytest.raises(redis.exceptions.ReadOnlyError):
            client.set("y", 1)
        # When it is promoted, that connection continues, without the missed write
        known = client.client_id()
        watched.promote(replica)
        assert client.set("y", 1)
        assert client.get("x") == b"old"
        assert client.client_id() == known


def test_sentinels_promote_a_replica_that_was_cut_off(new_watched: NewWatched) -> None:
    watched = new_watched()
    watched.primary.ask("SET", "x", "old")
    watched.settled()
    watched.cut_off()
    watched.primary.ask("SET", "x", "new")
    promoted = watched.lose_primary()
    assert promoted.ask("GET", "x") == b"old"


# -- cluster ---------------------------------------------------------------------------------


def test_a_cluster_serves_fails_over_and_moves_slots(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    slot = key_slot(b"x")
    nodes = [ClusterNode(one.host, one.port) for one in cluster.servers]
    with RedisCluster(startup_nodes=nodes) as client:
        client.set("x", 1)
        # When a replica takes over from a healthy primary
        former = cluster.owner(slot)
        promoted = cluster.fail_over(former)
        assert cluster.owner(slot) is promoted
        assert client.get("x") == b"1"
        # When the slot is moved, in steps
        other = next(one for one in cluster.primaries if one is not promoted)
        cluster.begin_move(slot, other)
        assert promoted.ask("EXISTS", "x") == 1
        assert cluster.move_keys(slot, other) == 1
        with pytest.raises(redis.exceptions.AskError):
            promoted.ask("GET", "x")
        cluster.end_move(slot, other)
        assert other.ask("GET", "x") == b"1"
        assert client.get("x") == b"1"
        # When a primary is killed, its replica takes over
        replica = cluster.replica_of(other)
        until(lambda: replica.info("keyspace").get("db0"), "the replica has the key")
        assert cluster.lose(other) is replica
        assert replica.ask("GET", "x") == b"1"


def test_a_slot_can_be_moved_at_once(new_cluster: NewCluster) -> None:
    cluster = new_cluster(replicas=0)
    slot = key_slot(b"x")
    source = cluster.owner(slot)
    for number in range(250):
        source.ask("SET", f"{number}{{x}}", number)
    target = next(one for one in cluster.servers if one is not source)
    cluster.move(slot, target)
    assert cluster.owner(slot) is target
    assert target.ask("CLUSTER", "COUNTKEYSINSLOT", slot) == 250
    assert source.ask("CLUSTER", "COUNTKEYSINSLOT", slot) == 0
