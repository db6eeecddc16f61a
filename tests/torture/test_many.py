"""Thousands of holds in one process: one thread renews all of them, and none is lost."""

from __future__ import annotations

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
        holds = [
            client.lock(f"x{number}", ttl=TTL_S, on_lost=lambda *what: lost.append(what)).acquire()
            for number in range(HOLDS)
        ]
        begun, threads = time.monotonic(), 0
        while time.monotonic() - begun < LASTS_S:
            threads = max(threads, len(set(threading.enumerate()) - others))
            time.sleep(0.05)
        assert lost == []
        for hold in holds:
            hold.check()
            assert hold.remaining() > TTL_S / 3
        assert threads == 1
        assert all(hold.release() for hold in holds)
        assert client.inspect() == []
