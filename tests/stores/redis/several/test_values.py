"""Refresh guards with several servers: values of all nodes, and slots that move."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from holdfast import AsyncClient, Client
from holdfast.core.guard.model import Entry
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.slots import slot_of
from holdfast.stores.redis.value_calls import ValueRequests
from holdfast.testing import lag
from holdfast.testing.faces import Face
from tests.servers.cluster import Cluster
from tests.stores.redis.several.conftest import moved_back

lag.watch()
PROTOCOLS = pytest.mark.parametrize("protocol", [3, 2])
#: A lease that outlasts every wait of these tests.
LONG_S = 60.0


def slot_for(guard: str, key: str = "") -> int:
    """Return the slot of an entry."""
    return slot_of(ValueRequests().place(Entry(guard, key)).bucket)


def never() -> str:
    raise AssertionError("it is there")


async def never_in_a_loop() -> str:
    return never()


@PROTOCOLS
async def test_values_of_all_nodes_are_read_together(
    face: Face, protocol: int, cluster: Cluster, own_name: str
) -> None:
    url = f"{cluster.url}?protocol={protocol}"
    keys = [str(number) for number in range(60)]
    owners = {cluster.owner(slot_for(own_name, key)).port for key in keys}
    assert len(owners) == len(cluster.primaries)
    computed: list[str] = []

    async def compute(key: str) -> str:
        computed.append(key)
        return f"of {key}"

    for _ in range(2):
        async with face.client(url) as client:
            guard = client.guard(own_name, ttl=60)
            for _ in range(2):
                found = await guard.get_many(keys, compute)
                assert found == {key: f"of {key}" for key in keys}
    assert computed == keys
    async with face.client(url) as client:
        assert await client.guard(own_name, ttl=60).invalidate(*keys, "none") == 60
        await client.guard(own_name, ttl=60).stats()
        assert own_name in [one.name for one in await client.guards()]


@PROTOCOLS
def test_a_value_is_read_while_its_slot_is_on_its_way(
    protocol: int, cluster: Cluster, own_name: str
) -> None:
    """Both faces find the value before, during and after the move of its slot."""
    slot, url = slot_for(own_name), f"{cluster.url}?protocol={protocol}"

    async def main() -> None:
        async with AsyncClient(url) as loop:
            with Client(url) as client:
                threads, tasks = client.guard(own_name, ttl=600), loop.guard(own_name, ttl=600)

                async def read() -> None:
                    assert threads.get(never) == "x"
                    assert await tasks.get(never_in_a_loop) == "x"

                threads.get(lambda: "x")
                await read()
                cluster.begin_move(slot, target)
                await read()
                while cluster.move_keys(slot, target):
                    pass
                await read()
                cluster.end_move(slot, target)
                await read()
                assert threads.invalidate() == 1

    with moved_back(cluster, slot) as target:
        asyncio.run(main())


def test_a_waiter_for_a_value_is_woken_after_its_slot_moved(
    cluster: Cluster, own_name: str
) -> None:
    slot = slot_for(own_name)
    go, inside = threading.Event(), threading.Event()
    found: list[float] = []

    def slow() -> str:
        inside.set()
        go.wait(30)
        return "x"

    def wait() -> None:
        with Client(cluster.url) as other:
            assert other.guard(own_name, ttl=60, lease=LONG_S).get(never, timeout=30) == "x"
            found.append(boottime())

    with moved_back(cluster, slot) as target, Client(cluster.url) as client:
        guard = client.guard(own_name, ttl=60, lease=LONG_S)
        computing = threading.Thread(target=guard.get, args=(slow,))
        computing.start()
        inside.wait(10)
        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.3)
        cluster.move(slot, target)
        # The waiter has looked up the slot's new owner: immediately, or within 1.2 s
        time.sleep(1.3)
        begun = boottime()
        go.set()
        for thread in (computing, waiting):
            thread.join(30)
        assert found[0] - begun < 0.8 + lag.since(begun)
