"""One connection, for one thread at a time: a request, its reply, and messages without a request.

The socket blocks, and the kernel ends a read after some milliseconds. So a request with a fast
reply costs only one write and one read. For a longer wait, the socket is polled instead. A read
would start its time limit again after each signal, and might never end. On Windows, with
TLS, and with sockets of gevent or eventlet, the kernel can't bound a read. There the socket
measures the time itself.

This class doesn't decide which thread may use a connection, and doesn't close a broken one. After
any exception, not only a network error, the caller must close the connection.
"""

from __future__ import annotations

import _socket
import contextlib
import socket
import struct
from collections import deque
from typing import Any

from ....runtime.blocking import boottime
from ....runtime.polling.blocking import READ, poller
from ..complaints import ServerSaid
from ..library import packed
from ..scripts import ending
from .resp import NO_REPLY, NOTHING, REPLY_BYTES_MAX, TOO_LONG, Push, new_reader, strange

_TV = struct.Struct("@ll")
#: Seconds after which the kernel ends a read.
SOON_S = 0.004
#: Seconds after which the kernel ends a write; if the socket measures the time, also a read.
TICK_S = 1.0
_BYTES = 65536
#: Bytes that one reply usually needs: a smaller buffer is faster to make.
_FEW_BYTES = 4096
#: Number of lines of a wake-up, in both protocols.
_POKE_LINES = 7
_COLON, _NEWLINE = b":\n"
#: Seconds by which a wait may end too early: this saves another call of the kernel.
NEAR_S = 0.01
#: The flag of a read that doesn't block; 0 on systems without this flag, which poll before each
#: read.
_flags: int = getattr(socket, "MSG_DONTWAIT", 0)


def _timed_by_kernel(sock: Any) -> bool:
    """Make the kernel bound each call on this socket; False if that isn't possible."""
    if getattr(type(sock), "recv", None) is not _socket.socket.recv:
        return False
    sock.settimeout(None)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TV.pack(0, int(SOON_S * 1e6)))
        # Read the time back: a kernel that expects another type accepts this one without effect.
        understood = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TV.size)
        if len(understood) != _TV.size or not 0 < _seconds(understood) < TICK_S:
            return False
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TV.pack(int(TICK_S), 0))
    except OSError:
        return False
    return True


def _seconds(time_value: bytes) -> float:
    whole, millionths = _TV.unpack(time_value)
    return float(whole + millionths / 1e6)


class Closed(ConnectionError):
    """The server closed the connection."""

    def __init__(self) -> None:
        super().__init__("the server closed the connection")


class Link:
    """One connection; see the module. ``mail``: wake-ups that have arrived. ``ear``: a second
    connection for wake-ups, if the protocol allows no wake-ups on this one."""

    __slots__ = (
        "__weakref__",
        "_driver",
        "_poll",
        "_reader",
        "_recv",
        "_send",
        "_sock",
        "_tick",
        "_timed",
        "_unread",
        "_whole",
        "dead",
        "ear",
        "ending",
        "mail",
        "subscribed",
        "used",
    )

    def __init__(self, driver: Any) -> None:
        #: The last arguments of each call here: the run id of the server, for recovery.
        self.ending = ending(driver.run_id)
        self._driver = driver  # it closes the socket when it is collected
        self._sock = sock = driver._sock
        self._send, self._recv = sock.sendall, sock.recv
        self._reader = new_reader()
        self._whole = True
        #: Bytes of an unfinished reply.
        self._unread = 0
        self._tick = 0.0
        self.ear: Link | None = None
        self.subscribed = False
        self.mail: deque[bytes] = deque()
        self.dead = False
        self.used = boottime()
        #: True if the socket measures the time itself.
        self._timed = not _timed_by_kernel(sock)
        poll = poller()
        poll.register(sock, READ)
        self._poll = poll.poll

    # -- requests ----------------------------------------------------------------------------

    def ask(self, wire: bytes, now: float, until: float) -> Any:
        """Send one request and read its reply; ``OSError`` if it doesn't come in time."""
        self.used = now
        if self._timed:
            self._beat(until - now)
        self._send(wire)
        try:
            data = self._recv(_FEW_BYTES)
        except (BlockingIOError, TimeoutError):
            data = self._wait(until)
        if not data:
            raise Closed
        if data[0] == _COLON and data[-1] == _NEWLINE and self._whole:
            try:
                return int(data[1:])  # nearly every reply is one integer
            except ValueError:
                pass  # more data follows the integer
        self._feed(data)
        return self._reply(until)

    def ask_many(self, wires: list[bytes], until: float) -> list[Any]:
        """Send many requests in one write, and read their replies."""
        self.used = now = boottime()
        if self._timed:
            self._beat(until - now)
        self._send(b"".join(wires))
        return [self._reply(until) for _ in wires]

    def ask_several(self, wire: bytes, count: int, now: float, until: float) -> list[Any]:
        """Send ``count`` requests that are packed together; return their replies."""
        self.used = now
        if self._timed:
            self._beat(until - now)
        self._send(wire)
        return [self._reply(until) for _ in range(count)]

    def subscribe(self, address: bytes, until: float) -> ServerSaid | None:
        """Subscribe to this address here; return the server's error if the server refuses."""
        self._send(packed(b"SUBSCRIBE", address))
        while True:
            said = self._next(until)
            if isinstance(said, ServerSaid):
                return said
            if isinstance(said, list) and said[:2] == [b"subscribe", address]:
                self.subscribed = True
                return None
            self._file(said)

    def listen(self, poke: bytes, until: float) -> bool:
        """Sleep until this wake-up arrives (True), or until the time-out has expired (False).
        Reads at least once."""
        while True:
            while (said := self._take()) is not NOTHING:  # the wake-up can have come with a reply
                self._file(said)
            while self.mail:
                if self.mail.popleft() == poke:
                    return True
            left = until - boottime()
            if left < -NEAR_S:
                return False
            try:
                data = self._next_bytes(max(left, 0.0), _FEW_BYTES)
            except (BlockingIOError, TimeoutError):
                if boottime() > until - NEAR_S:
                    return False
                continue
            if not data:
                raise Closed
            if self._whole and data.endswith(poke + b"\r\n") and data.count(b"\n") == _POKE_LINES:
                return True
            self._feed(data)

    def stale(self) -> bool:
        """True if the connection died while it was idle. Reads messages that have arrived."""
        try:
            if self._timed:
                self._sock.settimeout(0.0)
                self._tick = 0.0
                data = self._recv(_BYTES)
            else:
                if not _flags and not self._poll(0):
                    return False
                data = self._recv(_BYTES, _flags)
        except (BlockingIOError, TimeoutError):
            return False
        except OSError as wrong:
            return "want" not in type(wrong).__name__.lower()  # SSLWantReadError: idle, not dead
        if not data:
            return True
        self._feed(data)
        while (said := self._take()) is not NOTHING:
            self._file(said)
        return False

    # -- bytes ---------------------------------------------------------------------------------

    def _reply(self, until: float) -> Any:
        """The next message that is a reply."""
        while True:
            said = self._next(until)
            if not isinstance(said, Push):
                return said
            self._file(said)

    def _next(self, until: float) -> Any:
        while (said := self._take()) is NOTHING:
            data = self._read(until)
            if not data:
                raise Closed
            self._feed(data)
        return said

    def _take(self) -> Any:
        """The next message that has been read; `NOTHING` if there is none."""
        if self._whole:
            return NOTHING
        try:
            said = self._reader.gets()
        except NO_REPLY as wrong:
            raise strange(wrong) from wrong
        if said is not NOTHING:
            self._unread = 0
        if not self._reader.has_data():  # the next reply can be read without the reader
            self._whole = True
        return said

    def _feed(self, data: bytes) -> None:
        self._whole = False
        self._unread += len(data)
        if self._unread > REPLY_BYTES_MAX:
            raise ValueError(TOO_LONG)
        self._reader.feed(data, 0, len(data))

    def _file(self, said: Any) -> None:
        """Keep a wake-up in ``mail``; drop other messages."""
        if isinstance(said, list) and len(said) == 3 and said[0] == b"message":
            self.mail.append(said[2])

    def _read(self, until: float) -> bytes:
        """The next bytes; usually they are on their way."""
        if self._timed:
            return self._wait(until)
        if boottime() >= until:  # even if more data has come
            raise TimeoutError("no complete answer")
        try:
            return self._recv(_BYTES)  # type: ignore[no-any-return]
        except (BlockingIOError, TimeoutError):
            return self._wait(until)

    def _wait(self, until: float) -> bytes:
        """Wait for the next bytes, which didn't come within `SOON_S`."""
        while (left := until - boottime()) > 0:
            try:
                return self._next_bytes(left, _BYTES)
            except (BlockingIOError, TimeoutError):
                continue
        raise TimeoutError("no answer")

    def _next_bytes(self, seconds: float, most: int) -> bytes:
        """The next bytes that come within ``seconds``, even if signals interrupt the wait."""
        if self._timed:
            self._beat(seconds)
            return self._recv(most)  # type: ignore[no-any-return]
        if not self._poll(seconds * 1e3):
            raise TimeoutError("nothing yet")
        return self._recv(most, _flags)  # type: ignore[no-any-return]

    def _beat(self, seconds: float) -> None:
        """Make a call of the socket end after ``seconds``, at most `TICK_S`."""
        tick = max(min(TICK_S, seconds), 0.001)
        if tick != self._tick:
            self._tick = tick
            self._sock.settimeout(tick)

    # -- its end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection."""
        self.dead = True
        with contextlib.suppress(Exception):
            self._driver.disconnect()
        if self.ear is not None:
            self.ear.close()

    def hang_up(self) -> None:
        """End the connection, so that a thread that reads from it wakes up and closes it."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """Close only our socket in the child of a fork: the parent still uses the connection."""
        self.dead = True
        with contextlib.suppress(OSError):
            self._sock.close()
