"""A holder is killed or stopped, or a waiter is cut off: the other side waits, and gets its turn.

In each test there are two names: a process of one side holds, and one of the other side waits.
"""

from __future__ import annotations

import pytest

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from tests.interop.crew import Crew, Worker, give, take, wait_for
from tests.interop.pairs import PAIRS, REDISSON, Pair
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.torture.scale import FULL

#: Some libraries accept whole seconds only.
LEASE_S = 1.0
WATCHDOG_S = 3.0
SOME = PAIRS if FULL else {name: PAIRS[name] for name in ("redis-py", "redisson")}

lag.watch()


def crossed(
    pair: Pair, crew: Crew, server: RedisServer, name: str, watchdog: float = 30.0
) -> tuple[list[tuple[Worker, str]], list[tuple[Worker, str]]]:
    """A holder of each side, and the waiter of the other side for each; with their names."""
    which = [("holdfast", 0), (pair.client, 0), (pair.client, 1), ("holdfast-asyncio", 0)]
    workers = crew.several(which, pair.place(server, watchdog=watchdog))
    names = [f"{name}-0", f"{name}-1"]
    return [*zip(workers[:2], names, strict=True)], [*zip(workers[2:], names, strict=True)]


@pytest.mark.usual(2)
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_what_a_killed_process_held_comes_free_after_its_lease_both_ways(
    pair: Pair, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    holders, waiters = crossed(pair, crew, shared_redis, own_name)
    begun = boottime()
    taken = [
        holder.ask("acquire", name=name, kind="lock", wait=0, lease=LEASE_S)
        for holder, name in holders
    ]
    assert all(answer["held"] for answer in taken)
    for waiter, name in waiters:
        wait_for(waiter, name, wait=LEASE_S + 15, lease=LEASE_S)
    # When both holders are killed
    for holder, _ in holders:
        crew.kill(holder)
    # Then each waiter holds when the lease has expired, not before, and not much later
    for answer, (waiter, name) in zip(taken, waiters, strict=True):
        got = waiter.hear()
        assert got["held"]
        assert got["at"] - answer["asked"] >= LEASE_S
        assert got["at"] - answer["at"] < LEASE_S + 5 + lag.since(begun)
        give(waiter, name)


@pytest.mark.parametrize("pair", REDISSON.values(), ids=REDISSON)
def test_a_renewed_lock_stays_held_until_its_process_is_killed_both_ways(
    pair: Pair, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    holders, waiters = crossed(pair, crew, shared_redis, own_name, WATCHDOG_S)
    for holder, name in holders:
        assert take(holder, name, lease=0)
    # When the waiter waits for longer than the lease, and the holder renews
    for waiter, name in waiters:
        wait_for(waiter, name, wait=WATCHDOG_S * 1.4, lease=0)
    # Then the lock is not granted
    assert [waiter.hear()["held"] for waiter, _ in waiters] == [False, False]
    # And when the holders are killed, the waiters hold after the rest of the lease
    for waiter, name in waiters:
        wait_for(waiter, name, wait=WATCHDOG_S * 4, lease=0)
    begun = boottime()
    for holder, _ in holders:
        crew.kill(holder)
    answers = [waiter.hear() for waiter, _ in waiters]
    assert [answer["held"] for answer in answers] == [True, True]
    longest = max(answer["at"] - answer["asked"] for answer in answers)
    assert longest < WATCHDOG_S * 2 + lag.since(begun)
    # And the new holders can release, which ends their renewals
    for waiter, name in waiters:
        assert give(waiter, name)
        assert not shared_redis.ask("EXISTS", name)


@pytest.mark.parametrize("pair", SOME.values(), ids=SOME)
def test_a_holder_stopped_past_its_lease_takes_nothing_from_the_next(
    pair: Pair, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    # Given a holder of each side that is stopped until the other side holds
    sleepers, heirs = crossed(pair, crew, shared_redis, own_name)
    for sleeper, name in sleepers:
        assert take(sleeper, name, lease=LEASE_S)
        sleeper.stop()
    for heir, name in heirs:
        wait_for(heir, name, wait=15)
    assert [heir.hear()["held"] for heir, _ in heirs] == [True, True]
    before = [shared_redis.ask("DUMP", pair.prefix + name) for _, name in heirs]
    # When the stopped processes continue and release
    for sleeper, name in sleepers:
        sleeper.go_on()
        # Then the release reports that they no longer hold
        assert not give(sleeper, name)
    # And the next holders still hold, unchanged
    assert [shared_redis.ask("DUMP", pair.prefix + name) for _, name in heirs] == before
    for heir, name in heirs:
        assert give(heir, name)


@pytest.mark.usual(1)
@pytest.mark.parametrize("pair", REDISSON.values(), ids=REDISSON)
def test_a_waiter_that_is_cut_off_loses_the_message_but_not_its_turn(
    pair: Pair, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    holders, waiters = crossed(pair, crew, shared_redis, own_name)
    for holder, name in holders:
        assert take(holder, name, lease=6)
    for waiter, name in waiters:
        wait_for(waiter, name, wait=20)
        asked = ("PUBSUB", "NUMSUB", f"redisson_lock__channel:{{{name}}}")
        until(lambda asked=asked: shared_redis.ask(*asked)[1], f"it listens to {asked[2]}")
    # When the waiters' subscriptions are cut just before the release
    begun = boottime()
    assert shared_redis.ask("CLIENT", "KILL", "TYPE", "pubsub") >= 2
    answers = [holder.ask("release", name=name) for holder, name in holders]
    assert all(answer["released"] for answer in answers)
    # Then holdfast's waiter polls soon, and Redisson's when the lease that it received has expired
    took = [
        waiter.hear()["at"] - answer["at"]
        for (waiter, _), answer in zip(waiters, answers, strict=True)
    ]
    print(f"theirs after {took[0]:.2f} s, ours after {took[1]:.2f} s")
    assert took[0] < 6.0 + 3 + lag.since(begun)
    assert took[1] < 4.0 + lag.since(begun)
    for waiter, name in waiters:
        assert give(waiter, name)
