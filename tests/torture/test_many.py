"""Thousands of holds in one process: one thread renews all of them, and none is lost."""

from __future__ import annotations

import resource
import threading
import time

from holdfast import Client
from tests.torture.scale import times

HOLDS = times(10_000, 3_000)
TTL_S = 9.0
LASTS_S = times(30, 7)


def test_thousands_of_holds_are_renewed_by_one_thread(url: str) -> None:
    lost: list[object] = []
    # Threads of other tests, which can end during this test.
    others = set(threading.enumerate())
    with Client(url) as client:
        # Given thousands of holds
        begun = time.monotonic()
        holds = [
            client.lock(f"x{number}", ttl=TTL_S, on_lost=lambda *what: lost.append(what)).acquire()
            for number in range(HOLDS)
        ]
        print(f"{HOLDS} held after {time.monotonic() - begun:.1f} s")
        # When there was time for several renewals
        busy = resource.getrusage(resource.RUSAGE_SELF)
        begun = time.monotonic()
        threads = 0
        while (took := time.monotonic() - begun) < LASTS_S:
            threads = max(threads, len(set(threading.enumerate()) - others))
            time.sleep(0.05)
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu = used.ru_utime + used.ru_stime - busy.ru_utime - busy.ru_stime
        print(f"{threads} thread(s), {len(lost)} lost, {cpu / took:.1%} of one core")
        # Then no hold is lost, and one thread has renewed all of them
        assert lost == []
        for hold in holds:
            hold.check()
            assert hold.remaining() > TTL_S / 3
        assert threads == 1
        assert all(hold.release() for hold in holds)
        assert client.inspect() == []
