"""A TCP proxy that loses, delays or resets exactly the request or the reply that you choose.

Put it between a client and its server, and arm it::

    with Proxy("127.0.0.1", 6379) as proxy:
        client = Client(f"redis://127.0.0.1:{proxy.port}")
        fault = proxy.arm(b"EVALSHA", DROP_REPLY)     # carried out, and the answer is lost
        ...
        assert fault.hits == 1

A request is chosen by bytes that it contains, its reply by its place: a server is taken to answer
in order, so the n-th message that it sends on a connection answers the n-th request. What is one
message is said by a *splitter*. Without one, whatever arrives at once is a message, which is right
for a client that sends one request at a time. Threads only, no event loop, so that it can
stand beside either face.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Literal, NamedTuple, Self

#: How long the first whole message of these bytes is, 0 if none is whole yet.
Splitter = Callable[[bytes], int]
_PIECE = 1 << 16
_CONNECT_S = 5.0
#: A reset: close with what is unsent thrown away.
_ABORT = struct.pack("ii", 1, 0)


def chunks(data: bytes) -> int:
    """A splitter: what arrives at once is one message."""
    return len(data)


def lines(data: bytes) -> int:
    r"""A splitter: each line is a message.

    >>> lines(b"one\ntwo\n"), lines(b"tw")
    (4, 0)
    """
    return data.find(b"\n") + 1


class Fault(NamedTuple):
    """What happens to a message: it is lost, kept back for some seconds, or answered by a reset."""

    what: Literal["drop", "delay", "reset"]
    of: Literal["request", "reply"]
    seconds: float = 0.0


#: The server never sees it; the connection stays.
DROP_REQUEST = Fault("drop", "request")
#: The server has carried it out, and the answer is lost; the connection stays.
DROP_REPLY = Fault("drop", "reply")
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

    def __init__(self, match: bytes, fault: Fault, times: int) -> None:
        self.match = match
        self.fault = fault
        self.left = times
        self.hits = 0
        self._struck = threading.Condition()

    def strike(self) -> None:
        """It has struck: told by the proxy."""
        with self._struck:
            self.hits += 1
            self._struck.notify_all()

    def wait(self, within: float = 10.0, hits: int = 1) -> None:
        """Until it has struck so often; ``TimeoutError`` if that takes longer."""
        with self._struck:
            if not self._struck.wait_for(lambda: self.hits >= hits, within):
                raise TimeoutError(f"{self.fault} of {self.match!r} struck {self.hits} times")


class Proxy:
    """Listens at ``port`` of the loopback and passes everything on to a server.

    ``requests`` and ``replies`` split what the client and the server send into messages.
    """

    def __init__(
        self, host: str, port: int, *, requests: Splitter = chunks, replies: Splitter = chunks
    ) -> None:
        self._target = (host, port)
        self.split = {"request": requests, "reply": replies}
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

    def arm(self, match: bytes, fault: Fault, times: int = 1) -> Armed:
        """This fault for the next requests (or their replies) that contain these bytes."""
        armed = Armed(match, fault, times)
        with self._mutex:
            self._armed.append(armed)
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

    def chosen(self, message: bytes) -> Armed | None:
        """The armed fault for this request, used up once more."""
        with self._mutex:
            for armed in self._armed:
                if armed.left > 0 and armed.match in message:
                    armed.left -= 1
                    return armed
        return None

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
        #: Faults of replies that are to come: number of the request -> fault.
        self._replies: dict[int, Armed] = {}
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
        data, number = b"", 0
        split = self._proxy.split[way]
        try:
            while piece := source.recv(_PIECE):
                data += piece
                while data and (length := split(data)):
                    message, data = data[:length], data[length:]
                    number += 1
                    if self._lets(way, message, number) and self._proxy.passes(way):
                        sink.sendall(message)
            if not self._resetting:
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            self.reset()
        finally:
            self._end()

    def _lets(self, way: str, message: bytes, number: int) -> bool:
        """Does this message pass? Does to it what is armed for it."""
        if way == "request":
            armed = self._proxy.chosen(message)
            if armed is not None and armed.fault.of == "reply":
                with self._mutex:
                    self._replies[number] = armed
                return True
        else:
            with self._mutex:
                armed = self._replies.pop(number, None)
        if armed is None:
            return True
        armed.strike()
        if armed.fault.what == "delay":
            time.sleep(armed.fault.seconds)
            return True
        if armed.fault.what == "reset":
            self.reset()
        return False

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
