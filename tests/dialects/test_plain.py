"""The contents of a plain key, and other clients that use the same format."""

from __future__ import annotations

import re
import time

import pytest
import redis

from holdfast import Client, LockLost, NotSupported
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


def test_a_layout_is_what_its_client_writes(
    shared_redis: RedisServer, raw: redis.Redis, own_name: str
) -> None:
    for layout, (start, shape) in LAYOUTS.items():
        url = f"redis+plain://127.0.0.1:{shared_redis.port}/0?layout={layout}"
        for _ in range(2):
            with Client(url) as locks, locks.lock(own_name, ttl=7):
                token = raw.get(start + own_name)
                assert isinstance(token, bytes), layout
                assert re.fullmatch(shape, token.decode()), layout
                assert 6000 < raw.pttl(start + own_name) <= 7000
            assert raw.get(start + own_name) is None
    # python-redis-lock waits for a signal, which is pushed once
    assert raw.lrange(f"lock-signal:{own_name}", 0, -1) == [b"1"]
    assert 0 < raw.pttl(f"lock-signal:{own_name}") <= 1000


def test_the_classic_settings_are_what_the_service_in_java_writes(
    ours: Ours, raw: redis.Redis, own_name: str
) -> None:
    locks = ours(prefix="REDIS_LOCK_", token="uuid-timestamp", unit="seconds")
    with locks.lock(own_name, ttl=19.2) as hold:
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


def test_a_holder_of_redis_py_is_shown_without_its_token(
    ours: Ours, raw: redis.Redis, prefix: str
) -> None:
    locks = ours()
    theirs = raw.lock(prefix + "*", timeout=20)
    assert theirs.acquire(blocking=False)
    # Given also a key of another type, and a tombstone
    raw.hset(prefix + "hash", "a", "b")
    raw.set("{" + prefix + "x}:holdfast-gone:y", "", px=5000)
    with locks.lock("held"):
        assert [line.name for line in locks.inspect()] == ["*", "held"]
    (line,) = locks.inspect("*")
    (holder,) = line.holders
    assert re.fullmatch(r"token#[0-9a-f]{10}", holder.owner)
    assert 19 < holder.expires_in <= 20
    assert holder.age < 0
    assert theirs.local.token.decode() not in repr(line)
    # And a break with another fence changes nothing
    assert locks.break_("*", holder.fence + 1) is False
    assert theirs.owned()


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
    with pytest.raises(NotSupported, match=r"redis\+plain://"):
        locks.semaphore(own_name, 2)
