"""A TCP proxy that loses, holds or resets exactly the request or the reply that you choose.

Put it between a client and its server, and arm it::

    with Proxy("127.0.0.1", 6379, RESP) as proxy:
        client = Client(f"redis://127.0.0.1:{proxy.port}")
        fault = proxy.arm(b"EVALSHA", DROP_REPLY)     # carried out, and the answer is lost
        ...
        assert fault.hits == 1

A request is chosen by bytes that it contains, or by a function of its bytes. A reply is chosen by
its request; for this the server must answer in order. A message that the server sends without a
request is a *push*, and is chosen by its own bytes. A :class:`.Wire` splits the bytes of a
connection into messages, and recognises pushes. When the client ends its connection, that counts
as an empty message, the *end*. The proxy uses threads and no event loop, so it works with both
faces.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple, Self

from .wire import CHUNKS, Wire

_PIECE = 1 << 16
_CONNECT_S = 5.0
#: The value of SO_LINGER for a reset: closing the socket discards the unsent bytes.
_ABORT = struct.pack("ii", 1, 0)


#: Bytes that a message contains, or a function that returns True for a chosen message.
Match = bytes | Callable[[bytes], bool]


class Fault(NamedTuple):
    """The fate of a message.

    The proxy drops it, delays it by ``seconds``, holds it until ``Armed.let_go``, or resets the
    connection in place of the message.
    """

    what: Literal["drop", "delay", "hold", "reset"]
    of: Literal["request", "reply", "push", "end"]
    seconds: float = 0.0


#: The server never gets the request; the connection stays open.
DROP_REQUEST = Fault("drop", "request")
#: The server carries the request out, and its reply is lost; the connection stays open.
DROP_REPLY = Fault("drop", "reply")
#: A push of the server is lost; the connection stays open.
DROP_PUSH = Fault("drop", "push")
#: The request is held until ``let_go``, even if the client disconnects earlier.
HOLD_REQUEST = Fault("hold", "request")
#: The server carries the request out, and its reply is held until ``let_go``.
HOLD_REPLY = Fault("hold", "reply")
#: The client ends the connection, and the server doesn't notice the end until ``let_go``.
HOLD_END = Fault("hold", "end")
#: The connection is reset before the server gets the request.
RESET_REQUEST = Fault("reset", "request")
#: The server carries the request out, and the connection is reset in place of the reply.
RESET_REPLY = Fault("reset", "reply")


def delay_request(seconds: float) -> Fault:
    """Make a fault: the request and all later ones of its connection arrive ``seconds`` later."""
    return Fault("delay", "request", seconds)


def delay_reply(seconds: float) -> Fault:
    """Make a fault: the reply and all later ones of its connection arrive ``seconds`` later."""
    return Fault("delay", "reply", seconds)


class Armed:
    """A fault that waits for its messages. ``hits`` counts the messages that it was applied to."""

    def __init__(self, match: Match, fault: Fault, times: int) -> None:
        self._match = match
        self.fault = fault
        self._left = times
        self.hits = 0
        self._struck = threading.Condition()
        self._gate = threading.Event()

    def meant(self, message: bytes) -> bool:
        """Return True if the fault applies to this message, and count one use of it."""
        match = self._match
        with self._struck:
            if self._left < 1:
                return False
            if not (match in message if isinstance(match, bytes) else match(message)):
                return False
            self._left -= 1
        return True

    def strike(self) -> bool:
        """Apply the fault, and wait while it delays or holds the message; the proxy calls this.

        Return True if the message must be forwarded after that.
        """
        with self._struck:
            self.hits += 1
            self._struck.notify_all()
        if self.fault.what == "delay":
            time.sleep(self.fault.seconds)
        elif self.fault.what == "hold":
            self._gate.wait()
        return self.fault.what in ("delay", "hold")

    def wait(self, within: float = 10.0, hits: int = 1) -> None:
        """Wait until the fault was applied to ``hits`` messages, or raise ``TimeoutError``."""
        with self._struck:
            if not self._struck.wait_for(lambda: self.hits >= hits, within):
                raise TimeoutError(f"{self.fault} of {self._match!r} met {self.hits} messages")

    def let_go(self) -> None:
        """Forward the messages that are held now, and hold no later ones."""
        self._gate.set()

    def disarm(self) -> None:
        """Apply the fault to no more messages. Messages that are held stay held."""
        with self._struck:
            self._left = 0

    @property
    def over(self) -> bool:
        """True if the fault has no uses left and holds no message."""
        return self._left < 1 and (self.fault.what != "hold" or self._gate.is_set())


class Proxy:
    """Listens on ``port`` of the loopback interface and forwards everything to a server.

    ``wire`` splits bytes into messages. Without it, all bytes that arrive together are a message,
    which is right for a client that sends one request at a time.
    """

    def __init__(self, host: str, port: int, wire: Wire = CHUNKS) -> None:
        self._target = (host, port)
        self.wire = wire
        self._mutex = threading.Lock()
        self._armed: list[Armed] = []
        self._pairs: set[_Pair] = set()
        #: An event for each direction, set while bytes may pass. While an event isn't set, the
        #: bytes are dropped if `swallowing` is True, and held otherwise.
        self.open = {"request": threading.Event(), "reply": threading.Event()}
        self.swallowing = False
        self._refusing = False
        self._closed = False
        self.heal()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._thread.start()

    # -- faults ----------------------------------------------------------------------------

    def arm(self, match: Match, fault: Fault, times: int = 1) -> Armed:
        """Inject this fault into the next requests (or their replies), or pushes, that match."""
        armed = Armed(match, fault, times)
        with self._mutex:
            self._armed = [*(one for one in self._armed if not one.over), armed]
        return armed

    def blackhole(self, of: Literal["request", "reply", "both"] = "both") -> None:
        """Drop all later bytes in this direction; old and new connections stay open."""
        self.swallowing = True
        self._shut(of)

    def hold(self, of: Literal["request", "reply", "both"] = "both") -> None:
        """Hold all later bytes in this direction, as a partition does; ``heal`` forwards them."""
        self.swallowing = False
        self._shut(of)

    def refuse(self) -> None:
        """Reset the open connections now, and each new connection immediately."""
        self._refusing = True
        self.reset()

    def lead_to(self, host: str, port: int) -> None:
        """Forward new connections to another server, as an address that follows a primary does."""
        self._target = (host, port)

    def reset(self) -> None:
        """Reset every connection; new connections are accepted."""
        with self._mutex:
            pairs = list(self._pairs)
        for pair in pairs:
            pair.reset()

    def heal(self) -> None:
        """End all faults except the armed ones. Bytes that were dropped stay lost."""
        self._refusing = False
        for way in self.open.values():
            way.set()

    @property
    def connections(self) -> int:
        """The number of connections that are open now."""
        with self._mutex:
            return len(self._pairs)

    def _shut(self, of: str) -> None:
        for way, event in self.open.items():
            if of in (way, "both"):
                event.clear()

    # -- passing on ------------------------------------------------------------------------

    def chosen(self, message: bytes, *of: str) -> Armed | None:
        """Return the armed fault of these kinds for this message, and count one use of it."""
        with self._mutex:
            armed = [one for one in self._armed if one.fault.of in of]
        return next((one for one in armed if one.meant(message)), None)

    def passes(self, way: str) -> bool:
        """Return True if bytes may pass in this direction; wait while they are held."""
        while not self.open[way].is_set():
            if self.swallowing:
                return False
            self.open[way].wait(0.05)
            if self._closed:
                return False
        return True

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                _abort(client)
                continue
            try:
                server = socket.create_connection(self._target, _CONNECT_S)
            except OSError:
                _abort(client)
                continue
            server.settimeout(None)
            pair = _Pair(self, client, server)
            with self._mutex:
                self._pairs.add(pair)
            pair.start()

    def gone(self, pair: _Pair) -> None:
        """Forget a connection that has ended; the connection calls this."""
        with self._mutex:
            self._pairs.discard(pair)

    def close(self) -> None:
        """Reset every connection and stop listening."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.reset()
        with self._mutex:
            for armed in self._armed:
                armed.let_go()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Pair:
    """One connection of a client, and the proxy's connection to the server for it."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._sockets = (client, server)
        self._mutex = threading.Lock()
        #: The fault, or None, for each expected answer, in order.
        self._awaited: deque[Armed | None] = deque()
        self._ends = 0
        self._resetting = False
        for one in self._sockets:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        """Start to forward in both directions."""
        client, server = self._sockets
        for way, source, sink in (("request", client, server), ("reply", server, client)):
            work = (way, source, sink)
            threading.Thread(target=self._pass_on, args=work, name=f"proxy-{way}s").start()

    def _pass_on(self, way: str, source: socket.socket, sink: socket.socket) -> None:
        wire = self._proxy.wire
        split, lets = (
            (wire.requests, self._lets_request)
            if way == "request"
            else (wire.replies, self._lets_reply)
        )
        data = b""
        try:
            while piece := source.recv(_PIECE):
                data += piece
                while data and (length := split(data)):
                    message, data = data[:length], data[length:]
                    if lets(message):
                        sink.sendall(message)
            if way == "request":
                self._strikes(self._proxy.chosen(b"", "end"))
            if not self._resetting:
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            self.reset()
        finally:
            self._end()

    def _lets_request(self, message: bytes) -> bool:
        """Return True if the request passes; if so, expect its reply."""
        armed = self._proxy.chosen(message, "request", "reply")
        later = None
        if armed is not None and armed.fault.of == "reply":
            armed, later = None, armed
        if not (self._strikes(armed) and self._proxy.passes("request")):
            return False
        if self._proxy.wire.answered(message):
            self._awaited.append(later)
        return True

    def _lets_reply(self, message: bytes) -> bool:
        """Return True if the reply or push passes."""
        if self._proxy.wire.pushed(message):
            armed = self._proxy.chosen(message, "push")
        else:
            armed = self._awaited.popleft() if self._awaited else None
        return self._strikes(armed) and self._proxy.passes("reply")

    def _strikes(self, armed: Armed | None) -> bool:
        """Apply a fault; return True if its message still passes."""
        if armed is None:
            return True
        passes = armed.strike()
        if armed.fault.what == "reset":
            self.reset()
        return passes

    def reset(self) -> None:
        """Reset both connections of the pair."""
        self._resetting = True
        for one in self._sockets:
            _abort(one)

    def _end(self) -> None:
        with self._mutex:
            self._ends += 1
            over = self._ends == len(self._sockets)
        if over:
            for one in self._sockets:
                one.close()
            self._proxy.gone(self)


def _abort(one: socket.socket) -> None:
    """Close a socket with a reset, and wake the thread that reads from it."""
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        one.shutdown(socket.SHUT_RD)
    with contextlib.suppress(OSError):
        one.close()
