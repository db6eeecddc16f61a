"""Traps of releasing: a client deletes a lock that another client holds."""

from __future__ import annotations

import threading
from collections.abc import Callable

import redis

from holdfast import Client, Hold, Loss, StoreUnavailable
from holdfast.testing.faults import HOLD_REQUEST, Proxy
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.traps.naive import DeleteAnyway, GetThenDelete

TTL_S = 0.3
#: Seconds of a lease that is released before it expires.
IN_TIME_S = 2.0
Plain = Callable[[], redis.Redis]
Ours = Callable[..., Client]


def run_out(server: RedisServer, name: str) -> None:
    """Let the lease of a naive lock expire."""
    server.ask("PEXPIRE", name, 1)
    until(lambda: not server.ask("EXISTS", name), "its lease is over")


def holds(client: Client, name: str) -> Hold:
    """Wait for the lock with this client, and return the hold."""
    hold = client.lock(name).acquire(timeout=10)
    assert hold
    return hold


def test_del_removes_the_lock_of_another_client(
    plain: Plain, shared_redis: RedisServer, own_name: str
) -> None:
    # Given a client whose lease expired before its work ended, and another client that holds now
    late, other, third = (DeleteAnyway(plain()) for _ in range(3))
    assert late.acquire(own_name)
    run_out(shared_redis, own_name)
    assert other.acquire(own_name)
    # When the first client is done
    late.release(own_name)
    # Then a third client is granted next to the holder
    assert third.acquire(own_name)


def test_a_late_release_of_holdfast_ends_no_other_hold(ours: Ours, own_name: str) -> None:
    late = ours().lock(own_name, ttl=TTL_S, auto_renew=False).acquire()
    other = holds(ours(), own_name)
    # When the first client is done
    released = late.release()
    # Then its release reports the loss, and the other client still holds
    assert released is False
    assert late.lost is Loss.EXPIRED
    assert ours().lock(own_name).acquire(blocking=False) is None
    other.check()
    assert other.release()


def test_between_get_and_delete_the_lock_changes_its_owner(
    plain: Plain, shared_redis: RedisServer, own_name: str
) -> None:
    other, third = (GetThenDelete(plain()) for _ in range(2))

    def between() -> None:
        run_out(shared_redis, own_name)
        assert other.acquire(own_name)

    # Given a client whose lease ends between its GET and its DEL
    late = GetThenDelete(plain(), between)
    assert late.acquire(own_name)
    late.release(own_name)
    # Then a third client is granted next to the holder
    assert third.acquire(own_name)


def test_a_release_of_holdfast_that_arrives_late_ends_no_other_hold(
    proxy: Proxy, ours: Ours, own_name: str
) -> None:
    # Given a release that was sent in time, and is delayed on the way
    others = ours(), ours()
    late = ours(proxy).lock(own_name, ttl=IN_TIME_S, auto_renew=False).acquire()
    fault = proxy.arm(own_name.encode(), HOLD_REQUEST)
    answers: list[bool | StoreUnavailable] = []

    def release() -> None:
        try:
            answers.append(late.release())
        except StoreUnavailable as unknown:
            answers.append(unknown)

    releasing = threading.Thread(target=release)
    releasing.start()
    fault.wait()
    # When the lease expires during the delay, and another client holds
    other = holds(others[0], own_name)
    fault.let_go()
    releasing.join(10)
    # Then the first client gets no success, and the other client still holds
    assert answers != [True]
    assert others[1].lock(own_name).acquire(blocking=False) is None
    other.check()
    assert other.release()
