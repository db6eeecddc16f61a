"""A renewed lock stays held beyond its lease until its process dies, on both sides."""

from __future__ import annotations

import pytest

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from tests.interop.crew import Crew
from tests.interop.pairs import REDISSON, Pair
from tests.servers.redis_server import RedisServer

WATCHDOG_S = 3.0

lag.watch()


@pytest.mark.parametrize("pair", REDISSON.values(), ids=REDISSON)
def test_a_renewed_lock_stays_held_until_its_process_is_killed_both_ways(
    pair: Pair, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    # Given a holder of each side that renews, and a waiter of the other side for each
    which = [("holdfast", 0), (pair.client, 0), (pair.client, 1), ("holdfast-asyncio", 0)]
    workers = crew.several(which, pair.place(shared_redis, watchdog=WATCHDOG_S))
    holders, waiters = workers[:2], workers[2:]
    names = [f"{own_name}-{number}" for number in range(2)]
    for holder, name in zip(holders, names, strict=True):
        assert holder.ask("acquire", name=name, kind="lock", wait=0, lease=0)["held"]
    # When the waiter waits for longer than the lease, and the holder renews
    for waiter, name in zip(waiters, names, strict=True):
        waiter.tell("acquire", name=name, kind="lock", wait=WATCHDOG_S * 1.4, lease=0)
    # Then the lock is not granted
    assert [waiter.hear()["held"] for waiter in waiters] == [False, False]
    # And when the holders are killed, the waiters hold after the rest of the lease
    for waiter, name in zip(waiters, names, strict=True):
        waiter.tell("acquire", name=name, kind="lock", wait=WATCHDOG_S * 4, lease=0)
    begun = boottime()
    for holder in holders:
        crew.kill(holder)
    answers = [waiter.hear() for waiter in waiters]
    assert [answer["held"] for answer in answers] == [True, True]
    longest = max(answer["at"] - answer["asked"] for answer in answers)
    assert longest < WATCHDOG_S * 2 + lag.since(begun)
    # And the new holders can release, which ends their renewals
    for waiter, name in zip(waiters, names, strict=True):
        assert waiter.ask("release", name=name)["released"]
        assert not shared_redis.ask("EXISTS", name)
