"""The real caches that users have: Django, aiocache, cashews, cachetools, a dict."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import aiocache
import aiocache.serializers
import cachetools
import cashews
import pytest
import redis.asyncio

from holdfast import AsyncClient, AsyncGuard, Client, ConfigError, Guard, caches
from tests.servers.redis_server import RedisServer

VALUES = {"a": {"n": [1, 2.5, None]}, "b": "text \N{SNOWMAN}", "c": b"\0\xff" * 5, "k\n" * 99: ""}


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


#: Values of ``cache=`` for threads.
THREADS: dict[str, Callable[[Any, RedisServer], object]] = {
    "django, the default": lambda django, redis: caches.django(),
    "django, an object": lambda django, redis: django["default"],
    "django, redis": lambda django, redis: _django_redis(redis),
    "cachetools": lambda django, redis: cachetools.TTLCache(1000, 3600),
    "a bounded mapping": lambda django, redis: caches.mapping(cachetools.LRUCache(1000)),
    "redis-py": lambda django, redis: redis.client(),
    "dict": lambda django, redis: {},
}


def _aiocache_redis(server: RedisServer, serializer: str) -> Any:
    made = getattr(aiocache.serializers, serializer)()
    return aiocache.RedisCache(endpoint=server.host, port=server.port, serializer=made)


def _cashews(url: str) -> Any:
    made = cashews.Cache()
    made.setup(url)
    return made


#: Values of ``cache=`` for asyncio.
LOOP: dict[str, Callable[[Any, RedisServer], object]] = {
    "aiocache, memory": lambda django, redis: aiocache.SimpleMemoryCache(),
    "aiocache, redis, json": lambda django, redis: _aiocache_redis(redis, "JsonSerializer"),
    "aiocache, redis, text": lambda django, redis: _aiocache_redis(redis, "StringSerializer"),
    "cashews, memory": lambda django, redis: _cashews("mem://"),
    "cashews, redis": lambda django, redis: _cashews(redis.url),
    "redis-py": lambda django, server: redis.asyncio.Redis(host=server.host, port=server.port),
    "django, the default": lambda django, redis: "django",
    "django, redis": lambda django, redis: _django_redis(redis),
    "dict": lambda django, redis: {},
}


@pytest.fixture(params=THREADS.values(), ids=THREADS)
def guards(
    request: pytest.FixtureRequest, django_caches: Any, shared_redis: RedisServer, own_name: str
) -> Iterator[Callable[..., Guard]]:
    cache = request.param(django_caches, shared_redis)
    with contextlib.ExitStack() as ends:
        if isinstance(cache, redis.Redis):
            ends.callback(cache.close)

        def make(**options: Any) -> Guard:
            client = ends.enter_context(Client(f"memory://{own_name}"))
            return client.guard(own_name, cache=cache, **{"ttl": 60, **options})

        yield make


def test_a_cache_for_threads(guards: Callable[..., Guard]) -> None:
    ours, theirs = guards(), guards()
    for guard in (ours, theirs):
        assert guard.get_many(VALUES, VALUES.__getitem__) == VALUES
        assert {key: guard.get(lambda: "never", key=key) for key in VALUES} == VALUES
    assert theirs.inspect("c").size == 11
    assert ours.invalidate("a", "b", "none") == 2
    assert theirs.get(lambda: "new", key="a") == "new"
    computed = []

    def compute() -> int:
        computed.append(1)
        threading.Event().wait(0.2)
        return len(computed)

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit((ours, theirs)[n % 2].get, compute) for n in range(8)]
        assert [one.result(20) for one in asked] == [1] * 8


def test_an_expired_value_is_computed_again(guards: Callable[..., Guard]) -> None:
    guard = guards(ttl=0.2, stale=60)
    assert guard.get(lambda: 1) == 1
    threading.Event().wait(0.25)
    assert guard.get(lambda: 2) == 2


@contextlib.asynccontextmanager
async def looped(cache: object, name: str, **options: Any) -> AsyncIterator[list[AsyncGuard]]:
    """Two guards of two clients on this loop."""
    given = caches.django() if cache == "django" else cache
    async with AsyncClient(f"memory://{name}") as one, AsyncClient(f"memory://{name}") as two:
        yield [client.guard(name, ttl=60, cache=given, **options) for client in (one, two)]
    if isinstance(cache, aiocache.base.BaseCache):
        await cache.close()
    if isinstance(cache, cashews.Cache):
        await cache.close()
    if isinstance(cache, redis.asyncio.Redis):
        await cache.aclose()


@pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")  # theirs, of redis
@pytest.mark.parametrize("made", LOOP.values(), ids=LOOP)
def test_a_cache_for_asyncio(
    made: Callable[[Any, RedisServer], object],
    django_caches: Any,
    shared_redis: RedisServer,
    own_name: str,
) -> None:
    computed = []

    async def compute() -> int:
        computed.append(1)
        await asyncio.sleep(0.2)
        return len(computed)

    async def value(key: str) -> object:
        return VALUES[key]

    async def main() -> None:
        async with looped(made(django_caches, shared_redis), own_name) as (ours, theirs):
            for guard in (ours, theirs):
                assert await guard.get_many(VALUES, value) == VALUES
                for key, there in VALUES.items():
                    assert await guard.get(compute, key=key) == there
            assert await ours.invalidate("a", "b", "none") == 2
            assert await theirs.get(compute, key="a") == 1
            both = (ours, theirs)
            asked = [both[n % 2].get(compute) for n in range(8)]
            assert await asyncio.gather(*asked) == [2] * 8

    asyncio.run(main())


def test_a_cache_that_hangs_is_a_store_that_does_not_answer(own_name: str) -> None:
    class Hanging:
        async def get(self, *given: object) -> None:
            await asyncio.sleep(3600)

        set = delete = get

    async def compute() -> int:
        return 1

    async def main() -> None:
        async with AsyncClient(f"memory://{own_name}") as client:
            guard = client.guard(own_name, ttl=60, cache=Hanging(), on_store_error="compute")
            assert await guard.get(compute) == 1

    asyncio.run(main())


def test_a_caller_cancelled_during_the_cache_write_leaves_no_refresh_lease(own_name: str) -> None:
    class Slow(dict[str, bytes]):
        """A cache whose first write never ends."""

        def __init__(self) -> None:
            super().__init__()
            self.writing = asyncio.Event()

        async def aget(self, key: str) -> Any:
            return self.get(key)

        async def aset(self, key: str, data: bytes, seconds: int) -> None:
            if not self.writing.is_set():
                self.writing.set()
                await asyncio.sleep(3600)
            self[key] = data

        async def adelete(self, key: str) -> None:
            self.pop(key, None)

    async def compute() -> int:
        return 1

    async def main() -> None:
        slow = Slow()
        cache = SimpleNamespace(get=slow.aget, set=slow.aset, delete=slow.adelete)
        async with looped(cache, own_name, lease=60) as (ours, theirs):
            task = asyncio.create_task(ours.get(compute))
            await slow.writing.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # Long before the time limit for a cache write
            assert await theirs.get(compute, timeout=2) == 1

    asyncio.run(main())


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
