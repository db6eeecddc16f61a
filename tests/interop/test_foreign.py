"""A client can neither acquire nor release what the other side holds, of this or another family."""

from __future__ import annotations

import pytest

from holdfast import Client, ConfigError
from tests.interop.crew import Crew, give, take
from tests.interop.pairs import KINDS, PAIRS, PLAIN, REDISSON, Pair
from tests.servers.redis_server import RedisServer

LEASE_S = 60.0
EACH = [(pair, "lock") for pair in PAIRS.values()]
EACH += [
    (pair, kind) for pair in REDISSON.values() for kind in ("fair", "read", "write", "permits")
]


@pytest.mark.parametrize("ours", ["holdfast", "holdfast-asyncio"])
@pytest.mark.parametrize("pair, kind", EACH, ids=[f"{pair.client}-{kind}" for pair, kind in EACH])
def test_a_release_by_another_client_is_refused_both_ways(
    pair: Pair, kind: str, ours: str, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    place, key = pair.place(shared_redis, *KINDS.get(kind, ())), pair.prefix + own_name
    both = crew.several([(ours, 0), (pair.client, 0)], place)
    for holder, other in (both, both[::-1]):
        # Given a holder
        assert take(holder, own_name, kind, lease=LEASE_S)
        before = shared_redis.ask("DUMP", key)
        assert before
        # When the other side tries to acquire the lock, and to release it
        if kind == "lock":
            assert not take(other, own_name, kind, lease=LEASE_S)
        assert other.ask("steal", name=own_name, kind=kind)["refused"]
        # Then the hold and its lease are unchanged
        assert shared_redis.ask("DUMP", key) == before
        if kind == "lock":
            assert 0 < shared_redis.ask("PTTL", key) <= LEASE_S * 1000
        # And the holder can release it
        assert give(holder, own_name)
        if kind == "lock":
            assert not shared_redis.ask("EXISTS", key)


#: The other client, the kind that it holds, holdfast's dialect and kind, and words of the refusal.
TWO = ("lock of Redisson", "plain lock")
MIXES: list[tuple[Pair, str, Pair, str, tuple[str, ...]]] = [
    *[(pair, "lock", REDISSON["redisson"], "lock", TWO) for pair in PLAIN.values()],
    *[(pair, "lock", PLAIN["redis-py"], "lock", TWO) for pair in REDISSON.values()],
    *[(pair, "write", PLAIN["redis-py"], "lock", TWO) for pair in REDISSON.values()],
    *[(pair, "read", pair, "lock", ("read-write " + TWO[0],)) for pair in REDISSON.values()],
    *[(pair, "lock", pair, "rw", TWO[:1]) for pair in REDISSON.values()],
]
IDS = [f"{theirs.client}-{kind}-{ours.client}-{mine}" for theirs, kind, ours, mine, _ in MIXES]


@pytest.mark.parametrize("theirs, kind, ours, mine, words", MIXES, ids=IDS)
def test_a_lock_of_another_family_is_refused_and_both_are_named(
    theirs: Pair,
    kind: str,
    ours: Pair,
    mine: str,
    words: tuple[str, ...],
    crew: Crew,
    shared_redis: RedisServer,
    own_name: str,
) -> None:
    other, key = crew.get(theirs.client, theirs.place(shared_redis)), theirs.prefix + own_name
    assert take(other, own_name, kind)
    before = shared_redis.ask("DUMP", key)
    with Client(ours.url(shared_redis)) as locks:
        name = key.removeprefix(ours.prefix)
        lock = locks.rwlock(name).write if mine == "rw" else locks.lock(name)
        with pytest.raises(ConfigError) as told:
            lock.acquire(timeout=1)
    # Then the error names both families, and the key is unchanged
    for word in words:
        assert word in str(told.value)
    assert shared_redis.ask("DUMP", key) == before
    assert give(other, own_name)
