"""The real caches that users have: Django, aiocache, cashews, cachetools, a dict."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiocache
import aiocache.serializers
import cachetools
import cashews
import pytest
import redis.asyncio

from holdfast import Client, ConfigError, caches
from holdfast.testing.faces import FACES, Face
from tests.servers.redis_server import RedisServer

VALUES = {"a": {"n": [1, 2.5, None]}, "b": "text \N{SNOWMAN}", "c": b"\0\xff" * 5, "k\n" * 99: ""}
AIO = FACES["aio"]


@pytest.fixture(scope="module")
def django_caches() -> Any:
    """The caches that Django's settings define."""
    import django
    from django.conf import settings
    from django.core.cache import caches as found

    if not settings.configured:
        settings.configure(USE_TZ=True, LOGGING_CONFIG=None)
        django.setup()
    return found


def _django_redis(server: RedisServer) -> Any:
    from django.core.cache.backends.redis import RedisCache

    return RedisCache(server.url, {})


def _aiocache_redis(server: RedisServer, serializer: str) -> Any:
    made = getattr(aiocache.serializers, serializer)()
    return aiocache.RedisCache(endpoint=server.host, port=server.port, serializer=made)


def _cashews(url: str) -> Any:
    made = cashews.Cache()
    made.setup(url)
    return made


#: Values of ``cache=``, by face and name.
CACHES: dict[str, Callable[[Any, RedisServer], Any]] = {
    "sync: django, the default": lambda django, server: caches.django(),
    "sync: django, an object": lambda django, server: django["default"],
    "sync: django, redis": lambda django, server: _django_redis(server),
    "sync: cachetools": lambda django, server: cachetools.TTLCache(1000, 3600),
    "sync: a bounded mapping": lambda django, server: caches.mapping(cachetools.LRUCache(1000)),
    "sync: redis-py": lambda django, server: server.client(),
    "sync: dict": lambda django, server: {},
    "aio: aiocache, memory": lambda django, server: aiocache.SimpleMemoryCache(),
    "aio: aiocache, redis, json": lambda django, server: _aiocache_redis(server, "JsonSerializer"),
    "aio: aiocache, redis, text": lambda django, server: _aiocache_redis(
        server, "StringSerializer"
    ),
    "aio: cashews, memory": lambda django, server: _cashews("mem://"),
    "aio: cashews, redis": lambda django, server: _cashews(server.url),
    "aio: redis-py": lambda django, server: redis.asyncio.Redis(host=server.host, port=server.port),
    "aio: django, the default": lambda django, server: caches.django(),
    "aio: django, redis": lambda django, server: _django_redis(server),
    "aio: dict": lambda django, server: {},
}


@contextlib.asynccontextmanager
async def guards(face: Face, cache: object, name: str, **options: Any) -> AsyncIterator[list[Any]]:
    """Two guards of two clients."""
    url = f"memory://{name}"
    async with face.client(url) as one, face.client(url) as two:
        yield [client.guard(name, cache=cache, **{"ttl": 60, **options}) for client in (one, two)]


@pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")  # theirs, of redis
@pytest.mark.parametrize("name", CACHES)
def test_the_cache_of_a_library_serves(
    name: str, django_caches: Any, shared_redis: RedisServer, own_name: str
) -> None:
    face, computed = FACES[name.partition(":")[0]], list[int]()

    async def compute() -> int:
        computed.append(1)
        await face.sleep(0.2)
        return len(computed)

    async def value(key: str) -> object:
        return VALUES[key]

    async def main() -> None:
        cache = CACHES[name](django_caches, shared_redis)
        async with guards(face, cache, own_name) as both:
            ours, theirs = both
            for guard in both:
                assert await guard.get_many(VALUES, value) == VALUES
                for key, there in VALUES.items():
                    assert await guard.get(compute, key=key) == there
            assert (await theirs.inspect("c")).size == 11
            assert await ours.invalidate("a", "b", "none") == 2
            assert await theirs.get(compute, key="a") == 1
            # Of many callers one computes
            asked = [face.start(lambda guard=guard: guard.get(compute)) for guard in both * 4]  # type: ignore[misc]
            assert [await one.result() for one in asked] == [2] * 8
        # An expired value is computed again
        async with guards(face, cache, f"{own_name}:short", ttl=0.1, stale=60) as (guard, _):
            assert await guard.get(compute) == 3
            await face.sleep(0.15)
            assert await guard.get(compute) == 4
        if isinstance(cache, aiocache.base.BaseCache | cashews.Cache):
            await cache.close()
        if isinstance(cache, redis.asyncio.Redis):
            await cache.aclose()
        if isinstance(cache, redis.Redis):
            cache.close()

    face.run(main, 60.0)


def test_a_cache_that_hangs_is_a_store_that_does_not_answer(own_name: str) -> None:
    class Hanging:
        async def get(self, *given: object) -> None:
            await asyncio.sleep(3600)

        set = delete = get

    async def compute() -> int:
        return 1

    async def main() -> None:
        async with guards(AIO, Hanging(), own_name, on_store_error="compute") as (guard, _):
            assert await guard.get(compute) == 1

    AIO.run(main, 60.0)


def test_a_caller_cancelled_during_the_cache_write_leaves_no_refresh_lease(own_name: str) -> None:
    class Slow:
        """A cache whose first write never ends."""

        def __init__(self) -> None:
            self.values: dict[str, bytes] = {}
            self.writing = asyncio.Event()

        async def get(self, key: str) -> Any:
            return self.values.get(key)

        async def set(self, key: str, data: bytes, seconds: int) -> None:
            if not self.writing.is_set():
                self.writing.set()
                await asyncio.sleep(3600)
            self.values[key] = data

        async def delete(self, key: str) -> None:
            self.values.pop(key, None)

    async def compute() -> int:
        return 1

    async def main() -> None:
        cache = Slow()
        async with guards(AIO, cache, own_name, lease=60) as (ours, theirs):
            task = asyncio.create_task(ours.get(compute))
            await cache.writing.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # Long before the time limit for a cache write
            assert await theirs.get(compute, timeout=2) == 1

    AIO.run(main, 60.0)


def test_a_library_is_not_given_what_is_another_kind(own_name: str) -> None:
    with Client(f"memory://{own_name}") as client:
        for one in (aiocache.SimpleMemoryCache(), _cashews("mem://")):
            with pytest.raises(ConfigError, match="AsyncClient"):
                client.guard(own_name, ttl=60, cache=one)
    for adapter in (caches.aiocache, caches.cashews, caches.django):
        with pytest.raises(ConfigError, match="it has no"):
            adapter(object())
        with pytest.raises(ConfigError, match="not the class"):
            adapter(dict)
    with pytest.raises(ConfigError, match="takes a mapping"):
        caches.mapping([])  # type: ignore[arg-type]


def test_no_library_is_imported_before_it_is_used() -> None:
    code = (
        "import sys; from holdfast import Client, caches\n"
        "g = Client('memory://').guard('g', ttl=1, cache={}); g.get(int)\n"
        "print([m for m in ('django', 'aiocache', 'cashews', 'dogpile', 'pickle', 'asyncio')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
