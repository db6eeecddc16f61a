"""A holder that is stopped past its lease, or a waiter that is cut off, harms no other side."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Self

import pytest

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.promise import promised
from tests.interop.crew import Crew
from tests.interop.pairs import OURS, PAIRS, REDISSON, Pair
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.torture.scale import FULL, times

LEASE_S = 1.0
SOME = PAIRS if FULL else {name: PAIRS[name] for name in ("redis-py", "redisson")}
#: Libraries whose waiters are woken by a message.
LISTENING = {name: pair for name, pair in SOME.items() if name in REDISSON}

lag.watch()


@pytest.mark.parametrize("pair", SOME.values(), ids=SOME)
def test_a_holder_stopped_past_its_lease_takes_nothing_from_the_next(
    pair: Pair, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    # Given a holder of each side that is stopped until the other side holds
    which = [("holdfast", 0), (pair.client, 0), (pair.client, 1), ("holdfast-asyncio", 0)]
    workers = crew.several(which, pair.place(shared_redis))
    sleepers, heirs = workers[:2], workers[2:]
    names = [f"{own_name}-{number}" for number in range(2)]
    for sleeper, name in zip(sleepers, names, strict=True):
        assert sleeper.ask("acquire", name=name, kind="lock", wait=0, lease=LEASE_S)["held"]
        sleeper.stop()
    for heir, name in zip(heirs, names, strict=True):
        heir.tell("acquire", name=name, kind="lock", wait=15, lease=60)
    assert [heir.hear()["held"] for heir in heirs] == [True, True]
    keys = [pair.prefix + name for name in names]
    before = [shared_redis.ask("DUMP", key) for key in keys]
    # When the stopped processes continue and release
    for sleeper, name in zip(sleepers, names, strict=True):
        sleeper.go_on()
        # Then the release reports that they no longer hold
        assert not sleeper.ask("release", name=name)["released"]
    # And the next holders still hold, unchanged
    assert [shared_redis.ask("DUMP", key) for key in keys] == before
    for heir, name in zip(heirs, names, strict=True):
        assert heir.ask("release", name=name)["released"]


@pytest.mark.parametrize("pair", LISTENING.values(), ids=LISTENING)
def test_a_waiter_that_is_cut_off_loses_the_message_but_not_its_turn(
    pair: Pair, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    # Given on two names: a holder of one side, and a waiter of the other side
    which = [("holdfast", 0), (pair.client, 0), (pair.client, 1), ("holdfast-asyncio", 0)]
    workers = crew.several(which, pair.place(shared_redis))
    holders, waiters = workers[:2], workers[2:]
    names = [f"{own_name}-{number}" for number in range(2)]
    for holder, name in zip(holders, names, strict=True):
        assert holder.ask("acquire", name=name, kind="lock", wait=0, lease=6)["held"]
    for waiter, name in zip(waiters, names, strict=True):
        waiter.tell("acquire", name=name, kind="lock", wait=20, lease=60)
        channel = f"redisson_lock__channel:{{{name}}}"
        asked = ("PUBSUB", "NUMSUB", channel)
        until(lambda asked=asked: shared_redis.ask(*asked)[1], f"it listens to {channel}")
    # When the waiters' subscriptions are cut just before the release
    begun = boottime()
    assert shared_redis.ask("CLIENT", "KILL", "TYPE", "pubsub") >= 2
    at = []
    for holder, name in zip(holders, names, strict=True):
        answer = holder.ask("release", name=name)
        assert answer["released"]
        at.append(answer["at"])
    # Then holdfast's waiter polls soon, and Redisson's when the lease that it received has expired
    took = [waiter.hear()["at"] - when for waiter, when in zip(waiters, at, strict=True)]
    print(f"theirs after {took[0]:.2f} s, ours after {took[1]:.2f} s")
    assert took[0] < 6.0 + 3 + lag.since(begun)
    assert took[1] < 4.0 + lag.since(begun)
    for waiter, name in zip(waiters, names, strict=True):
        assert waiter.ask("release", name=name)["released"]


class Cutter:
    """Cuts random connections of holdfast until the end of the block."""

    def __init__(self, server: RedisServer) -> None:
        self.cuts = 0
        self._client = server.client()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._cut)

    def _cut(self) -> None:
        while not self._over.wait(random.uniform(0.05, 0.25)):
            ours = [one for one in self._client.client_list() if one["name"].startswith("holdfast")]
            if ours:
                self.cuts += 1
                self._client.client_kill_filter(_id=random.choice(ours)["id"])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._client.close()


@pytest.mark.parametrize("pair", SOME.values(), ids=SOME)
def test_never_two_at_once_while_our_connections_are_cut(
    pair: Pair, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    workers = crew.several([*OURS, (pair.client, 0), (pair.client, 1)], pair.place(shared_redis))
    with Cutter(shared_redis) as cutter:
        record = crew.contend(
            {"ours": workers[:2], "theirs": workers[2:]},
            own_name,
            kind="lock",
            target=1 << 30,
            seconds=times(60, 3),
            wait=10.0,
            lease=5.0,
            inside={"ours": (0.002, 0.01), "theirs": pair.inside},
            pause={"ours": pair.pause, "theirs": pair.pause},
        )
    turns = Counter(turn.side for turn in record.turns)
    print(f"{cutter.cuts} cuts, {turns}, longest wait {record.longest_wait():.3f} s")
    assert record.trouble == []
    with promised("one holder"):
        assert record.overlaps() == []
    assert cutter.cuts > 3
    assert min(turns["ours"], turns["theirs"]) > 0
