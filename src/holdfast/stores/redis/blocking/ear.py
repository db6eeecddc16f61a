"""Wake-ups for waiting threads: one connection listens for all of them.

One of the waiters reads it, and the others sleep. It hands on what isn't for itself, and when it
goes, another one takes over, the oldest first, as it is probably served next. So no thread is
started for that, and a thread that waits alone sleeps in the kernel until its own wake-up is there.

The address stays the same over every new connection: the lines know it.
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

#: Seconds without a read after which a listening connection is checked before it is relied on.
FRESH_S = 1.0
#: Seconds without a message after which it is asked for a sign of life, and given up without it.
SILENT_S = 5.0
SIGN_S = 1.0
#: Seconds after which a message that isn't sent means that the connection is stuck.
_STUCK_S = 0.5
#: A wake-up as the wire has it: its lines, whatever the protocol.
_POKE_LINES = 7
_BYTES = 4096
_PING = packed(b"PING")


class Box:
    """Where a claim waits: the fence of its last wake-up, and what wakes its thread."""

    __slots__ = ("bell", "bucket", "claim_id", "fence", "sleeps")

    def __init__(self, claim_id: str, bucket: int = 0) -> None:
        self.claim_id = claim_id
        self.bucket = bucket
        self.fence = 0
        self.sleeps = False
        self.bell: Any = None

    def wake(self) -> None:
        """Its thread, if it sleeps, looks again."""
        try:
            self.bell.release()
        except (RuntimeError, AttributeError):
            return  # it was woken already, or doesn't sleep


#: Sits in the chair of a connection that nobody reads any more.
_CLOSER = Box("")


class EarLink(Link):
    """The connection that listens. One thread reads; others may send meanwhile."""

    __slots__ = ("addresses", "asked_at", "chair", "heard", "heard_at", "io", "pending", "refused")

    def __init__(self, driver: Any, heard: Callable[[list[Any]], None]) -> None:
        super().__init__(driver)
        #: Called with each message.
        self.heard = heard
        #: The reader, under the key 0: the first that puts itself there.
        self.chair: dict[int, Box] = {}
        #: Where we are subscribed; where we have asked to be; what was refused.
        self.addresses: set[bytes] = set()
        self.pending: deque[bytes] = deque()
        self.refused: dict[bytes, ServerSaid] = {}
        self.heard_at = self.used
        #: When it was asked for a sign of life.
        self.asked_at = 0.0
        #: A TLS connection must not be written to and read from by two threads at once.
        self.io = threading.Lock()
        if self._timed:
            self._sock.settimeout(0.0)

    def post(self, wire: bytes) -> None:
        """Send this, whoever is just reading."""
        if not self.io.acquire(timeout=_STUCK_S):
            raise TimeoutError("another thread has been sending for too long")
        try:
            self._send(wire)
        finally:
            self.io.release()

    def ask_for(self, command: bytes, address: bytes) -> None:
        """Ask to be subscribed to this; what comes of it is read by who reads."""
        self.refused.pop(address, None)
        self.pending.append(address)
        self.post(packed(command, address))

    def subscribe(self, address: bytes, until: float) -> ServerSaid | None:
        """Have the wake-ups for this address sent here; what the server said if it doesn't let us.
        For the thread that alone has the connection."""
        self.ask_for(b"SUBSCRIBE", address)
        while address not in self.addresses:
            if address in self.refused:
                return self.refused.pop(address)
            self._file(self._next(until))
        return None

    def look(self, until: float) -> None:
        """Take in what is there, or what comes first; ``TimeoutError`` if nothing does."""
        data = self._next_bytes(max(until - boottime(), 0.0), _BYTES)
        if not data:
            raise Closed
        self.heard_at = boottime()
        self._feed(data)
        self.file_all()

    def file_all(self) -> None:
        """Hand out whatever has been read."""
        while (said := self._take()) is not NOTHING:
            self._file(said)

    def listen_for(self, box: Box, ticket: int, poke: bytes, until: float) -> None:
        """Read until this box has this ticket, or until the time-out has expired. Looks at least
        once."""
        self.file_all()  # it may have come with something else
        ending = poke + b"\r\n"
        while box.fence != ticket:
            left = until - boottime()
            if left < -NEAR_S:
                return
            try:
                data = self._next_bytes(max(left, 0.0), _BYTES)
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
        """Has it died while nobody read it? For the thread that has it alone."""
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
    """The connection that listens, and all who wait."""

    def __init__(self) -> None:
        self.link: EarLink | None = None
        self.boxes: dict[str, Box] = {}

    def box(self, claim_id: str, bucket: int = 0) -> Box:
        """Where this claim waits: from now on its wake-ups are kept."""
        box = self.boxes.get(claim_id)
        if box is None:
            box = self.boxes[claim_id] = Box(claim_id, bucket)
        return box

    def forget(self, claim_id: str) -> None:
        """Nobody waits with this claim any more."""
        box, link = self.boxes.get(claim_id), self.link
        if box is not None:
            if link is not None and link.chair.get(0) is box:
                self._rise(link)  # it was interrupted before it could do so
            self.boxes.pop(claim_id, None)

    def wait(self, box: Box, ticket: int, poke: bytes, seconds: float) -> bool:
        """Sleep until the wake-up for this ticket is here (True), or the time-out has expired;
        False at once when the connection has died."""
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
        self._rise(link)
        return box.fence == ticket

    def look(self, link: EarLink, box: Box, until: float) -> bool:
        """Read what comes next, whatever it is; False if another one reads."""
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
        """Read no more: if others sleep, one of them is to read."""
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
        """Sleep while another one reads; False if the time-out has expired."""
        left = until - boottime()
        if left <= 0:
            return False
        if box.bell is None:
            box.bell = _thread.allocate_lock()
            box.bell.acquire()
        box.sleeps = True
        try:
            # Only now, because a thread that rises, hands on or loses looks for those that sleep.
            if box.fence != ticket and 0 in link.chair and self.link is link:
                box.bell.acquire(True, left)
        finally:
            box.sleeps = False
            if 0 not in link.chair and self.link is link:
                self._appoint(link)  # we may be the one that was to read
        return True

    def hear(self, message: bytes) -> None:
        """Somebody who left has made one of our claims a holder."""
        poke = poked(message)
        box = None if poke is None else self.boxes.get(poke[0])
        if poke is not None and box is not None:
            box.fence = poke[1]
            box.wake()

    def alive(self, box: Box, now: float) -> bool:
        """Is there a connection that may be relied on? One that nobody reads is looked at."""
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
        """If nothing has come for long, ask for a sign of life; without one, give it up."""
        link = self.link
        if link is None:
            return
        reader = link.chair.get(0)
        if reader is not None and self.boxes.get(reader.claim_id) is not reader:
            self.give_up(link)  # it was interrupted, and its claim is forgotten
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
        """Use it no more. The thread that reads it closes it; if none does, this one."""
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
        """The same by who reads it."""
        if self.link is link:
            self.link = None
        link.chair.pop(0, None)
        link.close()
        self.wake()

    def wake(self, bucket: int | None = None) -> None:
        """Wake all who sleep, or all of a bucket, as they must ask."""
        for box in list(self.boxes.values()):
            if bucket is None or box.bucket == bucket:
                box.wake()
