"""Permits with leases: the number of free permits, and the others' holders and leases."""

from __future__ import annotations

import secrets
import time

import pytest

from holdfast import ConfigError, NotSupported
from holdfast.core.model import Loss
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag

from .conftest import Play, Scene


def take(at: Scene, name: str, lease_s: float) -> bytes:
    """Take a permit as a peer does."""
    permit = secrets.token_bytes(16)
    at.redis.decr(name)
    at.redis.zadd(f"{{{name}}}:timeout", {permit: round((time.time() + lease_s) * 1000)})
    return permit


def give(at: Scene, name: str, permit: bytes) -> None:
    """Release a permit as a peer does."""
    assert at.redis.zrem(f"{{{name}}}:timeout", permit) == 1
    at.redis.publish(f"redisson_sc:{{{name}}}", at.redis.incr(name))


def test_a_permit_is_an_id_of_16_bytes_and_the_time_of_its_end(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client()
        async with client.semaphore(at.name, 4, weight=3):
            assert at.redis.get(at.name) == b"1"
            held = at.redis.zrange(f"{{{at.name}}}:timeout", 0, -1, withscores=True)
            assert [len(permit) for permit, _ in held] == [16, 16, 16]
            for _, until in held:
                assert 20 < until / 1000 - time.time() < 32
            (line,) = await client.inspect(at.name, exact=True)
            assert [one.weight for one in line.holders] == [3]
        assert at.redis.get(at.name) == b"4"
        assert not at.redis.exists(f"{{{at.name}}}:timeout")

    play(text)


def test_permits_are_shared_with_the_peers(play: Play) -> None:
    async def text(at: Scene) -> None:
        semaphore = at.client().semaphore(at.name, 2)
        at.redis.set(at.name, 2)
        theirs = take(at, at.name, 60)
        async with semaphore:
            assert await semaphore.acquire(blocking=False) is None
            assert await semaphore.available() == 0
        waiter = at.face.start(
            lambda: at.client().semaphore(at.name, 2, weight=2).acquire(timeout=10)
        )
        await at.listening(f"redisson_sc:{{{at.name}}}")
        await at.face.sleep(0.05)
        begun = boottime()
        give(at, at.name, theirs)
        hold = await waiter.result()
        assert boottime() - begun < 0.8 + lag.since(begun)
        assert await hold.release()

    play(text)


def test_a_dead_peers_permit_returns_when_its_lease_expires(play: Play) -> None:
    async def text(at: Scene) -> None:
        at.redis.set(at.name, 1)
        took = []
        for _ in range(3):
            take(at, at.name, 0.4)
            begun = boottime()
            hold = await at.client().semaphore(at.name, 1).acquire(timeout=10)
            took.append(boottime() - begun - lag.since(begun))
            assert await hold.release()
            assert at.redis.get(at.name) == b"1"
        assert min(took) < 0.4 + 0.5  # else it would be a second, each time

    play(text)


def test_an_expired_permit_is_lost_and_returned_once(play: Play) -> None:
    async def text(at: Scene) -> None:
        semaphore = at.client().semaphore(at.name, 1, ttl=0.5, auto_renew=False)
        hold = await semaphore.acquire()
        await at.face.sleep(0.6)
        async with at.client().semaphore(at.name, 1):
            assert await at.give_back(hold) is False
            assert hold.lost is Loss.EXPIRED
            assert at.redis.get(at.name) == b"0"
        assert at.redis.get(at.name) == b"1"

    play(text)


def test_a_release_publishes_how_many_are_free(play: Play) -> None:
    async def text(at: Scene) -> None:
        hold = await at.client().semaphore(at.name, 7, weight=2).acquire()
        at.peer.hear(f"redisson_sc:{{{at.name}}}")
        assert await hold.release()
        assert at.peer.heard() == b"7"

    play(text)


def test_another_number_than_the_peers_is_refused_and_stays(play: Play) -> None:
    async def text(at: Scene) -> None:
        at.redis.set(at.name, 3)  # nobody holds any, and still it is theirs
        with pytest.raises(ConfigError, match="3 permits"):
            await at.client().semaphore(at.name, 8).acquire()
        assert at.redis.get(at.name) == b"3"

    play(text)


def test_counted_permits_are_taken_off_the_number_and_put_back(play: Play) -> None:
    async def text(at: Scene) -> None:
        semaphore = at.client("permits=counted").semaphore(at.name, 5, weight=2)
        at.redis.set(at.name, 3)  # of 5, of which peers have 2
        at.peer.hear(f"redisson_sc:{{{at.name}}}")
        assert await semaphore.available() == 3
        async with semaphore:
            assert at.redis.get(at.name) == b"1"
            assert await semaphore.available() == 1
            assert await semaphore.acquire(blocking=False) is None
            assert not at.redis.exists(f"{{{at.name}}}:timeout")
        assert at.redis.get(at.name) == b"3"
        assert at.peer.heard() == b"3"
        assert await semaphore.available() == 3

    play(text)


def test_a_waiter_for_a_counted_permit_is_woken_by_a_peer(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client("permits=counted")
        at.redis.set(at.name, 0)
        waiter = at.face.start(lambda: client.semaphore(at.name, 5).acquire(timeout=10))
        channel = f"redisson_sc:{{{at.name}}}"
        await at.listening(channel)
        await at.face.sleep(0.05)
        begun = boottime()
        at.redis.publish(channel, at.redis.incr(at.name))
        hold = await waiter.result()
        assert boottime() - begun < 0.8 + lag.since(begun)
        assert await hold.release()
        assert at.redis.get(at.name) == b"1"

    play(text)


def test_an_expired_counted_permit_of_holdfast_returns_once(play: Play) -> None:
    async def text(at: Scene) -> None:
        semaphore = at.client("permits=counted").semaphore(at.name, 1, ttl=0.5, auto_renew=False)
        hold = await semaphore.acquire()
        other = await at.client("permits=counted").semaphore(at.name, 1).acquire(timeout=5)
        assert await at.give_back(hold) is False
        assert at.redis.get(at.name) == b"0"
        assert await other.release()
        assert at.redis.get(at.name) == b"1"

    play(text)


def test_the_number_of_counted_permits_can_not_be_changed_here(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client("permits=counted")
        with pytest.raises(NotSupported):
            await client.semaphore(at.name, 3).resize(4)

    play(text)
