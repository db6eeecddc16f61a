"""A server that stands still is noticed, even if the test process itself is never late."""

from __future__ import annotations

import threading
import time

from holdfast.testing import lag
from holdfast.testing.conformance import arena, pulse
from holdfast.testing.faces import now
from tests.servers.fixtures import NewRedis

STILL_S = 0.6


def test_what_a_frozen_server_stole_is_allowed_for(new_redis: NewRedis) -> None:
    lag.watch()
    server = new_redis()
    with pulse.felt(server.url), pulse.felt(server.url):
        time.sleep(0.3)  # it has connected
        begun = now()
        server.stop()
        time.sleep(STILL_S)
        server.go_on()
        # Then the delay is known, also before the server has answered
        assert arena.stolen(begun) > STILL_S / 2
        time.sleep(0.2)
        assert arena.at_once(begun) > STILL_S
        assert arena.unclear(begun)
        assert [one.name for one in threading.enumerate()].count("holdfast-pulse") == 1
    # And a store in this process has no pulse
    for url in ("memory://here", "sqlite:///tmp/locks.db", "planted://"):
        with pulse.felt(url):
            assert "holdfast-pulse" not in [one.name for one in threading.enumerate()]
