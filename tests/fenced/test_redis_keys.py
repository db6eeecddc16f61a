"""The key that keeps the fence of a Redis key: in the same slot, and for this key alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import redis
import redis.asyncio

from holdfast import FenceRejected
from holdfast.fenced import AsyncFencedRedis, FencedRedis
from tests.servers.cluster import Cluster
from tests.servers.redis_server import RedisServer

KEYS = ["report", "{user:7}:cart", "a{b}c{d}", "open{", "{", "ä", "with space", "{x}}"]


def test_a_key_and_its_fence_are_in_one_slot(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(replicas=0)
    first = cluster.servers[0]
    with redis.RedisCluster(host=first.host, port=first.port) as client:
        guard = FencedRedis(client)
        for key in KEYS:
            guard.set(2, key, "new")
            with pytest.raises(FenceRejected):
                guard.set(1, key, "late")
            assert guard.fence(key) == 2
            assert client.get(key) == b"new"
            slots = {first.ask("CLUSTER", "KEYSLOT", one) for one in (key, guard.fence_key(key))}
            assert len(slots) == 1, key

    async def with_a_loop() -> None:
        async with redis.asyncio.RedisCluster(host=first.host, port=first.port) as client:
            guard = AsyncFencedRedis(client)
            for key in KEYS:
                with pytest.raises(FenceRejected):
                    await guard.set(1, key, "late")
                await guard.set(3, key, "newer")
                assert await guard.fence(key) == 3

    asyncio.run(with_a_loop())


def test_no_two_keys_have_one_fence(shared_redis: RedisServer) -> None:
    with shared_redis.client() as client:
        guard = FencedRedis(client)
        keys = ["a", "{a}", "{a}#fence", "a#fence", "{a}!", "{a}#fence!", "b{a}"]
        assert len({guard.fence_key(key) for key in keys}) == len(keys)
        assert guard.fence_key("a") == guard.fence_key(b"a")
