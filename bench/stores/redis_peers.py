"""Grips on the locks of other libraries in Redis, each used as its documentation shows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis
import redis.asyncio

from ..contenders import peer
from ..servers import url
from .ours import own_name, several_of

#: The ttl of all locks in seconds: long enough that no lock expires during a measurement.
TTL_S = 60.0
#: Maximum connections of a pool: more than tasks, because redis-py's lock fails if the pool has no
#: connection left.
CONNECTIONS = 2048


class _Kept:
    """A grip on one lock object, which has ``acquire`` and ``release``, and its client."""

    lock: Any

    def __init__(self) -> None:
        self.client = redis.Redis.from_url(url())

    async def take(self) -> object:
        return self.lock.acquire()

    async def within(self, seconds: float) -> bool:
        return bool(self.lock.acquire(timeout=seconds))

    async def free(self) -> object:
        return self.lock.release()

    async def close(self) -> None:
        self.client.close()

    def pair(self) -> Callable[[], object]:
        acquire, release = self.lock.acquire, self.lock.release

        def pair() -> None:
            acquire()
            release()

        return pair


class RedisPy(_Kept):
    """redis-py's ``Lock``, which polls every 100 ms."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.lock = self.client.lock(own_name(place), timeout=TTL_S)

    async def within(self, seconds: float) -> bool:
        return bool(self.lock.acquire(blocking_timeout=seconds))


class PythonRedisLock(_Kept):
    """python-redis-lock's ``Lock``, whose waiters block on a list."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.lock = peer("redis_lock").Lock(self.client, own_name(place), expire=int(TTL_S))

    async def within(self, seconds: float) -> bool:
        # This library accepts only whole seconds.
        return bool(self.lock.acquire(timeout=max(1, round(seconds))))


class Pottery(_Kept):
    """pottery's ``Redlock`` with one master, which polls with pauses of at most 200 ms."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        # Without this, pottery logs a line for each wait.
        logging.getLogger("pottery").setLevel(logging.CRITICAL)
        self.lock = peer("pottery").Redlock(
            key=own_name(place), masters={self.client}, auto_release_time=TTL_S
        )


class RedisPyAsyncio:
    """redis-py's ``Lock`` for asyncio, which polls every 100 ms."""

    def __init__(self, place: Path) -> None:
        self._client = redis.asyncio.Redis.from_url(url())
        self._lock = self._client.lock(own_name(place), timeout=TTL_S)

    async def take(self) -> object:
        return await self._lock.acquire()

    async def within(self, seconds: float) -> bool:
        return bool(await self._lock.acquire(blocking_timeout=seconds))

    async def free(self) -> None:
        await self._lock.release()

    async def close(self) -> None:
        await self._client.aclose()

    def pair(self) -> Callable[[], object]:
        lock = self._lock

        async def pair() -> None:
            await lock.acquire()
            await lock.release()

        return pair


class RedisPyThreads:
    """One client of redis-py for many threads, and a new lock object for each use."""

    def __init__(self, _place: Path) -> None:
        self._client = redis.Redis.from_url(url(), max_connections=CONNECTIONS)

    def use(self, name: str, inside: Callable[[], object] = list) -> Callable[[], Any]:
        client = self._client

        def use() -> None:
            with client.lock(name, timeout=TTL_S):
                inside()

        return use

    async def close(self) -> None:
        self._client.close()


class RedisPyOneByOne(RedisPyThreads):
    """Ten names that are acquired one after the other."""

    def use(self, name: str, inside: Callable[[], object] = list) -> Callable[[], Any]:
        locks = [self._client.lock(one, timeout=TTL_S) for one in several_of(name)]

        def use() -> None:
            for lock in locks:
                lock.acquire()
            inside()
            for lock in reversed(locks):
                lock.release()

        return use


class PythonRedisLockThreads(RedisPyThreads):
    """One client of redis-py, and a new lock object of python-redis-lock for each use."""

    def use(self, name: str, inside: Callable[[], object] = list) -> Callable[[], Any]:
        client, make = self._client, peer("redis_lock").Lock

        def use() -> None:
            with make(client, name, expire=int(TTL_S)):
                inside()

        return use


class RedisPyTasks:
    """One client of redis-py for many tasks, and a new lock object for each use."""

    def __init__(self, _place: Path) -> None:
        self._client = redis.asyncio.Redis.from_url(url(), max_connections=CONNECTIONS)

    def use(self, name: str, inside: Callable[[], object] = list) -> Callable[[], Any]:
        client = self._client

        async def use() -> None:
            async with client.lock(name, timeout=TTL_S):
                inside()

        return use

    async def close(self) -> None:
        await self._client.aclose()
