"""Redisson's other locks, in both directions: fair, read-write, fenced, and permits that expire."""

from __future__ import annotations

import pytest

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from tests.interop.crew import Crew, give, take, wait_for
from tests.interop.pairs import KINDS, REDISSON, Pair
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.torture.scale import FULL

WATCHDOG_S = 3.0
#: The versions with which the tests that take seconds run.
PROVEN = REDISSON if FULL else {"redisson": REDISSON["redisson"]}

lag.watch()


@pytest.mark.parametrize("pair", REDISSON.values(), ids=REDISSON)
def test_readers_of_both_sides_share_and_keep_writers_of_both_out(
    pair: Pair, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    which = [("holdfast", 0), (pair.client, 0), ("holdfast-asyncio", 0), (pair.client, 1)]
    ours, theirs, our_writer, their_writer = crew.several(which, pair.place(shared_redis))
    # Given a reader of each side
    assert take(ours, own_name, "read")
    assert take(theirs, own_name, "read")
    # Then no writer holds before both have released, in either order
    for first in (ours, theirs):
        assert not take(our_writer, own_name, "write")
        assert not take(their_writer, own_name, "write")
        assert give(first, own_name)
        assert not take(our_writer, own_name, "write")
        assert not take(their_writer, own_name, "write")
        assert take(first, own_name, "read")
    assert give(ours, own_name)
    assert give(theirs, own_name)
    # And a writer keeps all other clients out
    for writer in (our_writer, their_writer):
        assert take(writer, own_name, "write")
        for other in (ours, theirs):
            assert not take(other, own_name, "read")
        other = their_writer if writer is our_writer else our_writer
        assert not take(other, own_name, "write")
        assert give(writer, own_name)


@pytest.mark.parametrize("pair", PROVEN.values(), ids=PROVEN)
def test_a_dead_reader_is_not_kept_alive_by_a_living_one_of_the_other_side(
    pair: Pair, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    which = [("holdfast", 0), (pair.client, 0), (pair.client, 1), ("holdfast-asyncio", 0)]
    ours, theirs, *living = crew.several(which, pair.place(shared_redis, watchdog=WATCHDOG_S))
    (writer,) = crew.several([("holdfast", 1)], pair.place(shared_redis))
    names = [f"{own_name}-{number}" for number in range(2)]
    # Given on two names: a reader that will be killed, and a renewed reader of the other side
    for name, one, other in zip(names, (ours, theirs), living, strict=True):
        assert take(one, name, "read", lease=2.0)
        assert take(other, name, "read", lease=0.0)
    crew.kill(ours)
    crew.kill(theirs)
    # When the lease of the dead reader has expired, and then the other reader releases
    for name in names:
        assert not take(writer, name, "write", wait=1.5)
    begun = boottime()
    for name, one in zip(names, living, strict=True):
        assert give(one, name)
        answer = one.ask("acquire", name=name, kind="write", wait=5, lease=5)
        # Then a writer holds at once; but old versions of Redisson renew dead readers, too
        theirs_kept = one is living[0] and pair is REDISSON["redisson 3.8.1"]
        assert answer["held"]
        took = answer["at"] - answer["asked"] - lag.since(begun)
        assert took < 1.5 + (WATCHDOG_S if theirs_kept else 0)
        assert give(one, name)


@pytest.mark.parametrize("pair", REDISSON.values(), ids=REDISSON)
def test_a_fair_lock_serves_both_sides_in_order(
    pair: Pair, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    which = [("holdfast", 0), (pair.client, 0), ("holdfast-asyncio", 0), (pair.client, 1)]
    place = pair.place(shared_redis, *KINDS["fair"])
    holder, *waiters = crew.several(which, place)
    late = crew.get("holdfast", place, 1)
    queue = f"redisson_lock_queue:{{{own_name}}}"
    # Given three waiters that came one after the other
    assert take(holder, own_name, "fair")
    for number, waiter in enumerate(waiters, 1):
        wait_for(waiter, own_name, "fair", wait=20)
        until(lambda many=number: shared_redis.ask("LLEN", queue) == many, "it is in the queue")
    # When the lock is released, and the first waiter is slow to take it
    waiters[0].stop()
    assert give(holder, own_name)
    # Then no other client takes it instead
    assert not take(late, own_name, "fair")
    assert not take(holder, own_name, "fair")
    waiters[0].go_on()
    # And when the lock is handed from one waiter to the next
    at = []
    for waiter in waiters:
        answer = waiter.hear()
        assert answer["held"]
        at.append(answer["at"])
        assert give(waiter, own_name)
    # Then no waiter was granted before an earlier one
    assert at == sorted(at)


#: By version: seconds for which a dead waiter keeps its place in the queue of a fair lock. In the
#: old version they don't depend on its wait.
STANDS_S = {"redisson": 2.0, **({"redisson 3.8.1": 5.0} if FULL else {})}


@pytest.mark.parametrize("version", STANDS_S)
def test_a_dead_waiter_in_a_fair_lock_costs_those_behind_it_no_more_than_its_wait(
    version: str, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    pair, stands = REDISSON[version], STANDS_S[version]
    place = pair.place(shared_redis, *KINDS["fair"], f"fair_wait={stands:g}")
    which = [("holdfast", 0), (pair.client, 0), ("holdfast", 1), (pair.client, 1)]
    holder, their_dead, our_dead, theirs = crew.several(which, place)
    ours = crew.get("holdfast-asyncio", place)
    # Given on two names: a waiter, and behind it a waiter of the other side
    names = [f"{own_name}-{number}" for number in range(2)]
    begun, asked = boottime(), {}
    for name, dead, behind in zip(names, (their_dead, our_dead), (ours, theirs), strict=True):
        answer = holder.ask("acquire", name=name, kind="fair", wait=0, lease=2.0)
        asked[name] = answer["at"]
        for number, worker in enumerate((dead, behind), 1):
            wait = 20.0 if worker is behind else stands
            wait_for(worker, name, "fair", wait=wait, lease=1.0)
            queue = f"redisson_lock_queue:{{{name}}}"
            until(lambda q=queue, n=number: shared_redis.ask("LLEN", q) == n, "it is in the queue")
    # When the first waiter of each name is killed
    crew.kill(their_dead)
    crew.kill(our_dead)
    # Then the other waiter holds after the lease and the wait of the dead one. (On a machine so
    # slow that the dead waiter held before it was killed: after its lease.)
    for name, worker in zip(names, (ours, theirs), strict=True):
        answer = worker.hear()
        assert answer["held"]
        took = answer["at"] - asked[name]
        print(f"{worker.client} came in after {took:.2f} s")
        assert took < 2.0 + stands + 4.0 + lag.since(begun)


def test_fences_rise_over_the_grants_of_both_sides(
    crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    pair = REDISSON["redisson"]
    place = pair.place(shared_redis, "fenced=true")
    both = crew.several([("holdfast", 0), (pair.client, 0)], place)
    fences = []
    for worker in both * 3:
        answer = worker.ask("acquire", name=own_name, kind="fenced", wait=0, lease=60)
        fences.append(answer["fence"])
        assert give(worker, own_name)
    assert fences == sorted(set(fences))
    assert fences[0] > 0
