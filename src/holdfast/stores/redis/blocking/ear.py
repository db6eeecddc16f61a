"""Wake-ups for waiting threads: one connection listens for all of them.

One of the waiting threads reads the connection, and the others sleep. The reader passes on the
messages for other threads. When the reader stops, the oldest waiter reads, because the oldest claim
is probably granted next. So no extra thread is started, and a thread that waits alone sleeps in the
kernel until its own wake-up arrives. In names, the *ear* is the connection that listens, the
*chair* has the `Box` of the thread that reads from it, and to *rise* is to stop reading.

Every new connection uses the same address, because the lines of claims contain this address.
"""

from __future__ import annotations

import _thread
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from ....runtime.blocking import boottime
from ..complaints import ServerSaid
from ..library import packed
from ..replies import poked
from .link import NEAR_S, Closed, Link
from .resp import NOTHING

#: Seconds without a read after which the connection is checked before it is used.
FRESH_S = 1.0
#: Seconds without a message after which a PING is sent; seconds after the PING until the connection
#: is given up, if no message has arrived.
SILENT_S = 5.0
SIGN_S = 1.0
#: Maximum seconds for a message to be sent; after that the connection is stuck.
_STUCK_S = 0.5
#: Number of lines of a wake-up, in both protocols.
_POKE_LINES = 7
_BYTES = 4096
_PING = packed(b"PING")


class Box:
    """A waiting claim: the fence of its last wake-up, and ``bell``, on which its thread sleeps."""

    __slots__ = ("bell", "bucket", "claim_id", "fence", "sleeps")

    def __init__(self, claim_id: str, bucket: int = 0) -> None:
        self.claim_id = claim_id
        self.bucket = bucket
        self.fence = 0
        self.sleeps = False
        self.bell: Any = None

    def wake(self) -> None:
        """Wake the thread of this claim, if it sleeps, so that the thread checks again."""
        try:
            self.bell.release()
        except (RuntimeError, AttributeError):
            return  # the thread has been woken already, or doesn't sleep


#: The reader of a connection that `give_up` is closing.
_CLOSER = Box("")


class EarLink(Link):
    """The connection that listens. One thread reads; at the same time others can send."""

    __slots__ = ("addresses", "asked_at", "chair", "heard", "heard_at", "io", "pending", "refused")

    def __init__(self, driver: Any, heard: Callable[[list[Any]], None]) -> None:
        super().__init__(driver)
        #: Called with each message.
        self.heard = heard
        #: The box of the reader, under the key 0: the first thread that sets it reads.
        self.chair: dict[int, Box] = {}
        #: The subscribed addresses; the requested ones; the refused ones, each with its error.
        self.addresses: set[bytes] = set()
        self.pending: deque[bytes] = deque()
        self.refused: dict[bytes, ServerSaid] = {}
        self.heard_at = self.used
        #: The time of the last PING.
        self.asked_at = 0.0
        #: A thread holds this lock while it writes and, over TLS, while it reads: TLS forbids both
        #: at the same time.
        self.io = threading.Lock()
        if self._timed:
            self._sock.settimeout(0.0)

    def post(self, wire: bytes) -> None:
        """Send bytes, even while another thread reads."""
        if not self.io.acquire(timeout=_STUCK_S):
            raise TimeoutError("another thread has been sending for too long")
        try:
            self._send(wire)
        finally:
            self.io.release()

    def ask_for(self, command: bytes, address: bytes) -> None:
        """Send the request to subscribe to an address; the thread that reads gets the reply."""
        self.refused.pop(address, None)
        self.pending.append(address)
        self.post(packed(command, address))

    def subscribe(self, address: bytes, until: float) -> ServerSaid | None:
        """Subscribe to an address; return the server's error if the server refuses. No other thread
        may use the connection yet."""
        self.ask_for(b"SUBSCRIBE", address)
        while address not in self.addresses:
            if address in self.refused:
                return self.refused.pop(address)
            self._file(self._next(until))
        return None

    def look(self, until: float) -> None:
        """Read the messages that have arrived, or wait for one; ``TimeoutError`` if none comes."""
        data = self._next_bytes(max(until - boottime(), 0.0), _BYTES)
        if not data:
            raise Closed
        self.heard_at = boottime()
        self._feed(data)
        self.file_all()

    def file_all(self) -> None:
        """Pass on all messages that have been read."""
        while (said := self._take()) is not NOTHING:
            self._file(said)

    def listen_for(self, box: Box, ticket: int, poke: bytes, until: float) -> None:
        """Read until the wake-up ``poke`` for this box and ticket arrives, or until the time-out
        has expired. Reads at least once."""
        self.file_all()  # the wake-up can have come with another message
        ending = poke + b"\r\n"
        next_bytes = self._next_bytes if self._timed else super()._next_bytes
        while box.fence != ticket:
            left = until - boottime()
            if left < -NEAR_S:
                return
            try:
                data = next_bytes(max(left, 0.0), _BYTES)
            except (BlockingIOError, TimeoutError):
                if boottime() > until - NEAR_S:
                    return
                continue
            if not data:
                raise Closed
            self.heard_at = boottime()
            if self._whole and data.endswith(ending) and data.count(b"\n") == _POKE_LINES:
                box.fence = ticket
                return
            self._feed(data)
            self.file_all()

    def stale(self) -> bool:
        """True if the connection died while no thread read it. Only its reader may call this."""
        with self.io:
            return super().stale()

    def _file(self, said: Any) -> None:
        if isinstance(said, ServerSaid):
            if self.pending:
                self.refused[self.pending.popleft()] = said
        elif isinstance(said, list) and len(said) == 3:
            kind = said[0]
            if kind in (b"subscribe", b"ssubscribe"):
                self.addresses.add(said[1])
                if self.pending and self.pending[0] == said[1]:
                    self.pending.popleft()
                    return
            if kind == b"sunsubscribe":
                self.addresses.discard(said[1])
            self.heard(said)

    def _next_bytes(self, seconds: float, most: int) -> bytes:
        if not self._timed:
            return super()._next_bytes(seconds, most)
        data = self._there(most)
        if data is None and self._poll(seconds * 1e3):
            data = self._there(most)
        if data is None:
            raise TimeoutError("nothing yet")
        return data

    def _there(self, most: int) -> bytes | None:
        with self.io:
            try:
                return self._recv(most)  # type: ignore[no-any-return]
            except OSError as wrong:
                if isinstance(wrong, BlockingIOError) or "want" in type(wrong).__name__.lower():
                    return None  # through TLS that is an SSLWantReadError
                raise


class Ear:
    """The connection that listens (``link``), and a box for each waiting claim."""

    def __init__(self) -> None:
        self.link: EarLink | None = None
        self.boxes: dict[str, Box] = {}

    def box(self, claim_id: str, bucket: int = 0) -> Box:
        """The box of this claim. From now, the box records the claim's wake-ups."""
        box = self.boxes.get(claim_id)
        if box is None:
            box = self.boxes[claim_id] = Box(claim_id, bucket)
        return box

    def forget(self, claim_id: str) -> None:
        """Stop waiting for the wake-up of this claim."""
        box, link = self.boxes.get(claim_id), self.link
        if box is not None:
            if link is not None and link.chair.get(0) is box:
                self._rise(link)  # its thread was interrupted while it read
            self.boxes.pop(claim_id, None)

    def wait(self, box: Box, ticket: int, poke: bytes, seconds: float) -> bool:
        """Sleep until the wake-up for this ticket arrives (True), or until the time-out has expired
        (False). Return False immediately when the connection has died."""
        until = boottime() + seconds
        while box.fence != ticket:
            link = self.link
            if link is None:
                return False
            if link.chair.setdefault(0, box) is box:
                return self._read(link, box, ticket, poke, until)
            if not self._sleep(link, box, ticket, until):
                return box.fence == ticket
        return True

    def _read(self, link: EarLink, box: Box, ticket: int, poke: bytes, until: float) -> bool:
        try:
            link.listen_for(box, ticket, poke, until)
        except BaseException as wrong:
            self.lose(link)
            if isinstance(wrong, OSError | ValueError):
                return box.fence == ticket
            raise
        link.chair.pop(0, None)  # inline `_rise`: a thread that waits alone does only this
        if len(self.boxes) > 1:
            self._appoint(link)
        return box.fence == ticket

    def look(self, link: EarLink, box: Box, until: float) -> bool:
        """Read the next message of any kind; False if another thread reads."""
        if link.chair.setdefault(0, box) is not box:
            return False
        try:
            link.look(until)
        except (BlockingIOError, TimeoutError):
            pass  # the caller sees that its time-out has expired
        except BaseException:
            self.lose(link)
            raise
        self._rise(link)
        return True

    def _rise(self, link: EarLink) -> None:
        """Stop reading, and wake another waiter to read, if there is one."""
        link.chair.pop(0, None)
        if len(self.boxes) > 1:
            self._appoint(link)

    def _appoint(self, link: EarLink) -> None:
        for box in list(self.boxes.values()):
            if box.sleeps:
                box.wake()
                return
            if 0 in link.chair:
                return

    def _sleep(self, link: EarLink, box: Box, ticket: int, until: float) -> bool:
        """Sleep while another thread reads; False if the time-out has expired."""
        left = until - boottime()
        if left <= 0:
            return False
        if box.bell is None:
            box.bell = _thread.allocate_lock()
            box.bell.acquire()
        box.sleeps = True
        try:
            # Check again. Before `sleeps` was set, another thread can have stopped reading, passed
            # on the message or lost the link, and didn't wake this thread.
            if box.fence != ticket and 0 in link.chair and self.link is link:
                box.bell.acquire(True, left)
        finally:
            box.sleeps = False
            if 0 not in link.chair and self.link is link:
                self._appoint(link)  # this thread can have been woken to read
        return True

    def hear(self, message: bytes) -> None:
        """Record the wake-up of a claim that was granted, and wake its thread."""
        poke = poked(message)
        box = None if poke is None else self.boxes.get(poke[0])
        if poke is not None and box is not None:
            box.fence = poke[1]
            box.wake()

    def alive(self, box: Box, now: float) -> bool:
        """True if the connection works. If no thread has read it lately, it is checked first."""
        link = self.link
        if link is None:
            return False
        if now - link.used < FRESH_S or link.chair.setdefault(0, box) is not box:
            return True
        try:
            dead = link.stale()
        except BaseException:
            self.lose(link)
            raise
        link.used = now
        if dead:
            self.lose(link)
            return False
        self._rise(link)
        return True

    def check(self, now: float) -> None:
        """Send a PING after `SILENT_S` without a message. Without a reply, give up the link."""
        link = self.link
        if link is None:
            return
        reader = link.chair.get(0)
        if reader is not None and self.boxes.get(reader.claim_id) is not reader:
            self.give_up(link)  # the reader was interrupted, and its claim is forgotten
        if now - link.heard_at < SILENT_S:
            return
        if link.asked_at <= link.heard_at:
            link.asked_at = now
            try:
                link.post(_PING)
            except OSError:
                self.give_up(link)
        elif now - link.asked_at > SIGN_S and 0 in link.chair:
            self.give_up(link)

    def give_up(self, link: EarLink) -> None:
        """Stop using the connection. Its reader closes it; without a reader, this thread does."""
        if self.link is link:
            self.link = None
        link.hang_up()
        if link.chair.setdefault(0, _CLOSER) is _CLOSER and link.io.acquire(timeout=_STUCK_S):
            try:
                link.close()
            finally:
                link.io.release()
        self.wake()

    def lose(self, link: EarLink) -> None:
        """Stop using the connection and close it. Only its reader may call this."""
        if self.link is link:
            self.link = None
        link.chair.pop(0, None)
        link.close()
        self.wake()

    def wake(self, bucket: int | None = None) -> None:
        """Wake all waiters, or only the waiters of a bucket, so that they ask the server."""
        for box in list(self.boxes.values()):
            if bucket is None or box.bucket == bucket:
                box.wake()
