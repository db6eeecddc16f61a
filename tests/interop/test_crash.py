"""A process is killed while it holds: the other side gets the lock when the lease has expired."""

from __future__ import annotations

import pytest

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from tests.interop.crew import Crew
from tests.interop.pairs import PAIRS, PLAIN, Pair
from tests.servers.redis_server import RedisServer
from tests.torture.scale import FULL

#: Some libraries accept whole seconds only.
LEASE_S = 1.0
#: The usual run kills Redisson's process in the test of renewed leases only: `test_watchdog`.
SOME = PAIRS if FULL else PLAIN

lag.watch()


@pytest.mark.usual(2)
@pytest.mark.parametrize("pair", SOME.values(), ids=SOME)
def test_what_a_killed_process_held_comes_free_after_its_lease_both_ways(
    pair: Pair, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    # Given a holder of each side, and a waiter of the other side for each
    which = [("holdfast", 0), (pair.client, 0), (pair.client, 1), ("holdfast-asyncio", 0)]
    workers = crew.several(which, pair.place(shared_redis))
    holders, waiters = workers[:2], workers[2:]
    names = [f"{own_name}-{number}" for number in range(2)]
    begun = boottime()
    taken = [
        holder.ask("acquire", name=name, kind="lock", wait=0, lease=LEASE_S)
        for holder, name in zip(holders, names, strict=True)
    ]
    assert all(answer["held"] for answer in taken)
    for waiter, name in zip(waiters, names, strict=True):
        waiter.tell("acquire", name=name, kind="lock", wait=LEASE_S + 15, lease=LEASE_S)
    # When both holders are killed
    for holder in holders:
        crew.kill(holder)
    # Then each waiter holds when the lease has expired, not before, and not much later
    for answer, waiter in zip(taken, waiters, strict=True):
        got = waiter.hear()
        assert got["held"]
        assert got["at"] - answer["asked"] >= LEASE_S
        assert got["at"] - answer["at"] < LEASE_S + 5 + lag.since(begun)
    for waiter, name in zip(waiters, names, strict=True):
        waiter.ask("release", name=name)
