"""Other ways to guard values in Redis: a bare read, a guard by hand, caches of other libraries."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ..contenders import peer
from ..servers import HOST, port, url
from ..shields import VALUE, Shielder


class BareGet:
    """GET of an existing value over redis-py.

    Two threads never share a connection, and the time of redis-py's pool isn't included."""

    def __init__(self, place: Path, _ttl: float, _stale: float) -> None:
        self._idle = [_single()]
        self._key = f"bare:{place}"
        self._idle[0].set(self._key, b"t" + VALUE.encode())

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        try:
            mine = self._idle.pop()
        except IndexError:
            mine = _single()
        value = mine.get(self._key)[1:].decode()
        self._idle.append(mine)
        return value

    def close(self) -> None:
        for one in self._idle:
            one.close()


def _single() -> Any:
    return peer("redis").Redis(HOST, port(), single_connection_client=True)


class BareGetTasks:
    """GET of an existing value over redis.asyncio."""

    def __init__(self, place: Path, _ttl: float, _stale: float) -> None:
        self._redis = peer("redis.asyncio").Redis(host=HOST, port=port())
        self._key = f"bare:{place}"
        peer("redis").Redis(HOST, port()).set(self._key, b"t" + VALUE.encode())

    async def get(self, key: str, compute: Callable[[], Any]) -> Any:
        return (await self._redis.get(self._key))[1:].decode()

    async def close(self) -> None:
        await self._redis.aclose()


class ByHand:
    """GET, then SET NX of a lock. The holder of the lock computes; the others poll every 10 ms."""

    def __init__(self, place: Path, ttl: float, _stale: float) -> None:
        self._redis = peer("redis").Redis(HOST, port())
        self._place, self._ttl = place, ttl

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        name, lock = f"hand:{self._place}:{key}", f"hand:{self._place}:{key}:lock"
        while True:
            found = self._redis.get(name)
            if found is not None:
                return json.loads(found)
            if self._redis.set(lock, "x", nx=True, ex=10):
                value = compute()
                self._redis.set(name, json.dumps(value), px=int(self._ttl * 1000))
                self._redis.delete(lock)
                return value
            time.sleep(0.01)

    def close(self) -> None:
        self._redis.close()


class Dogpile:
    """dogpile.cache with its lock in Redis; the lock has a time-out."""

    def __init__(self, place: Path, ttl: float, _stale: float) -> None:
        region = peer("dogpile.cache").make_region(key_mangler=lambda key: f"pile:{place}:{key}")
        self._region = region.configure(
            "dogpile.cache.redis",
            expiration_time=ttl,
            arguments={
                "host": HOST,
                "port": port(),
                "distributed_lock": True,
                "lock_timeout": 10,
                "redis_expiration_time": int(ttl * 2) + 60,
                "thread_local_lock": False,
            },
        )

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        return self._region.get_or_create(key, compute)

    def close(self) -> None:
        self._region.backend.writer_client.close()


class Django:
    """Django's cache with ``get_or_set``, in which every caller computes a missing value."""

    def __init__(self, place: Path, ttl: float, _stale: float) -> None:
        backend = peer("django.core.cache.backends.redis")
        self._cache = backend.RedisCache(url(), {"KEY_PREFIX": str(place)})
        self._ttl = ttl

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        return self._cache.get_or_set(key.replace(" ", "-"), compute, self._ttl)

    def close(self) -> None:
        self._cache.close()


class Cashews:
    """cashews, with its decorator and ``lock=True``."""

    def __init__(self, place: Path, ttl: float, _stale: float) -> None:
        self._cache = peer("cashews").Cache()
        self._cache.setup(url(), client_side=False)
        self._ttl, self._place = ttl, place
        self._made: dict[Any, Any] = {}

    async def get(self, key: str, compute: Callable[[], Awaitable[Any]]) -> Any:
        asks = self._made.get(compute)
        if asks is None:

            async def ask(key: str) -> Any:
                return await compute()

            name = f"cash:{self._place}:{{key}}"
            asks = self._made[compute] = self._cache(ttl=self._ttl, key=name, lock=True)(ask)
        return await asks(key=key)

    async def close(self) -> None:
        await self._cache.close()


class Aiocache:
    """aiocache, with its decorator ``cached_stampede``."""

    def __init__(self, place: Path, ttl: float, _stale: float) -> None:
        aiocache = peer("aiocache")
        decorate = aiocache.cached_stampede(
            lease=10,
            ttl=ttl,
            cache=aiocache.Cache.REDIS,
            endpoint=HOST,
            port=port(),
            serializer=peer("aiocache.serializers").JsonSerializer(),
            key_builder=lambda _f, _compute, key: f"aio:{place}:{key}",
        )

        async def ask(compute: Callable[[], Awaitable[Any]], key: str) -> Any:
            return await compute()

        self._asks = decorate(ask)

    async def get(self, key: str, compute: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            with contextlib.suppress(KeyError):  # raised if two tasks release its lock together
                return await self._asks(compute, key)

    async def close(self) -> None:
        await self._asks.cache.close()


SHIELDERS = [
    Shielder("GET, bare", BareGet, package="redis", reads=True),
    Shielder("GET, bare, asyncio", BareGetTasks, "asyncio", package="redis", reads=True),
    Shielder("GET and SET NX by hand", ByHand, package="redis"),
    Shielder("dogpile.cache", Dogpile, package="dogpile.cache"),
    Shielder("Django's cache", Django, package="django"),
    Shielder("cashews", Cashews, "asyncio", package="cashews"),
    Shielder("aiocache", Aiocache, "asyncio", package="aiocache"),
]
