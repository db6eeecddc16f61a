"""Permits with leases: the number of free permits, and the others' holders and leases."""

from __future__ import annotations

import secrets
import time

import pytest

from holdfast import ConfigError, NotSupported
from holdfast.core.model import Loss
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag

from .conftest import Scene, played


@played()
async def test_a_dead_peers_permit_returns_when_its_lease_expires(at: Scene) -> None:
    at.redis.set(at.name, 1)
    took = []
    for _ in range(3):
        at.redis.decr(at.name)
        until = round((time.time() + 0.4) * 1000)
        at.redis.zadd(f"{{{at.name}}}:timeout", {secrets.token_bytes(16): until})
        begun = boottime()
        hold = await at.client().semaphore(at.name, 1).acquire(timeout=10)
        took.append(boottime() - begun - lag.since(begun))
        assert await hold.release()
        assert at.redis.get(at.name) == b"1"
    assert min(took) < 0.4 + 0.5  # else it would be a second, each time


@played(kinds=("", "permits=counted"))
async def test_an_expired_permit_is_lost_and_returned_once(at: Scene) -> None:
    client, other = at.client(at.kind), at.client(at.kind)
    hold = await client.semaphore(at.name, 1, ttl=0.5, auto_renew=False).acquire()
    async with other.semaphore(at.name, 1, timeout=5):
        assert await at.give_back(hold) is False
        assert hold.lost is Loss.EXPIRED
        assert at.redis.get(at.name) == b"0"
    assert at.redis.get(at.name) == b"1"


@played()
async def test_another_number_than_the_peers_is_refused_and_stays(at: Scene) -> None:
    at.redis.set(at.name, 3)  # no client holds a permit, and still the key is Redisson's
    with pytest.raises(ConfigError, match="3 permits"):
        await at.client().semaphore(at.name, 8).acquire()
    assert at.redis.get(at.name) == b"3"


@played()
async def test_counted_permits_are_taken_off_the_number_and_put_back(at: Scene) -> None:
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
    with pytest.raises(NotSupported):
        await semaphore.resize(4)


@played()
async def test_a_waiter_for_a_counted_permit_is_woken_by_a_peer(at: Scene) -> None:
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
