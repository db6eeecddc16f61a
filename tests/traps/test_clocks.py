"""Traps of time: work that takes longer than the lease, and clocks that differ."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest
import redis

from holdfast import Client, LockLost, StoreUnavailable
from holdfast.testing.faults import Subject
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.traps.naive import GetThenDelete, Timestamp

TTL_S = 0.3
#: Seconds of a lease that is renewed, even if the machine pauses for two seconds.
KEPT_S = 4.0
Plain = Callable[[], redis.Redis]
Ours = Callable[..., Client]


def test_a_job_that_is_longer_than_its_lease_gets_company(
    plain: Plain, shared_redis: RedisServer, own_name: str
) -> None:
    # Given a job with a lock that no process renews
    assert GetThenDelete(plain()).acquire(own_name)
    # When it takes longer than its lease
    shared_redis.ask("PEXPIRE", own_name, 1)
    until(lambda: not shared_redis.ask("EXISTS", own_name), "its lease is over")
    # Then another job begins at the same time
    assert GetThenDelete(plain()).acquire(own_name)


def test_a_job_under_a_hold_may_be_longer_than_its_lease(ours: Ours, own_name: str) -> None:
    other = ours()
    with ours().lock(own_name, ttl=KEPT_S) as hold:
        # When the work takes longer than its lease
        end = time.monotonic() + 1.5 * KEPT_S
        tries = 0
        while time.monotonic() < end:
            # Then no other client is granted; a paused server can also send no reply
            with contextlib.suppress(StoreUnavailable):
                assert other.lock(own_name).acquire(blocking=False) is None
                tries += 1
        assert tries > 3
        hold.check()


def test_an_unrenewed_hold_of_holdfast_is_lost_at_its_deadline(ours: Ours, own_name: str) -> None:
    hold = ours().lock(own_name, ttl=TTL_S, auto_renew=False).acquire()
    other = ours().lock(own_name).acquire(timeout=10)
    # When another client holds, then the first client knows without a request that its lease has
    # ended
    with pytest.raises(LockLost):
        hold.check()
    # And the protected resource can distinguish the two by their fences
    assert other
    assert other.fence > hold.fence
    assert other.release()


def test_a_clock_that_is_ahead_takes_a_fresh_timestamp_for_a_stale_one(
    plain: Plain, own_name: str
) -> None:
    # Given two machines, one with a clock that is an hour ahead
    assert Timestamp(plain()).acquire(own_name)
    ahead = Timestamp(plain(), clock=lambda: time.time() + 3600)
    # Then this machine takes away a lock that was granted a moment ago
    assert ahead.acquire(own_name)


@pytest.mark.parametrize("clock", ["an_hour_ahead", "an_hour_behind"])
def test_the_wall_clock_of_a_client_of_holdfast_has_no_effect(
    ours: Ours, redis_url: str, own_name: str, clock: str
) -> None:
    arguments = ("tests.traps.workers:tries", redis_url, own_name)
    with Subject(*arguments, first=f"tests.traps.{clock}") as one:
        # Given a holder whose clock is right
        with ours().lock(own_name) as hold:
            # Then the client with the wrong clock is refused
            one.say("try")
            assert one.hear() is None
            hold.check()
        # And it gets the lock after that, with a greater fence
        one.say("try")
        assert one.hear() > hold.fence
        assert one.end() == 0
    with ours().lock(own_name, timeout=5) as later:
        assert later.fence > hold.fence
