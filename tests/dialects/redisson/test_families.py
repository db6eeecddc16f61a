"""Keys of other lock families are refused with both families' names, and stay unchanged."""

from __future__ import annotations

import time

import pytest

from holdfast import Client, ConfigError

from .conftest import Scene, played


@played()
async def test_another_family_is_refused_by_name_and_left_alone(at: Scene) -> None:
    client, name = at.client(), at.name
    stamp = round((time.time() + 9) * 1000)
    foreign = {
        "a plain lock": lambda: at.redis.set(name, "0a" * 16, px=20_000),
        "a timestamp lock": lambda: at.redis.set(name, stamp),
        "the Redis type list and isn't a lock": lambda: at.redis.rpush(name, "x"),
        "the Redis type hash and isn't a lock": lambda: at.redis.hset(name, "field", "x"),
    }
    for words, make in foreign.items():
        at.redis.delete(name)
        make()
        before = at.redis.dump(name)
        for act in (
            lambda: client.lock(name).acquire(blocking=False),
            lambda: client.lock(name).acquire(timeout=5),
            lambda: client.lock(name).locked(),
            lambda: client.rwlock(name).read.acquire(timeout=5),
            lambda: client.rwlock(name).write.acquire(timeout=5),
            lambda: client.semaphore(name, 3).acquire(timeout=5),
        ):
            with pytest.raises(ConfigError, match=words) as caught:
                await act()
            assert "Redisson" in str(caught.value)
            assert name in str(caught.value)
        assert at.redis.dump(name) == before
        assert name not in [line.name for line in await client.inspect(name)]
    with Client(at.server.url) as native, native.lock(name):
        (key,) = at.redis.keys(f"holdfast:*:{name}")
        with pytest.raises(ConfigError, match="a line of holdfast"):
            await client.lock(key.decode()).acquire(blocking=False)


@played()
async def test_the_lock_families_of_redisson_are_distinguished(at: Scene) -> None:
    client = at.client()
    lock, rw = client.lock(at.name), client.rwlock(at.name)
    permits = client.semaphore(at.name, 3)
    async with lock:
        for other in (rw.read, rw.write, permits):
            with pytest.raises(ConfigError, match="a lock of Redisson"):
                await other.acquire(timeout=1)
    for side in (rw.read, rw.write):
        async with side:
            for other in (lock, permits):
                with pytest.raises(ConfigError, match="a read-write lock of Redisson"):
                    await other.acquire(timeout=1)
    async with permits:
        for other in (lock, rw.read, rw.write):
            with pytest.raises(ConfigError, match="permits of Redisson"):
                await other.acquire(timeout=1)


@played()
async def test_a_hold_whose_key_was_taken_by_another_family_is_lost(at: Scene) -> None:
    hold = await at.client().lock(at.name, ttl=0.6).acquire()
    at.redis.set(at.name, "token")
    assert await hold.wait_lost(5) is not None
    assert await at.give_back(hold) is False
    assert at.redis.get(at.name) == b"token"
