"""A TCP proxy that loses, keeps back or resets exactly the request or the reply that you choose.

Put it between a client and its server, and arm it::

    with Proxy("127.0.0.1", 6379, RESP) as proxy:
        client = Client(f"redis://127.0.0.1:{proxy.port}")
        fault = proxy.arm(b"EVALSHA", DROP_REPLY)     # carried out, and the answer is lost
        ...
        assert fault.hits == 1

A request is chosen by bytes that it contains, or by a function of its bytes; a reply by the request
that it answers: a server is taken to answer in order. A message that the server sends unasked, a
*push*, is chosen by its own bytes. What a message is, and which are pushes, is said by a
:class:`.Wire`. That the client ends a connection is an empty message, its *end*. Threads only, no
event loop, so that it can stand beside either face.
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
#: A reset: close with what is unsent thrown away.
_ABORT = struct.pack("ii", 1, 0)


#: What a message contains, or whether it is meant.
Match = bytes | Callable[[bytes], bool]


class Fault(NamedTuple):
    """What happens to a message.

    It is lost, comes ``seconds`` later, is held until ``Armed.let_go``, or the connection is reset
    in its place.
    """

    what: Literal["drop", "delay", "hold", "reset"]
    of: Literal["request", "reply", "push", "end"]
    seconds: float = 0.0


#: The server never sees it; the connection stays.
DROP_REQUEST = Fault("drop", "request")
#: The server has carried it out, and the answer is lost; the connection stays.
DROP_REPLY = Fault("drop", "reply")
#: What the server sends unasked is lost; the connection stays.
DROP_PUSH = Fault("drop", "push")
#: It is on its way until you let it go, even if its client gives up and leaves meanwhile.
HOLD_REQUEST = Fault("hold", "request")
#: The server has carried it out, and the answer is on its way until you let it go.
HOLD_REPLY = Fault("hold", "reply")
#: The client has ended the connection, and the server doesn't see that until you let it go.
HOLD_END = Fault("hold", "end")
#: The connection is reset before the server sees the request.
RESET_REQUEST = Fault("reset", "request")
#: The server has carried it out, and the connection is reset in place of the answer.
RESET_REPLY = Fault("reset", "reply")


def delay_request(seconds: float) -> Fault:
    """The request, and what follows it on this connection, arrives so much later."""
    return Fault("delay", "request", seconds)


def delay_reply(seconds: float) -> Fault:
    """The answer, and what follows it on this connection, arrives so much later."""
    return Fault("delay", "reply", seconds)


class Armed:
    """A fault that lies in wait. ``hits``: how often it has struck."""

    def __init__(self, match: Match, fault: Fault, times: int) -> None:
        self._match = match
        self.fault = fault
        self._left = times
        self.hits = 0
        self._struck = threading.Condition()
        self._gate = threading.Event()

    def meant(self, message: bytes) -> bool:
        """Is it for this message? Then it is used up once more."""
        match = self._match
        with self._struck:
            if self._left < 1:
                return False
            if not (match in message if isinstance(match, bytes) else match(message)):
                return False
            self._left -= 1
        return True

    def strike(self) -> bool:
        """It has struck: told by the proxy. May the message pass? Waits while it is late."""
        with self._struck:
            self.hits += 1
            self._struck.notify_all()
        if self.fault.what == "delay":
            time.sleep(self.fault.seconds)
        elif self.fault.what == "hold":
            self._gate.wait()
        return self.fault.what in ("delay", "hold")

    def wait(self, within: float = 10.0, hits: int = 1) -> None:
        """Wait until it has struck ``hits`` times; ``TimeoutError`` if that takes longer."""
        with self._struck:
            if not self._struck.wait_for(lambda: self.hits >= hits, within):
                raise TimeoutError(f"{self.fault} of {self._match!r} struck {self.hits} times")

    def let_go(self) -> None:
        """Forward what is held now, and do not hold what is struck later."""
        self._gate.set()

    def disarm(self) -> None:
        """It strikes no more. What is held stays so."""
        with self._struck:
            self._left = 0

    @property
    def over(self) -> bool:
        """Will it never strike again, nor hold anything?"""
        return self._left < 1 and (self.fault.what != "hold" or self._gate.is_set())


class Proxy:
    """Listens at ``port`` of the loopback and passes everything on to a server.

    ``wire`` says what a message is. Without one, whatever arrives at once is a message, which is
    right for a client that sends one request at a time.
    """

    def __init__(self, host: str, port: int, wire: Wire = CHUNKS) -> None:
        self._target = (host, port)
        self.wire = wire
        self._mutex = threading.Lock()
        self._armed: list[Armed] = []
        self._pairs: set[_Pair] = set()
        #: Set while bytes may pass in this direction, and what happens to them if not.
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
        """This fault for the next requests (or their replies), or pushes, that match."""
        armed = Armed(match, fault, times)
        with self._mutex:
            self._armed = [*(one for one in self._armed if not one.over), armed]
        return armed

    def blackhole(self, of: Literal["request", "reply", "both"] = "both") -> None:
        """Swallow all bytes in this direction from now on; connections stay, new ones too."""
        self.swallowing = True
        self._shut(of)

    def hold(self, of: Literal["request", "reply", "both"] = "both") -> None:
        """Keep back all bytes in this direction: a partition. ``heal`` lets them through."""
        self.swallowing = False
        self._shut(of)

    def refuse(self) -> None:
        """Reset every new connection at once, and those that there are."""
        self._refusing = True
        self.reset()

    def lead_to(self, host: str, port: int) -> None:
        """New connections lead to this server, as with an address that follows a primary."""
        self._target = (host, port)

    def reset(self) -> None:
        """Reset every connection; new ones are taken."""
        with self._mutex:
            pairs = list(self._pairs)
        for pair in pairs:
            pair.reset()

    def heal(self) -> None:
        """From now on all is well, but for what is armed. What was swallowed is lost."""
        self._refusing = False
        for way in self.open.values():
            way.set()

    @property
    def connections(self) -> int:
        """How many there are now."""
        with self._mutex:
            return len(self._pairs)

    def _shut(self, of: str) -> None:
        for way, event in self.open.items():
            if of in (way, "both"):
                event.clear()

    # -- passing on ------------------------------------------------------------------------

    def chosen(self, message: bytes, *of: str) -> Armed | None:
        """The armed fault of these for this message, used up once more."""
        with self._mutex:
            armed = [one for one in self._armed if one.fault.of in of]
        return next((one for one in armed if one.meant(message)), None)

    def passes(self, way: str) -> bool:
        """May bytes pass in this direction? Waits while they are kept back."""
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
        """A connection has ended: told by itself."""
        with self._mutex:
            self._pairs.discard(pair)

    def close(self) -> None:
        """Reset every connection and listen no more."""
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
    """One connection of a client, and ours to the server for it."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._sockets = (client, server)
        self._mutex = threading.Lock()
        #: For each answer that is to come, in order, what shall happen to it.
        self._awaited: deque[Armed | None] = deque()
        self._ends = 0
        self._resetting = False
        for one in self._sockets:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        """Pass on in both directions from now on."""
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
        """Does it pass? Then its answer is awaited from now on."""
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
        """Does it pass?"""
        if self._proxy.wire.pushed(message):
            armed = self._proxy.chosen(message, "push")
        else:
            armed = self._awaited.popleft() if self._awaited else None
        return self._strikes(armed) and self._proxy.passes("reply")

    def _strikes(self, armed: Armed | None) -> bool:
        """Let a fault strike; does the message pass all the same?"""
        if armed is None:
            return True
        passes = armed.strike()
        if armed.fault.what == "reset":
            self.reset()
        return passes

    def reset(self) -> None:
        """Reset both ends."""
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
    """Close with a reset, and wake who reads it."""
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        one.shutdown(socket.SHUT_RD)
    with contextlib.suppress(OSError):
        one.close()
