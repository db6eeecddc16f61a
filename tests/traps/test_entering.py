"""Traps of acquiring: requests that arrive together, and a client that dies before its reply."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.core import claims
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import HOLD_REPLY, HOLD_REQUEST, Proxy, Subject
from tests.servers.redis_server import RedisServer
from tests.traps.conftest import Ours

lag.watch()

#: Seconds of a lease that the test inspects before it expires.
SEEN_S = 3.0
#: Seconds by which an act can be late on a busy machine. The server or the proxy can pause for
#: longer than this process does.
SLACK_S = 5.0


def test_two_acquires_that_arrive_together_are_not_both_granted(
    proxy: Proxy, ours: Ours, own_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "TRY_S", 5.0)  # a try waits longer than usual for a late reply
    # Given a free name, or a holder that renews nothing, as if it was dead
    for name in (own_name, f"{own_name}:dead"):
        pair, watcher, fence = [ours(proxy) for _ in range(2)], ours(), 0
        if name.endswith("dead"):
            fence = watcher.lock(name, ttl=0.4, auto_renew=False).acquire().fence
        # When two requests are on the way, and neither has a reply
        held_back = proxy.arm(name.encode(), HOLD_REQUEST, times=2)
        with ThreadPoolExecutor(2) as pool:
            tries = [pool.submit(one.lock(name, ttl=30).acquire, blocking=False) for one in pair]
            held_back.wait(hits=2)
            end = time.monotonic() + 10
            while watcher.lock(name).locked():
                assert time.monotonic() < end
            held_back.let_go()
            # Then one of them gets the lock
            (hold,) = [hold for one in tries if (hold := one.result(10))]
        assert hold.fence > fence
        hold.check()
        assert hold.release()


def test_a_process_killed_inside_acquire_leaves_a_lock_for_its_lease(
    proxy: Proxy, ours: Ours, shared_redis: RedisServer, own_name: str
) -> None:
    next_one = ours()
    url = f"redis://127.0.0.1:{proxy.port}/0"
    with Subject("tests.traps.workers:acquires", url, own_name, SEEN_S) as one:
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
