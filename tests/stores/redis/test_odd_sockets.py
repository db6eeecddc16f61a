"""Sockets on which the kernel bounds a call in another way than usual.

On Windows the time-out of a call has another type. For gevent see
``tests/conformance/test_worlds.py``.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.blocking.link import Link
from holdfast.testing.faults import Proxy

#: A wait that doesn't end by itself is given up after this time.
STUCK_S = 20.0


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``setsockopt`` read the time-out of a call as Windows does: 32 bits, milliseconds."""
    given = socket.socket.setsockopt

    def setsockopt(sock: socket.socket, level: int, name: int, value: int | bytes) -> None:
        timed = level == socket.SOL_SOCKET and name in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO)
        if timed:
            raw = struct.pack("@i", value) if isinstance(value, int) else value
            (ms,) = struct.unpack_from("@I", raw)
            value = struct.pack("@ll", ms // 1000, ms % 1000 * 1000)
        given(sock, level, name, value)

    monkeypatch.setattr(socket.socket, "setsockopt", setsockopt)
    monkeypatch.delattr(socket, "MSG_DONTWAIT")
    monkeypatch.setattr("holdfast.stores.redis.blocking.link._flags", 0)


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_silent_server_blocks_no_call_with_patched_sockets(
    windows: None, proxy: Proxy, own_name: str, protocol: int
) -> None:
    client = Client(f"redis://127.0.0.1:{proxy.port}?protocol={protocol}")
    ended: list[BaseException | bool] = []

    def ask(timeout: float) -> None:
        try:
            with client.lock(own_name, timeout=timeout):
                ended.append(True)
        except StoreUnavailable as wrong:
            ended.append(wrong)

    # A name is handed over as usual
    with client.lock(own_name):
        thread = threading.Thread(target=ask, args=(STUCK_S,), daemon=True)
        thread.start()
        while not client.inspect(own_name, exact=True)[0].waiters:
            assert thread.is_alive()
    thread.join(STUCK_S)
    assert ended.pop() is True
    # And a call ends although the server is silent
    proxy.blackhole()
    thread = threading.Thread(target=ask, args=(0.5,), daemon=True)
    thread.start()
    thread.join(STUCK_S)
    assert ended, "the server is silent, and its client waits without a time limit"
    assert isinstance(ended[0], StoreUnavailable)


class Green(socket.socket):
    """A socket like those of gevent: it waits by itself, so the kernel's time-out is unused."""

    seconds: float | None = None

    def settimeout(self, seconds: float | None) -> None:
        self.seconds = seconds

    def recv(self, most: int, flags: int = 0) -> bytes:
        if not select.select([self], [], [], self.seconds)[0]:
            raise BlockingIOError if self.seconds == 0.0 else TimeoutError
        return super().recv(most)


class Driver:
    """The part of a redis-py connection that a link needs."""

    run_id = b""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock


def test_a_socket_that_waits_by_itself_gets_a_time_out() -> None:
    theirs, ours = socket.socketpair()
    with theirs, Green(fileno=ours.detach()) as green:
        link = Link(Driver(green))
        ended: list[bool] = []

        def ask() -> None:
            with contextlib.suppress(TimeoutError):
                link.ask(b"PING\r\n", boottime(), boottime() + 0.3)
            ended.append(link.stale())

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(STUCK_S)
        assert ended, "the peer is silent, and its client waits without a time limit"
        assert ended == [False]
