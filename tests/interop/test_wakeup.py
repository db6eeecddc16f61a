"""The time from a release on one side until the waiter on the other side holds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pytest

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.promise import promised
from tests.interop.crew import Crew
from tests.interop.pairs import PLAIN, REDISSON, Pair
from tests.interop.witness import Record, in_words
from tests.servers.redis_server import RedisServer
from tests.torture.scale import times

#: Maximum median seconds: with a message, to Redisson and from it; and from a release without a
#: message, of a plain lock. They allow for a busy machine; without notifications it takes 1 s.
SAID_S = times(20, 200) / 1000
NOTICED_S = times(5, 100) / 1000
#: Long enough for the waiter to wait before the release, so that only the message is measured.
INSIDE_S = 0.04
PAUSE_S = 0.02
LEASE_S = 5.0
TURNS = times(300, 8)
#: Maximum seconds for all turns.
LIMIT_S = 90.0

lag.watch()


def hand_over(
    pair: Pair, ours: str, crew: Crew, server: RedisServer, name: str
) -> tuple[Record, float]:
    """Let one worker of each side take turns; return the record and the mean delay of a step."""
    mine, theirs = crew.several([(ours, 0), (pair.client, 0)], pair.place(server))
    begun = boottime()
    record = crew.contend(
        {"ours": [mine], "theirs": [theirs]},
        name,
        kind="lock",
        target=TURNS,
        seconds=LIMIT_S,
        wait=LEASE_S,
        lease=LEASE_S,
        inside=dict.fromkeys(("ours", "theirs"), (INSIDE_S, INSIDE_S)),
        pause=dict.fromkeys(("ours", "theirs"), (PAUSE_S, PAUSE_S)),
    )
    assert record.trouble == []
    with promised("one holder"):
        assert record.overlaps() == []
    steps = (boottime() - begun) / lag.STEP_S
    return record, lag.stolen(begun) / steps


def judge(what: str, seconds: Sequence[float], most: float, late: float) -> None:
    """Check that the median is within the limit, plus the delays of this machine."""
    said = f"{in_words(what, seconds)}; the machine was late by {late * 1e3:.2f} ms for each step"
    print(said)
    assert len(seconds) >= TURNS, said
    # A release and the next acquire consist of steps in three processes.
    assert statistics.median(seconds) <= most + 3 * late, said


@pytest.mark.parametrize("ours", ["holdfast", "holdfast-asyncio"])
@pytest.mark.parametrize("pair", REDISSON.values(), ids=REDISSON)
def test_redisson_and_we_wake_each_other(
    pair: Pair, ours: str, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    record, late = hand_over(pair, ours, crew, shared_redis, own_name)
    judge("to us", record.handed("ours"), SAID_S, late)
    judge("to them", record.handed("theirs"), SAID_S, late)


@pytest.mark.parametrize("ours", ["holdfast", "holdfast-asyncio"])
@pytest.mark.parametrize("pair", [PLAIN["redis-py"], PLAIN["redlock"]], ids=["redis-py", "redlock"])
def test_a_plain_release_is_noticed_without_a_message(
    pair: Pair, ours: str, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    record, late = hand_over(pair, ours, crew, shared_redis, own_name)
    judge("to us", record.handed("ours"), NOTICED_S, late)


def test_the_signal_of_python_redis_lock_reaches_all_waiters(
    crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    pair = PLAIN["python-redis-lock"]
    record, late = hand_over(pair, "holdfast", crew, shared_redis, own_name)
    judge("to us", record.handed("ours"), NOTICED_S, late)
    judge("to them", record.handed("theirs"), SAID_S, late)
