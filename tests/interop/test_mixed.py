"""Two lock families on one key don't exclude each other: holdfast refuses it and names both."""

from __future__ import annotations

import pytest

from holdfast import Client, ConfigError
from tests.interop.crew import Crew
from tests.interop.pairs import PLAIN, REDISSON, Pair
from tests.servers.redis_server import RedisServer


def refused(url: str, name: str, kind: str = "lock") -> str:
    """Return the words with which holdfast refuses this name."""
    with Client(url) as locks:
        lock = locks.rwlock(name).write if kind == "rw" else locks.lock(name)
        with pytest.raises(ConfigError) as told:
            lock.acquire(timeout=1)
    return str(told.value)


@pytest.mark.parametrize("theirs", REDISSON.values(), ids=REDISSON)
@pytest.mark.parametrize("kind", ["lock", "write"])
def test_a_plain_lock_meets_redisson(
    theirs: Pair, kind: str, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    java = crew.get(theirs.client, theirs.place(shared_redis))
    assert java.ask("acquire", name=own_name, kind=kind, wait=0, lease=60)["held"]
    before = shared_redis.ask("DUMP", own_name)
    # When holdfast acquires a plain lock with that name
    said = refused(PLAIN["redis-py"].url(shared_redis), own_name)
    # Then the error names both families, and the key is unchanged
    assert "lock of Redisson" in said
    assert "plain lock" in said
    assert shared_redis.ask("DUMP", own_name) == before
    assert java.ask("release", name=own_name)["released"]


@pytest.mark.parametrize("theirs", PLAIN.values(), ids=PLAIN)
def test_a_lock_of_redissons_meets_a_plain_one(
    theirs: Pair, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    other = crew.get(theirs.client, theirs.place(shared_redis))
    assert other.ask("acquire", name=own_name, kind="lock", wait=0, lease=60)["held"]
    key = theirs.prefix + own_name
    before = shared_redis.ask("DUMP", key)
    # When holdfast acquires a lock of Redisson with that name
    said = refused(REDISSON["redisson"].url(shared_redis), key)
    # Then the error names both families, and the key is unchanged
    assert "lock of Redisson" in said
    assert "plain lock" in said
    assert shared_redis.ask("DUMP", key) == before
    assert other.ask("release", name=own_name)["released"]


@pytest.mark.parametrize("theirs", REDISSON.values(), ids=REDISSON)
def test_a_lock_of_redissons_meets_a_read_write_lock_of_redissons(
    theirs: Pair, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    java = crew.get(theirs.client, theirs.place(shared_redis))
    assert java.ask("acquire", name=own_name, kind="read", wait=0, lease=60)["held"]
    assert "read-write lock of Redisson" in refused(theirs.url(shared_redis), own_name)
    assert java.ask("release", name=own_name)["released"]
    # And the other way round
    assert java.ask("acquire", name=own_name, kind="lock", wait=0, lease=60)["held"]
    assert "lock of Redisson" in refused(theirs.url(shared_redis), own_name, "rw")
    assert java.ask("release", name=own_name)["released"]
