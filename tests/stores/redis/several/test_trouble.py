"""A cluster with a silent node, callers that give up, forks: bounded times, nothing left."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import AsyncClient, Client, HoldfastError, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.keys import BUCKETS
from holdfast.stores.redis.slots import SLOTS
from holdfast.testing import lag
from holdfast.testing.faces import Face
from holdfast.testing.faults import Fork
from tests.servers.cluster import Cluster
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import old_program
from tests.stores.redis.aio.conftest import play
from tests.stores.redis.conftest import eventually
from tests.stores.redis.several.conftest import slot_for, whole

lag.watch()

TRIES = 150
LATE_S = 1.75
#: A lease, and a time in which it is renewed at least once more.
TTL_S, RENEWED_S = 3.0, 1.2


def names_of(cluster: Cluster, stem: str) -> tuple[str, list[str]]:
    """Return a name, and other names that are on other nodes."""
    first = f"{stem}-0"
    owner = cluster.owner(slot_for(first))
    more = (f"{stem}-{number}" for number in range(1, 20))
    return first, [one for one in more if cluster.owner(slot_for(one)) is not owner]


def test_a_silent_node_costs_a_caller_no_more_than_its_time_and_others_nothing(
    face: Face, new_cluster: Callable[..., Cluster], own_name: str
) -> None:
    cluster = new_cluster("cluster-allow-reads-when-down yes", replicas=0)
    cluster.attend()
    there, elsewhere = names_of(cluster, own_name)
    victim = cluster.owner(slot_for(there))
    for server in cluster.servers:
        server.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")

    async def main() -> None:
        async with face.client(cluster.url) as locks, face.client(cluster.url) as fresh:
            holds = [await locks.lock(one, ttl=TTL_S).acquire() for one in elsewhere]
            also = await locks.lock(there, ttl=TTL_S).acquire()
            victim.stop()
            try:
                # A claim at the silent node fails in time, in a client with a map and without one
                for client in (locks, fresh):
                    begun = boottime()
                    with pytest.raises(StoreUnavailable):
                        await client.lock(there).acquire(timeout=1)
                    assert boottime() - begun - lag.since(begun) <= LATE_S
                # And the holds at other nodes stay valid, though they are renewed together with it
                while not also.lost:
                    await face.sleep(0.01)
                await face.sleep(RENEWED_S)
                for one in holds:
                    one.check()
            finally:
                victim.go_on()
            for one in holds:
                assert await one.release()

    face.run(main, 90.0)


@pytest.mark.parametrize("protocol", [3, 2])
def test_cancelled_tasks_leave_nothing(protocol: int, cluster: Cluster, own_name: str) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    dice = random.Random(seed)

    async def main() -> None:
        async with AsyncClient(f"{cluster.url}?protocol={protocol}") as locks:
            for number in range(TRIES):
                name = f"{own_name}-{number % 5}"
                busy = await locks.lock(name).acquire() if number % 2 else None
                task = asyncio.ensure_future(locks.lock(name).acquire())
                await asyncio.sleep(dice.random() * 0.004)
                task.cancel()
                found = await asyncio.gather(task, return_exceptions=True)
                if not isinstance(found[0], BaseException):
                    assert await found[0].release()
                if busy is not None:
                    assert await busy.release()
            nodes = locks._ctx.store._port._nodes.values()  # type: ignore[attr-defined]
            assert not any(node._boxes or node._buckets for node in nodes)
            assert not locks._ctx.store._port._seats  # type: ignore[attr-defined]

    play(main)
    with Client(cluster.url) as other:
        eventually(lambda: other.inspect(own_name) == [], 5)


def test_threads_that_give_up_leave_nothing(cluster: Cluster, own_name: str) -> None:
    names = [f"{own_name}-{number}" for number in range(4)]
    with Client(cluster.url) as locks, locks.all(*names):

        def work(name: str) -> None:
            for _ in range(10):
                # (a node that answers too late, at the end of the wait, counts as unavailable)
                with contextlib.suppress(StoreUnavailable):
                    assert locks.lock(name).acquire(timeout=0.02) is None

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, names * 2))
        assert not locks._ctx.store._port._seats  # type: ignore[attr-defined]
        eventually(lambda: [len(one.waiters) for one in locks.inspect(own_name)] == [0] * 4)


def test_a_forked_child_has_separate_connections(cluster: Cluster, own_name: str) -> None:
    with Client(cluster.url) as locks:
        hold = locks.lock(own_name).acquire()

        def inside() -> list[object]:
            refused = locks.lock(own_name).acquire(blocking=False) is None
            with locks.lock(own_name + "-child", timeout=5) as mine:
                return [refused, mine.fence > 0]

        with Fork(inside) as child:
            assert child.result() == [True, True]
        hold.check()
        assert hold.release()
        assert locks.inspect(own_name) == []


def test_looking_finds_what_is_at_all_nodes(cluster: Cluster, own_name: str) -> None:
    names = sorted(f"{own_name}-{number:03}" for number in range(BUCKETS))
    with Client(cluster.url) as locks, locks.all(*names):
        assert [one.name for one in locks.inspect(own_name)] == names
    with Client(cluster.url) as locks, pytest.raises(HoldfastError):
        locks.lock("x" * 600).acquire()


def test_where_there_are_no_sharded_channels_waiting_only_takes_longer(
    face: Face, new_redis: NewRedis, own_name: str
) -> None:
    # Given a cluster of Redis 6.2
    server = new_redis("cluster-enabled yes", server=old_program(), known=False)
    server.ask("CLUSTER", "ADDSLOTS", *range(SLOTS))
    whole(server)
    server.make_known()
    url = f"redis+cluster://{server.host}:{server.port}"

    async def main() -> None:
        async with face.client(url) as locks, face.client(url) as mine:

            async def wait() -> None:
                async with mine.lock(own_name, timeout=10):
                    pass

            hold = await locks.lock(own_name).acquire()
            waiting = face.start(wait)
            while not (await locks.inspect(own_name))[0].waiters:
                await face.sleep(0.01)
            assert await hold.release()
            await waiting.result(20)

    face.run(main, 90.0)


def test_a_cluster_without_slots_is_unavailable_until_slots_are_added(
    face: Face, new_redis: NewRedis, own_name: str
) -> None:
    server = new_redis("cluster-enabled yes", known=False)

    async def play() -> None:
        async with face.client(f"redis+cluster://127.0.0.1:{server.port}?recovery=off") as client:
            with pytest.raises(StoreUnavailable, match=r"no node of .* has a slot"):
                await client.lock(own_name).acquire(blocking=False)
            server.ask("CLUSTER", "ADDSLOTS", *range(SLOTS))
            async with client.lock(own_name, timeout=10):
                pass

    face.run(play, 60.0)
