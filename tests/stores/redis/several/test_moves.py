"""Slots that move to another node while they are used: no hold is lost, every waiter is woken."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncClient, Client
from holdfast.core import policy
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.aio.answer import Answer
from holdfast.stores.redis.aio.shard import ShardWire
from holdfast.stores.redis.cluster import ClusterPort
from holdfast.stores.redis.keys import PREFIX, bucket_of, keys_of
from holdfast.stores.redis.slots import BUCKET_SLOTS
from holdfast.testing import lag
from holdfast.testing.faces import Face
from tests.servers.cluster import Cluster
from tests.servers.redis_server import RedisServer
from tests.stores.redis.aio.conftest import play
from tests.stores.redis.conftest import eventually
from tests.stores.redis.several.conftest import grown, moved_back, slot_for

lag.watch()

#: A node with a shorter uptime can have the record of a slot from before its last start.
LEASE_S = 30.0
HOLDS = 200
TTL_S = 4.0
PROTOCOLS = pytest.mark.parametrize("protocol", [3, 2])
#: A waiter that receives no wake-up, and whose channel doesn't end, asks after a third of its
#: waiter TTL. A third of this TTL is longer than any test waits.
PATIENCE_S = 90.0
SOON_S = 3.0
#: The time that a move takes in the case "while".
HALF_S = 0.2


@pytest.fixture(autouse=True)
def _unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep waiters from asking by themselves, so that a waiter is served only after a wake-up."""
    monkeypatch.setattr(ClusterPort, "patience", PATIENCE_S)
    monkeypatch.setattr(policy, "NAP_S_MAX", PATIENCE_S)


@pytest.fixture(scope="module")
def cluster(cluster: Cluster) -> Cluster:
    """A cluster whose nodes are up for longer than a lease."""
    grown(cluster.servers, LEASE_S)
    return cluster


def poked(cluster: Cluster, name: str) -> Callable[[], bool]:
    """Return a check: does a client listen at the address that the waiter gave?"""
    slot, key = slot_for(name), keys_of(PREFIX, name.encode())[1]

    def look() -> bool:
        server = cluster.owner(slot)
        channels = server.ask("PUBSUB", "SHARDCHANNELS", f"{{{bucket_of(name.encode())}}}*")
        return any(one in row for row in server.ask("HVALS", key) for one in channels)

    return look


class Move(threading.Thread):
    """Move a slot now ("before"), move it within `HALF_S` ("while"), or do nothing ("after")."""

    def __init__(self, cluster: Cluster, slot: int, to: RedisServer, when: str) -> None:
        super().__init__()
        self._cluster, self._slot, self._to, self._when = cluster, slot, to, when
        #: When all nodes knew the new owner of the slot.
        self.arrived = 0.0
        if when == "before":
            cluster.move(slot, to)
        elif when == "while":
            cluster.begin_move(slot, to)
            assert cluster.move_keys(slot, to, 1) == 1
        self.start()

    def run(self) -> None:
        """Finish a move that has begun."""
        if self._when == "while":
            time.sleep(HALF_S)
            self._cluster.move(self._slot, self._to)
            self.arrived = boottime()

    def since(self, begun: float, served: float) -> float:
        """Return the seconds of waiting, without the time of the move and without lag."""
        self.join()
        begun = max(begun, self.arrived)
        return served - begun - lag.since(begun)


@PROTOCOLS
@pytest.mark.parametrize("when", ["before", "while", "after"])
async def test_a_waiter_is_woken(
    face: Face, when: str, protocol: int, cluster: Cluster, own_name: str
) -> None:
    slot, url = slot_for(own_name), f"{cluster.url}?protocol={protocol}"
    with moved_back(cluster, slot) as other:
        async with face.client(url) as locks, face.client(url) as mine:

            async def wait() -> tuple[Any, float]:
                return await mine.lock(own_name, timeout=20).acquire(), boottime()

            # Given a waiter
            hold = await locks.lock(own_name).acquire()
            waiting = face.start(wait)
            await face.outside(lambda: eventually(poked(cluster, own_name)))
            # When the hold is released after the move, during the move, or before it
            moving = await face.outside(lambda: Move(cluster, slot, other, when))
            if when == "before":
                await face.outside(lambda: eventually(poked(cluster, own_name)))
            begun = boottime()
            assert await hold.release()
            second, served = await waiting.result(20)
            # Then the waiter is served immediately, or as soon as the slot has arrived
            assert second.fence > hold.fence
            assert await face.outside(lambda: moving.since(begun, served)) < SOON_S
            if when == "after":
                await face.outside(lambda: cluster.move(slot, other))
            assert await second.release()
            async with locks.lock(own_name, timeout=5) as last:
                assert last.fence > second.fence


def test_a_channel_that_ends_as_it_begins_is_not_relied_on(
    cluster: Cluster, own_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = slot_for(own_name)
    owner = cluster.owner(slot)
    real, ended = ShardWire.confirmed, list[bytes]()

    def confirmed(self: ShardWire, *words: bytes, within: float) -> Answer:
        answer = real(self, *words, within=within)
        if words[0] == b"SSUBSCRIBE" and not ended:
            # Assign the slot to its present owner again: all channels of the slot end. Both
            # messages have arrived before the loop reads the first one.
            ended.append(words[1])
            self._flush()
            eventually(lambda: owner.ask("PUBSUB", "SHARDCHANNELS", words[1].decode()))
            owner.ask("CLUSTER", "SETSLOT", slot, "NODE", cluster.id(owner))
        return answer

    async def main() -> None:
        async with AsyncClient(cluster.url) as locks, AsyncClient(cluster.url) as mine:
            hold = await locks.lock(own_name).acquire()
            monkeypatch.setattr(ShardWire, "confirmed", confirmed)
            waiting = asyncio.ensure_future(mine.lock(own_name, timeout=20).acquire())
            await asyncio.to_thread(eventually, poked(cluster, own_name))
            begun = boottime()
            assert await hold.release()
            second = await waiting
            assert boottime() - begun - lag.since(begun) < SOON_S
            assert await second.release()

    play(main)
    assert ended


def test_a_slot_that_is_half_moved_costs_time_and_no_hold(cluster: Cluster, own_name: str) -> None:
    slot = slot_for(own_name)
    with moved_back(cluster, slot) as other, Client(cluster.url) as locks:
        hold = locks.lock(own_name, ttl=4).acquire()
        cluster.begin_move(slot, other)
        assert cluster.move_keys(slot, other, 1) == 1
        # Renewals succeed while the keys are on two nodes, as each renewal is for one key
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            hold.check()
            time.sleep(0.05)
        cluster.move_keys(slot, other)
        cluster.end_move(slot, other)
        assert hold.release()


async def test_no_hold_is_lost_when_all_slots_move(
    face: Face, cluster: Cluster, own_name: str
) -> None:
    owners = {slot: cluster.owner(slot) for slot in BUCKET_SLOTS}
    primaries = cluster.primaries
    lost: list[str] = []

    def move_all() -> float:
        begun = time.monotonic()
        for slot, owner in owners.items():
            cluster.move(slot, primaries[(primaries.index(owner) + 1) % len(primaries)])
        for slot, owner in owners.items():
            cluster.move(slot, owner)
        return time.monotonic() - begun

    async with face.client(cluster.url) as locks:
        # Given many holds, each renewed several times during the moves
        names = [f"{own_name}-{number}" for number in range(HOLDS)]
        holds = [await locks.lock(one, ttl=TTL_S).acquire() for one in names]
        for one in holds:
            one.on_lost(lambda hold, *_: lost.append(hold.name))
        # When each slot moves to another node and back
        took = await face.outside(move_all)
        # Then no hold is lost, and each can be released
        for one in holds:
            one.check()
        assert all([await one.release() for one in holds])
        print(f"{2 * len(owners)} slots with {HOLDS} holds moved in {took:.1f} s")
        assert lost == []
        assert took > TTL_S / 3
