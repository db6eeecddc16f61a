"""Times of expiry as values of keys: what four commands can guarantee, and what they can't."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from holdfast import Client, ConfigError, LockLost
from holdfast.core.model import Loss
from holdfast.testing.faults import HOLD_REQUEST, Proxy
from tests.dialects.conftest import Behind, Ours
from tests.servers.fixtures import NewRedis
from tests.torture.scale import times

ROUNDS = times(300, 15)


def stale(raw: redis.Redis, key: str) -> None:
    """Leave the key of a holder whose lease ended a second ago."""
    raw.set(key, int((time.time() - 1) * 1000))


@pytest.mark.parametrize("unit", ["milliseconds", "seconds"])
def test_the_value_of_the_key_is_the_time_of_expiry(
    unit: str, ours: Ours, raw: redis.Redis, prefix: str, own_name: str
) -> None:
    locks = ours("timestamp", unit=unit)
    with locks.lock(own_name, ttl=20) as hold:
        stamp = raw.get(prefix + own_name)
        assert isinstance(stamp, bytes)
        left = int(stamp) / (1000 if unit == "milliseconds" else 1) - time.time()
        assert 19 < left <= 21
        assert hold.remaining() <= left
        assert raw.ttl(prefix + own_name) == -1
        assert ours("timestamp", unit=unit).lock(own_name).acquire(blocking=False) is None
    assert raw.exists(prefix + own_name) == 0


def test_of_two_clients_that_find_a_stale_lock_one_acquires_it(
    ours: Ours, proxy: Proxy, raw: redis.Redis, prefix: str
) -> None:
    first, second = ours("timestamp", proxy.port), ours("timestamp", proxy.port)
    for locks in (first, second):
        locks.lock("warm").acquire().release()
    for number in range(ROUNDS):
        name = f"x{number}"
        stale(raw, prefix + name)
        # Given two clients that find the key stale, and are about to replace it
        held = proxy.arm(b"GETSET", HOLD_REQUEST, times=2)
        with ThreadPoolExecutor(2) as pool:
            tries = [
                pool.submit(locks.lock(name, ttl=ttl).acquire, blocking=False)
                for locks, ttl in ((first, 20), (second, 3000))
            ]
            held.wait(hits=2)
            held.let_go()
            # Then one of them holds the name, and the key has that client's time of expiry
            (hold,) = [hold for one in tries if (hold := one.result(20))]
        stamp = raw.get(prefix + name)
        assert isinstance(stamp, bytes)
        assert abs(int(stamp) / 1000 - time.time() - hold.ttl) < 0.01 * hold.ttl + 1
        assert hold.extend() > 19
        assert hold.release() is True
        assert raw.exists(prefix + name) == 0


def test_a_late_release_does_not_delete_the_key_of_the_next_holder(
    ours: Ours, raw: redis.Redis, prefix: str, own_name: str
) -> None:
    late = ours("timestamp").lock(own_name, ttl=0.2, auto_renew=False).acquire()
    with ours("timestamp").lock(own_name, ttl=20, timeout=10) as hold:
        stamp = raw.get(prefix + own_name)
        assert late.release() is False
        assert raw.get(prefix + own_name) == stamp
        hold.check()


def test_a_stale_time_of_ones_own_is_left_to_others(
    ours: Ours, raw: redis.Redis, prefix: str, own_name: str
) -> None:
    hold = ours("timestamp").lock(own_name, ttl=0.1, auto_renew=False).acquire()
    time.sleep(0.15)
    assert hold.release() is False
    assert raw.exists(prefix + own_name) == 1  # another client can be replacing it
    with ours("timestamp").lock(own_name, timeout=5):
        pass


def test_a_late_renewal_restores_the_time_that_it_replaced(at: Behind) -> None:
    hold = at.warm("timestamp").lock(at.name, ttl=20, auto_renew=False).acquire()
    held = at.proxy.arm(b"GETSET", HOLD_REQUEST, times=1)
    with ThreadPoolExecutor(1) as pool:
        renewing = pool.submit(hold.extend)
        held.wait()
        theirs = b"%d" % int((time.time() + 50) * 1000)
        at.raw.set(at.key, theirs)
        held.let_go()
        with pytest.raises(LockLost) as lost:
            renewing.result(10)
    assert lost.value.reason is Loss.BROKEN
    assert at.raw.get(at.key) == theirs


def test_four_commands_are_enough(new_redis: NewRedis) -> None:
    rights = "+setnx +get +getset +del +hello +auth +select +client|setname"
    server = new_redis(users=(f"user old on >secret ~* -@all {rights}",))
    url = f"redis+timestamp://old:secret@127.0.0.1:{server.port}/0"
    with Client(url) as locks, Client(url) as other:
        with locks.lock("x", ttl=6.0) as hold:
            assert other.lock("x").acquire(blocking=False) is None
            assert other.lock("x").acquire(timeout=0.2) is None
            assert hold.extend() > 3
            assert other.lock("x").locked()
        with other.lock("x", timeout=5):
            pass
        server.ask("SET", "dead", int((time.time() + 0.3) * 1000))
        hold = locks.lock("dead").acquire(timeout=5)
        assert hold is not None
        assert locks.break_("dead", 1) is True
        assert hold.release() is False
        with pytest.raises(ConfigError, match="scan"):
            locks.inspect()


def test_a_time_that_another_has_overwritten_is_taken_for_ones_own(
    ours: Ours, raw: redis.Redis, prefix: str, own_name: str
) -> None:
    # Given a client that took over a stale key, and an old program that also wrote its time
    stale(raw, prefix + own_name)
    hold = ours("timestamp").lock(own_name, ttl=20, auto_renew=False).acquire()
    raw.getset(prefix + own_name, int((time.time() + 20) * 1000) + 3)
    # Then the client still holds, and its release deletes the key
    assert hold.extend() > 19
    raw.getset(prefix + own_name, int((time.time() + 20) * 1000) + 3)
    assert hold.release() is True
    assert raw.exists(prefix + own_name) == 0


def test_a_loser_of_a_take_over_restores_no_key_that_was_freed(at: Behind) -> None:
    locks = at.warm("timestamp")
    stale(at.raw, at.key)
    # Given a client that lost the race for a stale key, and is about to restore what it replaced
    held = at.proxy.arm(b"GETSET", HOLD_REQUEST, times=1)
    with ThreadPoolExecutor(1) as pool:
        loser = pool.submit(locks.lock(at.name).acquire, blocking=False)
        held.wait()
        theirs = b"%d" % int((time.time() + 50) * 1000)
        at.raw.set(at.key, theirs)
        back = at.proxy.arm(theirs, HOLD_REQUEST, times=1)
        held.let_go()
        back.wait()
        # When the winner releases before that
        at.raw.delete(at.key)
        back.let_go()
        # Then the name is free
        assert loser.result(10) is None
    assert at.raw.exists(at.key) == 0
