"""Times of expiry as values of keys: what four commands can guarantee, and what they can't."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from holdfast import Client, ConfigError, Hold, LockLost
from holdfast.core.model import Loss
from holdfast.testing.faults import HOLD_REQUEST, Proxy
from tests.dialects.conftest import Ours
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.torture.scale import times
from tests.traps.naive import Timestamp

ROUNDS = times(300, 15)


def stale(raw: redis.Redis, key: str) -> None:
    """Leave the key of a holder whose lease ended a second ago."""
    raw.set(key, int((time.time() - 1) * 1000))


def wall_of(locks: Client, ahead: float) -> None:
    """Set this client's clock forward, as on a machine whose clock is wrong."""
    port: Any = locks._ctx.store._port  # type: ignore[attr-defined]
    port.wall = lambda: time.time() + ahead


def together(first: Callable[[], Hold | None], second: Callable[[], Hold | None]) -> list[Hold]:
    """The holds that two clients get that try at the same time."""
    got: list[Hold | None] = []
    crew = [threading.Thread(target=lambda one=one: got.append(one())) for one in (first, second)]
    for one in crew:
        one.start()
    for one in crew:
        one.join(20)
    assert len(got) == 2
    return [one for one in got if one is not None]


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
    one_gets_it(ours, proxy, raw, prefix)


def one_gets_it(ours: Ours, proxy: Proxy, raw: redis.Redis, prefix: str) -> None:
    """Let both clients find the key stale before either of them replaces it."""
    first, second = ours("timestamp", proxy.port), ours("timestamp", proxy.port)
    for locks in (first, second):
        locks.lock("warm").acquire().release()
    for number in range(ROUNDS):
        name = f"x{number}"
        stale(raw, prefix + name)
        # Given two clients that are about to replace the key
        held = proxy.arm(b"GETSET", HOLD_REQUEST, times=2)
        threading.Thread(target=lambda held=held: (held.wait(hits=2), held.let_go())).start()
        got = together(
            lambda name=name: first.lock(name, ttl=20).acquire(blocking=False),
            lambda name=name: second.lock(name, ttl=3000).acquire(blocking=False),
        )
        # Then one of them holds the name, and the key has that client's time of expiry
        (hold,) = got
        stamp = raw.get(prefix + name)
        assert isinstance(stamp, bytes)
        assert abs(int(stamp) / 1000 - time.time() - hold.ttl) < 0.01 * hold.ttl + 1
        assert hold.extend() > 19
        assert hold.release() is True
        assert raw.exists(prefix + name) == 0


def test_two_clients_that_delete_the_same_stale_lock_both_acquire_it(
    raw: redis.Redis, prefix: str, own_name: str
) -> None:
    # Both clients delete the key that they found stale: a weakness of this format
    key = prefix + own_name
    raw.set(key, time.time() - 1)
    second = Timestamp(raw)
    got: list[bool] = []
    first = Timestamp(raw, between=lambda: got.append(second.acquire(key)))
    got.append(first.acquire(key))
    assert got == [True, True]


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
    assert raw.exists(prefix + own_name) == 1  # somebody may just be replacing it
    with ours("timestamp").lock(own_name, timeout=5):
        pass


def test_a_late_renewal_restores_the_time_that_it_replaced(
    ours: Ours, proxy: Proxy, raw: redis.Redis, prefix: str, own_name: str
) -> None:
    hold = ours("timestamp", proxy.port).lock(own_name, ttl=20, auto_renew=False).acquire()
    held = proxy.arm(b"GETSET", HOLD_REQUEST, times=1)
    lost: list[BaseException] = []

    def renew() -> None:
        try:
            hold.extend()
        except LockLost as wrong:
            lost.append(wrong)

    renewing = threading.Thread(target=renew)
    renewing.start()
    held.wait()
    theirs = b"%d" % int((time.time() + 50) * 1000)
    raw.set(prefix + own_name, theirs)
    held.let_go()
    renewing.join(10)
    assert [one.reason for one in lost] == [Loss.BROKEN]  # type: ignore[attr-defined]
    assert raw.get(prefix + own_name) == theirs


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


# -- weaknesses of the format, as the documentation describes them -----------------------------


def test_a_clock_that_is_ahead_takes_what_is_held(ours: Ours, own_name: str) -> None:
    locks, ahead = ours("timestamp"), ours("timestamp")
    wall_of(ahead, 60.0)
    hold = locks.lock(own_name, ttl=30).acquire()
    both = ahead.lock(own_name, ttl=30).acquire(blocking=False)
    assert both is not None
    hold.check()  # two believe that they hold, until the next renewal
    with pytest.raises(LockLost):
        hold.extend()
    assert both.release() is True


def test_a_break_with_an_old_fence_ends_the_present_hold(ours: Ours, own_name: str) -> None:
    locks = ours("timestamp")
    first = locks.lock(own_name, ttl=1.5, auto_renew=False).acquire()
    (seen,) = locks.inspect(own_name, exact=True)[0].holders
    time.sleep(1.55)
    hold = locks.lock(own_name, ttl=20).acquire(timeout=5)
    assert hold is not None
    assert locks.break_(own_name, seen.fence) is True  # it was the first that was meant
    assert first.release() is False
    assert hold.release() is False


def test_the_capabilities_say_so(ours: Ours, shared_redis: RedisServer) -> None:
    can = ours("timestamp").capabilities
    assert can.clock == "client"
    assert {can.fences, can.owners, can.wakes_waiters, can.fair, can.visible_line} == {False}


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


def test_a_loser_of_a_take_over_restores_no_key_that_was_freed(
    ours: Ours, proxy: Proxy, raw: redis.Redis, prefix: str, own_name: str
) -> None:
    locks = ours("timestamp", proxy.port)
    locks.lock("warm").acquire().release()
    stale(raw, prefix + own_name)
    # Given a client that lost the race for a stale key, and is about to restore what it replaced
    held = proxy.arm(b"GETSET", HOLD_REQUEST, times=1)
    got: list[Hold | None] = []
    loser = threading.Thread(
        target=lambda: got.append(locks.lock(own_name).acquire(blocking=False))
    )
    loser.start()
    held.wait()
    theirs = b"%d" % int((time.time() + 50) * 1000)
    raw.set(prefix + own_name, theirs)
    back = proxy.arm(theirs, HOLD_REQUEST, times=1)
    held.let_go()
    back.wait()
    # When the winner releases before that
    raw.delete(prefix + own_name)
    back.let_go()
    loser.join(10)
    # Then the name is free
    assert got == [None]
    assert raw.exists(prefix + own_name) == 0
