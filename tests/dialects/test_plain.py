"""The contents of a plain key, and mutual exclusion with libraries that use the same format."""

from __future__ import annotations

import asyncio
import re
import threading
import time

import pytest
import redis
import redis.asyncio

from holdfast import AsyncClient, LockLost, NotSupported
from holdfast.core.model import Loss
from tests.dialects.conftest import Ours
from tests.servers.redis_server import RedisServer

#: layout -> the beginning of its keys, the shape of its tokens.
LAYOUTS = {
    "redis-py": ("", r"[0-9a-f]{32}"),
    "node-redlock": ("", r"[0-9a-f]{32}"),
    "redsync": ("", r"[A-Za-z0-9+/]{22}=="),
    "pottery": ("redlock:", r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
    "python-redis-lock": ("lock:", r"[A-Za-z0-9+/]{24}"),
}


def client_of(server: RedisServer, query: str, db: int = 0) -> str:
    return f"redis+plain://127.0.0.1:{server.port}/{db}?{query}"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_what_its_client_writes(
    layout: str, shared_redis: RedisServer, raw: redis.Redis, own_name: str
) -> None:
    from holdfast import Client

    start, shape = LAYOUTS[layout]
    with (
        Client(client_of(shared_redis, f"layout={layout}")) as locks,
        locks.lock(own_name, ttl=7),
    ):
        token = raw.get(start + own_name)
        assert isinstance(token, bytes)
        assert re.fullmatch(shape, token.decode())
        assert 6000 < raw.pttl(start + own_name) <= 7000
    assert raw.get(start + own_name) is None


def test_the_classic_settings_are_what_the_service_in_java_writes(
    shared_redis: RedisServer, own_name: str
) -> None:
    from holdfast import Client

    query = "prefix=REDIS_LOCK_&token=uuid-timestamp&unit=seconds"
    locks = Client(client_of(shared_redis, query, db=15))
    with locks, shared_redis.client(db=15) as raw, locks.lock(own_name, ttl=19.2) as hold:
        token = raw.get(f"REDIS_LOCK_{own_name}")
        assert isinstance(token, bytes)
        uuid, _, when = token.decode().partition("_")
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid)
        assert re.fullmatch(r"20\d{15}", when)
        assert abs(time.mktime(time.strptime(when[:14], "%Y%m%d%H%M%S")) - time.time()) < 60
        assert raw.ttl(f"REDIS_LOCK_{own_name}") == 20  # whole seconds, rounded up
        assert hold.remaining() < 19.2  # and believed for no longer than was asked for
        assert hold.extend() > 18  # known by its UUID, whatever the time behind it
        assert locks.lock(own_name).acquire(blocking=False) is None


def test_the_signal_of_python_redis_lock_is_pushed_once(
    shared_redis: RedisServer, raw: redis.Redis, own_name: str
) -> None:
    from holdfast import Client

    with Client(client_of(shared_redis, "layout=python-redis-lock")) as locks:
        for _ in range(2):
            locks.lock(own_name, ttl=5).acquire().release()
        assert raw.lrange(f"lock-signal:{own_name}", 0, -1) == [b"1"]
        assert 0 < raw.pttl(f"lock-signal:{own_name}") <= 1000
        # And a client that waits for the signal, as python-redis-lock does, is woken by it
        raw.delete(f"lock-signal:{own_name}")
        hold = locks.lock(own_name, ttl=5).acquire()
        woken: list[object] = []
        waiter = threading.Thread(
            target=lambda: woken.append(raw.blpop([f"lock-signal:{own_name}"], timeout=10))
        )
        waiter.start()
        hold.release()
        waiter.join(10)
        assert woken == [(f"lock-signal:{own_name}".encode(), b"1")]


def test_redis_py_and_holdfast_exclude_each_other(
    ours: Ours, raw: redis.Redis, prefix: str, own_name: str
) -> None:
    locks = ours()
    theirs = raw.lock(prefix + own_name, timeout=20)
    # Given that holdfast holds: redis-py is refused, and can't release the lock
    with locks.lock(own_name):
        assert theirs.acquire(blocking=False) is False
        theirs.local.token = b"0" * 32
        with pytest.raises(redis.exceptions.LockError):
            theirs.release()
        assert locks.lock(own_name).locked()
    # Given that redis-py holds: holdfast is refused, and shows the holder without its token
    assert theirs.acquire(blocking=False)
    assert locks.lock(own_name).acquire(blocking=False) is None
    (line,) = locks.inspect(own_name, exact=True)
    (holder,) = line.holders
    assert re.fullmatch(r"token#[0-9a-f]{10}", holder.owner)
    assert 19 < holder.expires_in <= 20
    assert holder.age < 0
    assert theirs.local.token.decode() not in repr(line)
    # And a break with another fence changes nothing
    assert locks.break_(own_name, holder.fence + 1) is False
    assert theirs.owned()
    theirs.release()


def test_the_asyncio_lock_of_redis_py_and_holdfast_exclude_each_other(
    shared_redis: RedisServer, prefix: str, own_name: str
) -> None:
    async def main() -> None:
        raw = redis.asyncio.Redis(port=shared_redis.port)
        query = f"prefix={prefix}"
        async with raw, AsyncClient(client_of(shared_redis, query)) as locks:
            theirs = raw.lock(prefix + own_name, timeout=20)
            async with locks.lock(own_name):
                assert await theirs.acquire(blocking=False) is False
            assert await theirs.acquire(blocking=False)
            assert await locks.lock(own_name).acquire(timeout=0.1) is None
            waiter = asyncio.create_task(locks.lock(own_name).acquire(timeout=10))
            await asyncio.sleep(0.05)
            await theirs.release()
            hold = await waiter
            assert hold is not None
            assert await hold.release()

    asyncio.run(main())


def test_what_was_taken_away_is_never_taken_again_by_a_renewal(
    ours: Ours, raw: redis.Redis, prefix: str, own_name: str
) -> None:
    locks = ours()
    hold = locks.lock(own_name, ttl=30).acquire()
    raw.delete(prefix + own_name)
    with pytest.raises(LockLost) as caught:
        hold.extend()
    assert caught.value.reason is Loss.BROKEN
    assert raw.exists(prefix + own_name) == 0
    # And a renewal doesn't touch the key of another holder
    hold = locks.lock(own_name, ttl=30).acquire()
    raw.set(prefix + own_name, "theirs", px=5000)
    with pytest.raises(LockLost):
        hold.extend(60)
    assert hold.release() is False
    assert raw.get(prefix + own_name) == b"theirs"
    assert raw.pttl(prefix + own_name) <= 5000


def test_an_unsupported_operation_is_refused_and_names_the_alternative(
    ours: Ours, own_name: str
) -> None:
    locks = ours()
    with locks.lock(own_name) as hold:
        with pytest.raises(NotSupported, match="native store of holdfast"):
            _ = hold.fence
        assert "fence" not in repr(hold)
    for make in (
        lambda: locks.semaphore(own_name, 2),
        lambda: locks.rwlock(own_name),
        lambda: locks.election(own_name),
        lambda: locks.lock(own_name, min_hold=1),
    ):
        with pytest.raises(NotSupported, match=r"redis\+plain://"):
            make()


def test_tombstones_and_foreign_types_are_no_locks_in_a_list(
    ours: Ours, raw: redis.Redis, prefix: str
) -> None:
    locks = ours()
    raw.hset(prefix + "hash", "a", "b")
    raw.set("{" + prefix + "x}:holdfast-gone:y", "", px=5000)
    raw.set(prefix + "*", "token", px=5000)
    with locks.lock("held"):
        assert [line.name for line in locks.inspect()] == ["*", "held"]
        assert [line.name for line in locks.inspect("*")] == ["*"]
