"""Traps of acquiring: two commands with a gap between them, and clients that die in the gap."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

import pytest
import redis

from holdfast import Client, Hold, StoreUnavailable
from holdfast.core import claims
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import HOLD_REPLY, HOLD_REQUEST, Proxy, Subject
from tests.servers.redis_server import RedisServer
from tests.traps.naive import (
    LEASE_S,
    ExistsThenSet,
    ExistsTheWrongWayRound,
    SetAndExpireTogether,
    SetThenExpire,
    Timestamp,
)

lag.watch()

WORKERS = "tests.traps.workers"
TTL_S = 0.4
#: Seconds of a lease that the test inspects before it expires.
SEEN_S = 3.0
#: Seconds by which an act can be late on a busy machine. The server or the proxy can pause for
#: longer than this process does.
SLACK_S = 5.0
Plain = Callable[[], redis.Redis]
Ours = Callable[..., Client]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a try wait longer than usual for a delayed reply."""
    monkeypatch.setattr(claims, "TRY_S", 5.0)


class Tries:
    """Two holdfast clients, each with a thread, whose requests reach the server together."""

    def __init__(self, proxy: Proxy, ours: Ours, name: str) -> None:
        clients = [ours(proxy) for _ in range(2)]
        self.results: list[Hold | None] = []
        self.held_back = proxy.arm(name.encode(), HOLD_REQUEST, times=2)
        self._threads = [
            threading.Thread(target=self._try, args=(client, name)) for client in clients
        ]
        for thread in self._threads:
            thread.start()
        # Both requests are on the way, and neither has a reply.
        self.held_back.wait(hits=2)

    def _try(self, client: Client, name: str) -> None:
        self.results.append(client.lock(name, ttl=30).acquire(blocking=False))

    def go(self) -> list[Hold | None]:
        """Forward both requests and return their results."""
        self.held_back.let_go()
        for thread in self._threads:
            thread.join(10)
        assert len(self.results) == 2
        return self.results


# -- exists, then set ------------------------------------------------------------------------


def test_exists_then_set_lets_two_in(plain: Plain, own_name: str) -> None:
    # Given two clients that check before they set
    second = ExistsThenSet(plain())
    got: list[bool] = []
    first = ExistsThenSet(plain(), between=lambda: got.append(second.acquire(own_name)))
    # When the second client runs between the check and the SET of the first one
    got.append(first.acquire(own_name))
    # Then both assume that they hold the lock
    assert got == [True, True]


@pytest.mark.usefixtures("patient")
def test_two_simultaneous_acquires_of_holdfast_are_not_both_granted(
    proxy: Proxy, ours: Ours, own_name: str
) -> None:
    (hold,) = [one for one in Tries(proxy, ours, own_name).go() if one is not None]
    hold.check()
    assert hold.release()


def test_the_inverted_test_refuses_what_is_free_and_grants_what_is_held(
    plain: Plain, own_name: str
) -> None:
    naive = ExistsTheWrongWayRound(plain())
    assert naive.acquire(own_name) is False
    assert ExistsThenSet(plain()).acquire(own_name)
    assert naive.acquire(own_name) is True


def test_holdfast_grants_a_free_name_and_refuses_a_held_one(ours: Ours, own_name: str) -> None:
    one, other = ours(), ours()
    hold = one.lock(own_name).acquire(blocking=False)
    assert hold
    assert other.lock(own_name).acquire(blocking=False) is None
    assert hold.release()
    again = other.lock(own_name).acquire(blocking=False)
    assert again
    assert again.fence > hold.fence
    assert again.release()


# -- set, then expire ------------------------------------------------------------------------


def test_a_death_between_setnx_and_expire_leaves_a_lock_without_an_end(
    plain: Plain, shared_redis: RedisServer, own_name: str
) -> None:
    # Given a process that is killed between the two commands
    with Subject(f"{WORKERS}:sets_then_expires", shared_redis.port, own_name) as one:
        assert one.hear() == "between"
        one.kill()
    # Then the lock never expires, and no client gets it again
    assert shared_redis.ask("PTTL", own_name) == -1
    assert not SetThenExpire(plain()).acquire(own_name)


def test_a_process_killed_inside_acquire_leaves_a_lock_for_its_lease(
    proxy: Proxy, ours: Ours, shared_redis: RedisServer, own_name: str
) -> None:
    next_one = ours()
    url = f"redis://127.0.0.1:{proxy.port}/0"
    with Subject(f"{WORKERS}:acquires", url, own_name, SEEN_S) as one:
        assert one.hear() == "ready"
        # Given a process that is killed after the server granted the lock, and before the reply
        # arrives
        answer = proxy.arm(own_name.encode(), HOLD_REPLY)
        one.say("go")
        answer.wait()
        begun = boottime()
        one.kill()
    # Then each of the lock's keys on the server has an expiry
    with shared_redis.client() as look:
        keys = list(look.scan_iter(match=f"*{own_name}*"))
    assert keys
    assert all(shared_redis.ask("PTTL", key) > 0 for key in keys)
    # And the next client gets the lock when the lease has expired
    with next_one.lock(own_name, timeout=20):
        assert boottime() - begun < SEEN_S + SLACK_S + lag.since(begun)


# -- set and expire together -----------------------------------------------------------------


def test_losers_of_a_multi_extend_the_lease_of_a_dead_winner(
    plain: Plain, shared_redis: RedisServer, own_name: str
) -> None:
    # Given a dead winner that has less than half of its lease left
    assert SetAndExpireTogether(plain()).acquire(own_name)
    shared_redis.ask("PEXPIRE", own_name, LEASE_S * 400)
    # When another client tries without success
    assert not SetAndExpireTogether(plain()).acquire(own_name)
    # Then the dead winner has a full lease again: while any client tries, it never ends
    assert shared_redis.ask("PTTL", own_name) > LEASE_S * 500


@pytest.mark.parametrize("waits", [False, True], ids=["who only try", "who wait"])
def test_losers_of_holdfast_do_not_extend_the_lease_of_a_dead_winner(
    ours: Ours, own_name: str, waits: bool
) -> None:
    # Given a winner that renews nothing, as if it was dead
    begun = boottime()
    winner = ours().lock(own_name, ttl=TTL_S, auto_renew=False).acquire()
    loser, watcher = ours(), ours()
    # When other clients try repeatedly
    left = [TTL_S]
    got = None
    while got is None:
        timeout = {"timeout": TTL_S / 8} if waits else {"blocking": False}
        with contextlib.suppress(StoreUnavailable):  # a server that stands still answers nobody
            got = loser.lock(own_name).acquire(**timeout)
        assert boottime() - begun < TTL_S + SLACK_S + lag.since(begun)
        holders = [
            one.expires_in
            for line in watcher.inspect(own_name, exact=True)
            for one in line.holders
            if one.fence == winner.fence
        ]
        left += holders
    # Then the lease only gets shorter, and the next client holds after its end
    assert left == sorted(left, reverse=True)
    assert got.fence > winner.fence
    assert got.release()


# -- the stale timestamp ---------------------------------------------------------------------


def test_two_clients_that_delete_a_stale_timestamp_both_hold(plain: Plain, own_name: str) -> None:
    # Given a lock whose timestamp has expired
    assert Timestamp(plain(), clock=lambda: time.time() - 2 * LEASE_S).acquire(own_name)
    second = Timestamp(plain())
    got: list[bool] = []
    first = Timestamp(plain(), between=lambda: got.append(second.acquire(own_name)))
    # When two clients find that, and the first to find it is the last to delete it
    got.append(first.acquire(own_name))
    # Then it has deleted the second one's new lock
    assert got == [True, True]


@pytest.mark.usefixtures("patient")
def test_two_acquires_of_holdfast_after_a_dead_holder_are_not_both_granted(
    proxy: Proxy, ours: Ours, own_name: str
) -> None:
    # Given a holder that renews nothing, as if it was dead, and two clients that request its lock
    dead = ours().lock(own_name, ttl=TTL_S, auto_renew=False).acquire()
    tries = Tries(proxy, ours, own_name)
    # When its lease has expired on the server
    watcher = ours()
    end = time.monotonic() + 10
    while watcher.lock(own_name).locked():
        assert time.monotonic() < end
    # Then one of them gets the lock
    (hold,) = [one for one in tries.go() if one is not None]
    assert hold.fence > dead.fence
    hold.check()
    assert hold.release()
