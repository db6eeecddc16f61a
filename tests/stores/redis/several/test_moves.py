"""Slots that move to another node while they are used: nothing is lost, and everybody is woken."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator

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
from tests.servers.cluster import Cluster
from tests.servers.redis_server import RedisServer
from tests.stores.redis.aio.conftest import play
from tests.stores.redis.conftest import eventually
from tests.stores.redis.several.conftest import grown, slot_for

lag.watch()

#: A node that is up for less may have the record of a slot from before it was started again.
LEASE_S = 30.0
HOLDS = 200
TTL_S = 4.0
PROTOCOLS = pytest.mark.parametrize("protocol", [3, 2])
#: A waiter that is woken neither by a poke nor by the end of its channel asks after a third of its
#: patience; here that is longer than any test waits.
PATIENCE_S = 90.0
SOON_S = 3.0
#: A slot is on its way for so long.
HALF_S = 0.2


@pytest.fixture(autouse=True)
def _unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiter asks by itself, so whatever is served was woken."""
    monkeypatch.setattr(ClusterPort, "patience", PATIENCE_S)
    monkeypatch.setattr(policy, "NAP_S_MAX", PATIENCE_S)


@pytest.fixture(scope="module")
def cluster(cluster: Cluster) -> Cluster:
    """One whose nodes are up for longer than a lease."""
    grown(cluster.servers, LEASE_S)
    return cluster


@contextlib.contextmanager
def moved_back(cluster: Cluster, slot: int) -> Iterator[tuple[RedisServer, RedisServer]]:
    """The owner of a slot and another primary; whatever becomes of it, the slot is put back."""
    owner = cluster.owner(slot)
    other = next(one for one in cluster.primaries if one is not owner)
    try:
        yield owner, other
    finally:
        cluster.move(slot, owner)


def poked(cluster: Cluster, name: str) -> Callable[[], bool]:
    """Does the one who waits have an address at which somebody listens?"""
    slot, key = slot_for(name), keys_of(PREFIX, name.encode())[1]

    def look() -> bool:
        server = cluster.owner(slot)
        channels = server.ask("PUBSUB", "SHARDCHANNELS", f"{{{bucket_of(name.encode())}}}*")
        return any(one in row for row in server.ask("HVALS", key) for one in channels)

    return look


class Move(threading.Thread):
    """Move a slot now, or begin it now and bring it to its end soon."""

    def __init__(self, cluster: Cluster, slot: int, to: RedisServer, when: str) -> None:
        super().__init__()
        self._cluster, self._slot, self._to, self._when = cluster, slot, to, when
        #: When all nodes knew where the slot is.
        self.arrived = 0.0
        if when == "before":
            cluster.move(slot, to)
        elif when == "while":
            cluster.begin_move(slot, to)
            assert cluster.move_keys(slot, to, 1) == 1
        self.start()

    def run(self) -> None:
        """The rest of it."""
        if self._when == "while":
            time.sleep(HALF_S)
            self._cluster.move(self._slot, self._to)
            self.arrived = boottime()

    def since(self, begun: float, served: float) -> float:
        """Seconds for which somebody waited that no move kept from being served."""
        self.join()
        begun = max(begun, self.arrived)
        return served - begun - lag.since(begun)


@PROTOCOLS
@pytest.mark.parametrize("when", ["before", "while", "after"])
def test_a_waiting_thread_is_woken(
    when: str, protocol: int, cluster: Cluster, own_name: str
) -> None:
    slot = slot_for(own_name)
    served: list[tuple[float, int]] = []

    def work() -> None:
        with mine.lock(own_name, timeout=20) as hold:
            served.append((boottime(), hold.fence))

    url = f"{cluster.url}?protocol={protocol}"
    with moved_back(cluster, slot) as (_, other), Client(url) as locks, Client(url) as mine:
        # Given somebody who waits
        hold = locks.lock(own_name).acquire()
        thread = threading.Thread(target=work)
        thread.start()
        eventually(poked(cluster, own_name))
        # When it is released, and the slot has moved, or is just moving, or moves then
        moving = Move(cluster, slot, other, when)
        if when == "before":
            eventually(poked(cluster, own_name))
        begun = boottime()
        assert hold.release()
        thread.join(20)
        # Then it is served at once, or as soon as the slot has arrived
        assert served[0][1] > hold.fence
        assert moving.since(begun, served[0][0]) < SOON_S
        if when == "after":
            cluster.move(slot, other)
        with locks.lock(own_name, timeout=5) as last:
            assert last.fence > served[0][1]


@PROTOCOLS
@pytest.mark.parametrize("when", ["before", "while"])
def test_a_waiting_task_is_woken(when: str, protocol: int, cluster: Cluster, own_name: str) -> None:
    slot = slot_for(own_name)

    async def main() -> None:
        url = f"{cluster.url}?protocol={protocol}"
        async with AsyncClient(url) as locks, AsyncClient(url) as mine:
            hold = await locks.lock(own_name).acquire()
            waiting = asyncio.ensure_future(mine.lock(own_name, timeout=20).acquire())
            await asyncio.to_thread(eventually, poked(cluster, own_name))
            moving = await asyncio.to_thread(Move, cluster, slot, other, when)
            if when == "before":
                await asyncio.to_thread(eventually, poked(cluster, own_name))
            begun = boottime()
            assert await hold.release()
            second = await waiting
            took = await asyncio.to_thread(moving.since, begun, boottime())
            assert took < SOON_S
            assert second.fence > hold.fence
            assert await second.release()

    with moved_back(cluster, slot) as (_, other):
        play(main)


def test_a_channel_that_ends_as_it_begins_is_not_relied_on(
    cluster: Cluster, own_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = slot_for(own_name)
    owner = cluster.owner(slot)
    real, ended = ShardWire.confirmed, list[bytes]()

    def confirmed(self: ShardWire, *words: bytes, within: float) -> Answer:
        answer = real(self, *words, within=within)
        if words[0] == b"SSUBSCRIBE" and not ended:
            # The slot is given to the node that has it: all channels of the slot end. Both
            # messages are there before the loop reads the first.
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
    with moved_back(cluster, slot) as (_, other), Client(cluster.url) as locks:
        hold = locks.lock(own_name, ttl=4).acquire()
        cluster.begin_move(slot, other)
        assert cluster.move_keys(slot, other, 1) == 1
        # Renewals go on while its keys are in two places, as each is for one key
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            hold.check()
            time.sleep(0.05)
        cluster.move_keys(slot, other)
        cluster.end_move(slot, other)
        assert hold.release()


def test_no_hold_is_lost_when_all_slots_move(cluster: Cluster, own_name: str) -> None:
    # Given many holds of both faces, each renewed several times meanwhile
    names = [f"{own_name}-{number}" for number in range(HOLDS)]
    owners = {slot: cluster.owner(slot) for slot in BUCKET_SLOTS}
    primaries = cluster.primaries
    lost: list[str] = []
    done, ready = threading.Event(), threading.Event()

    async def tasks() -> None:
        async with AsyncClient(cluster.url) as others:
            holds = [await others.lock(one, ttl=TTL_S).acquire() for one in names[::2]]
            for one in holds:
                one.on_lost(lambda hold, *_: lost.append(hold.name))
            ready.set()
            await asyncio.to_thread(done.wait)
            assert all([await one.release() for one in holds])

    def loop() -> None:
        try:
            asyncio.run(tasks())
        except BaseException as wrong:
            lost.append(repr(wrong))
            ready.set()

    with contextlib.ExitStack() as stack:
        locks = stack.enter_context(Client(cluster.url))
        thread = threading.Thread(target=loop)
        thread.start()
        stack.callback(done.set)  # whatever becomes of us, the thread must end
        holds = [locks.lock(one, ttl=TTL_S).acquire() for one in names[1::2]]
        for one in holds:
            one.on_lost(lambda hold, *_: lost.append(hold.name))
        assert ready.wait(30)
        # When every slot goes to another node and back
        begun = time.monotonic()
        for slot, owner in owners.items():
            cluster.move(slot, primaries[(primaries.index(owner) + 1) % len(primaries)])
        for slot, owner in owners.items():
            cluster.move(slot, owner)
        took = time.monotonic() - begun
        for one in holds:
            one.check()
        # Then nothing is lost, and every one can be released
        done.set()
        released = [one.release() for one in holds]
        assert all(released)
        thread.join(30)
        print(
            f"{2 * len(owners)} slots with {HOLDS} holds moved in {took:.1f} s, lost: {len(lost)}"
        )
        assert lost == []
        assert took > TTL_S / 3


def test_a_node_that_lacks_the_slot_redirects_the_client(cluster: Cluster, own_name: str) -> None:
    """Whoever has an old map is sent on, and learns it."""
    slot = slot_for(own_name)
    with moved_back(cluster, slot) as (_, other), Client(cluster.url) as locks:
        locks.lock(own_name).acquire().release()
        cluster.move(slot, other)
        store = locks._ctx.store
        before = other.calls().get("evalsha", 0)
        with locks.lock(own_name):
            assert other.calls()["evalsha"] > before
            place = store._port._map[bucket_of(own_name.encode())]  # type: ignore[attr-defined]
            assert place == (other.host, other.port)
