"""Serial queues with several servers: shards, wake-ups, and slots that move."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from holdfast import Client
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.keys import PREFIX
from holdfast.stores.redis.queue_keys import SHARDS, bucket_in
from holdfast.stores.redis.slots import slot_of
from holdfast.testing import lag
from tests.servers.cluster import Cluster
from tests.servers.sentinels import Watched
from tests.stores.redis.conftest import eventually
from tests.stores.redis.several.conftest import group_in, moved_back

lag.watch()


def test_jobs_of_all_shards_come_each_once_and_groups_in_order(
    cluster: Cluster, own_name: str
) -> None:
    with Client(cluster.url) as client, Client(cluster.url) as other:
        queue = client.queue(own_name)
        groups = [group_in(shard) for shard in range(SHARDS)]
        items = [{"payload": n, "group": groups[n % SHARDS]} for n in range(80)]
        queue.put_many([*items, *range(1000, 1040)])
        seen: dict[str | None, list[int]] = {}
        for taker in [other.queue(own_name), queue] * 100:
            jobs = taker.take_many(7, timeout=0)
            for job in jobs:
                seen.setdefault(job.group, []).append(job.payload)
            assert all(taker.ack_many(jobs))
        assert sorted(seen.pop(None)) == list(range(1000, 1040))
        assert seen == {groups[k]: list(range(k, 80, SHARDS)) for k in range(SHARDS)}
        record = queue.stats()
        assert (record.waiting, record.taken, record.accepted, record.done) == (0, 0, 120, 120)
        # The keys of a shard are in one slot, and the shards are on more than one node
        slots = {slot_of(bucket_in(own_name.encode(), shard)) for shard in range(SHARDS)}
        assert len({cluster.owner(slot).port for slot in slots}) > 1


@pytest.mark.parametrize("shard", [0, 3, 6])
def test_a_waiting_take_is_woken_by_a_put_into_any_shard(
    shard: int, cluster: Cluster, own_name: str
) -> None:
    with Client(cluster.url) as client, Client(cluster.url) as other:
        queue, group = client.queue(own_name), group_in(shard)
        late = []
        for _ in range(6):
            taken: list[Any] = []
            thread = threading.Thread(
                target=lambda taken=taken: taken.append(queue.take(timeout=20))
            )
            thread.start()
            time.sleep(0.1)
            begun = boottime()
            other.queue(own_name).put("x", group=group)
            thread.join(20)
            late.append(boottime() - begun - lag.since(begun))
            assert taken[0].ack()
        late.sort()
        print(f"woken after {late[3] * 1e3:.1f} ms")
        assert late[2] < 0.4


def test_an_id_is_known_in_its_group(cluster: Cluster, own_name: str) -> None:
    """In another group the id is recognised only if both groups are in the same shard."""
    with Client(cluster.url) as client:
        queue = client.queue(own_name)
        receipts = queue.put_many([{"payload": n, "id": "order:1", "group": "g"} for n in (1, 2)])
        assert [one.duplicate for one in receipts] == [False, True]
        plain = [queue.put("x", id="order:2") for _ in range(2)]
        assert [one.duplicate for one in plain] == [False, True]
        assert queue.purge() == 2


def test_a_slot_moves_while_its_queue_is_used(cluster: Cluster, own_name: str) -> None:
    bucket, group = bucket_in(own_name.encode(), 0), group_in(0)
    slot, seen = slot_of(bucket), list[int]()
    with (
        Client(cluster.url) as client,
        Client(cluster.url) as other,
        moved_back(cluster, slot) as target,
    ):
        queue = client.queue(own_name)
        queue.put(-1, group=group)
        held = queue.take(timeout=5)
        assert held
        queue.put_many(range(50), group=group)
        with other.queue(own_name).worker(lambda job: seen.append(job.payload)):
            assert held.ack()
            cluster.move(slot, target)
            queue.put_many(range(50, 100), group=group)
            eventually(lambda: len(seen) >= 100, 30)
    assert seen == list(range(100))
    with target.client() as admin:
        assert not admin.keys(f"{PREFIX}:{{{bucket}}}@*")


def test_a_promoted_replica_delivers_nothing_while_workers_may_believe(
    watched: Watched, own_name: str
) -> None:
    with Client(watched.url) as client, Client(watched.url) as other:
        queue = client.queue(own_name, ttl=30)
        queue.put("first", group="g")
        queue.put("second", group="g")
        job = queue.take(timeout=20)
        assert job
        watched.fail_over()
        again = other.queue(own_name).take(timeout=3)
        # Either the new primary still has the delivery, or the worker knows that it is lost
        assert again is None or job.lost
