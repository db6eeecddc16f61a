"""Bugs planted into the connections to Redis, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

REDIS = [
    bug(
        "whoever waits for an answer waits anew after each signal",
        "tests/stores/redis/test_signals.py::test_a_server_that_is_silent_is_given_up_in_time",
        (
            "holdfast.stores.redis.blocking.link",
            (
                "        if not self._poll(seconds * 1e3):\n"
                '            raise TimeoutError("nothing yet")\n'
                "        return self._recv(most, _flags)"
            ),
            (
                "        tick = _TV.pack(1, 0)\n"
                "        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, tick)\n"
                "        return self._recv(most)"
            ),
        ),
    ),
]
