"""The port for threads: a pool of connections, and one of its own for each thread that waits.

A verb takes the connection that was used last, or makes one, and gives it back after the reply.
A claim that waits keeps the connection on which it joined until ``unlisten``: pokes arrive there,
and its thread sleeps in the kernel. No lock is held anywhere, no thread is started.

Whatever goes wrong between taking and giving back, Ctrl-C included, the connection is closed: a
reply that is still under way is never read by another request.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NoReturn
from weakref import WeakSet

from ....core.model import Granted
from ....core.policy import PATIENCE_S
from ....errors import ConfigError, HoldfastError, StoreUnavailable
from ..complaints import DEMOTED, MOVED, ServerSaid, complaint
from ..config import Settings
from ..guard import Unconfirmed, Verdict
from ..library import packed
from ..scripts import Call
from ..value_keys import Place, reading
from .dial import Dialler
from .exchange import Exchange
from .link import Link

#: A connection that was idle for so long is looked at before it is used.
FRESH_S = 1.0
#: The pool keeps no more idle connections than this.
IDLE_MAX = 64
#: How many keys a server looks at for one call of SCAN.
_SCAN_COUNT = b"1000"
_WAITS = 2
_FAREWELL = DEMOTED | {MOVED, "LOADING"}


class Seat:
    """Where a claim waits: its connection, and the address that the line knows it by."""

    __slots__ = ("address", "bucket", "link")

    def __init__(self, link: Link | None, address: bytes, bucket: int = 0) -> None:
        self.link = link
        self.address = address
        self.bucket = bucket


class ThreadPort(Exchange):
    """See :class:`holdfast.stores.redis.store.Port`."""

    clustered = False
    patience = PATIENCE_S
    #: What a connection is made into.
    _link: type[Link] = Link

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.label = settings.label
        self._settings = settings
        self._dialler = Dialler(settings, self.guard)
        #: Does the server not let us subscribe? Then waiters ask again, and hear nothing.
        self._deaf = False
        self._start()

    def _start(self) -> None:
        #: The idle ones. Beyond its size the one at its other end is let go, and so closed.
        self._pool: deque[Link] = deque(maxlen=IDLE_MAX)
        self._seats: dict[str, Seat] = {}
        #: Every open connection; weakly, so that one that an exception made us lose is closed.
        self._links: WeakSet[Link] = WeakSet()

    # -- requests ----------------------------------------------------------------------------

    async def ask(self, call: Call, within: float) -> Any:
        """Send one call over any connection; see the protocol."""
        now = monotonic()
        until = now + within
        link = self._take(now, until)
        try:
            reply = link.ask(
                call.head + link.ending if not self._old else self._wire(link, call), now, until
            )
            if reply.__class__ is not int:
                reply = self._mended(link, call, reply, until)
            if self.replicas:
                self._confirm(link, call, reply, until)
        except BaseException as wrong:
            self._broken(link, wrong, within)
        if reply.__class__ is int:
            self._pool.append(link)
        else:
            self._give(link, reply)
        return reply

    async def ask_many(self, calls: Sequence[Call], within: float) -> list[Any]:
        """Send many in one round trip; see the protocol."""
        if not calls:
            return []
        now = monotonic()
        until = now + within
        link = self._take(now, until)
        try:
            replies = link.ask_many([self._wire(link, call) for call in calls], until)
            self._mend(link, calls, replies, until)
            if self.replicas:
                replies = self._confirmed_of(link, calls, replies, until)
        except BaseException as wrong:
            self._broken(link, wrong, within)
        for reply in replies:
            if reply.__class__ is ServerSaid:
                self._give(link, reply)
                break
        else:
            self._give(link, None)
        return replies

    async def fetch(self, places: Sequence[Place], within: float) -> list[Any]:
        """Read values; see the protocol."""
        now = monotonic()
        until = now + within
        link = self._take(now, until)
        try:
            replies = link.ask_several(reading(places), 2 * len(places), now, until)
        except BaseException as wrong:
            self._broken(link, wrong, within)
        self._give(link, replies[0])
        return replies

    async def look(self, within: float) -> Verdict:
        """What the guard says at present; see the protocol."""
        until = monotonic() + within
        link = self._take(monotonic(), until)
        try:
            found = self._verdict(link, self.guard.look, until)
            if isinstance(found, Verdict) and found.record != found.run_id:
                found = self._judge(link, until)
        except BaseException as wrong:
            self._broken(link, wrong, within)
        self._give(link, found)
        if isinstance(found, Verdict):
            return found
        raise complaint(found, self.label)

    async def scan(self, pattern: bytes, within: float) -> list[bytes]:
        """The keys that match; see the protocol."""
        now = monotonic()
        until = now + within
        link = self._take(now, until)
        found: set[bytes] = set()
        cursor = b"0"
        try:
            while True:
                command = packed(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", _SCAN_COUNT)
                reply = link.ask(command, now, until)
                if reply.__class__ is ServerSaid:
                    self._give(link, reply)
                    raise complaint(reply, self.label)
                cursor, keys = reply
                found.update(keys)
                if cursor == b"0":
                    break
        except HoldfastError:
            raise
        except BaseException as wrong:
            self._broken(link, wrong, within)
        self._give(link, None)
        return list(found)

    # -- waiting -----------------------------------------------------------------------------

    async def enter(self, claim_id: str, call_of: Callable[[bytes], Call], within: float) -> Any:
        """The join of somebody who may wait; see the protocol."""
        now = monotonic()
        until = now + within
        link = self._take(now, until)
        try:
            address = self._heard_at(link, call_of)
            if link.mail:
                link.mail.clear()
            call = call_of(address)
            reply = link.ask(
                call.head + link.ending if not self._old else self._wire(link, call), now, until
            )
            if reply.__class__ is not int:
                reply = self._mended(link, call, reply, until)
            if self.replicas:
                self._confirm(link, call, reply, until)
        except BaseException as wrong:
            self._broken(link, wrong, within)
        if reply.__class__ is int:
            self._pool.append(link)
        elif reply.__class__ is list and reply[0] == _WAITS:
            self._seats[claim_id] = Seat(link, address, call.bucket)
        else:
            self._give(link, reply)
        return reply

    def addressed(self, claim_id: str) -> bool:
        """Did its join have an address? See the protocol."""
        seat = self._seats.get(claim_id)
        return self._deaf or (seat is not None and seat.address != b"")

    async def stand(self, claim_id: str, call_of: Callable[[bytes], Call], within: float) -> Any:
        """A waiting claim's call, on its connection; see the protocol."""
        now = monotonic()
        until = now + within
        seat = self._seats.get(claim_id)
        if seat is None:
            seat = self._seats[claim_id] = Seat(None, b"")
        link = seat.link
        if link is None or link.dead:
            link = self._take(now, until)
            seat.link = link
        try:
            self._listen(seat, link, until)
            call = call_of(b"" if self._deaf else seat.address)
            reply = link.ask(self._wire(link, call), now, until)
            if reply.__class__ is not int:
                reply = self._mended(link, call, reply, until)
            if self.replicas:
                self._confirm(link, call, reply, until)
        except BaseException as wrong:
            seat.link = None
            self._broken(link, wrong, within)
        if reply.__class__ is ServerSaid and reply.code in _FAREWELL:
            seat.link = None
            self._give(link, reply)
        return reply

    async def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """Sleep until poked; see the protocol."""
        seat = self._seats.get(claim_id)
        if self._deaf:
            time.sleep(max(0.0, seconds))
            return None
        if seat is None or seat.link is None:
            return None
        link = seat.link
        until = monotonic() + seconds
        poke = b"%b %d" % (claim_id.encode(), ticket)
        try:
            served = (link.ear or link).listen(poke, until)
        except BaseException as wrong:
            seat.link = None
            self._drop(link)
            if isinstance(wrong, OSError | ValueError):
                return None  # the next `stand` connects again
            raise
        return Granted(ticket) if served else None

    def unlisten(self, claim_id: str) -> None:
        """The claim waits no more; see the protocol."""
        seat = self._seats.pop(claim_id, None)
        if seat is not None and seat.link is not None:
            link, seat.link = seat.link, None
            self._give(link, None)

    # -- its life ----------------------------------------------------------------------------

    async def close(self) -> None:
        """End the connections; whoever still waits on one is woken."""
        pool, self._pool = self._pool, deque(maxlen=0)
        while pool:
            self._drop(pool.pop())
        for link in list(self._links):
            link.hang_up()

    def forked(self) -> None:
        """We are the child of a fork; see the protocol."""
        links = self._links
        self._start()
        for link in links:
            link.forget()

    # -- connections -------------------------------------------------------------------------

    def _take(self, now: float, until: float) -> Link:
        """A connection for ourselves alone."""
        while True:
            try:
                link = self._pool.pop()
            except IndexError:
                break
            if now - link.used < FRESH_S:
                return link
            if not (link.stale() or (link.ear is not None and link.ear.stale())):
                return link
            self._drop(link)
        return self._dial(until)

    def _dial(self, until: float) -> Link:
        link = self._link(self._dialler.dial(until))
        self._links.add(link)
        return link

    def _give(self, link: Link, reply: Any) -> None:
        """Back into the pool; unless it leads to a server that is no master (any more)."""
        if reply.__class__ is ServerSaid and reply.code in _FAREWELL:
            self._drop(link)
            while self._pool:  # they lead there as well
                self._drop(self._pool.pop())
        else:
            self._pool.append(link)

    def _drop(self, link: Link) -> None:
        self._links.discard(link)
        link.close()

    def _broken(self, link: Link, wrong: BaseException, within: float) -> NoReturn:
        """The exchange was not brought to its end: nobody may use this connection again."""
        if isinstance(wrong, Unconfirmed):
            self._pool.append(link)
            raise wrong
        self._drop(link)
        if isinstance(wrong, TimeoutError | BlockingIOError):
            raise StoreUnavailable(f"{self.label} gave no answer within {within:.3g} s") from wrong
        if isinstance(wrong, OSError):
            raise StoreUnavailable(f"the connection to {self.label} broke: {wrong}") from wrong
        if isinstance(wrong, ValueError) and not isinstance(wrong, ConfigError | UnicodeError):
            raise StoreUnavailable(f"{self.label} sent what is no reply: {wrong}") from wrong
        raise wrong

    def _listen(self, seat: Seat, link: Link, until: float) -> None:
        """See to it that the address that the line knows is subscribed on this connection."""
        if self._deaf:
            return
        ear = link
        if self._dialler.protocol == 2:
            if link.ear is None or link.ear.dead:
                link.ear = self._dial(until)
            ear = link.ear
        if ear.subscribed and (not seat.address or seat.address == link.address):
            seat.address = link.address
            return
        if not seat.address:
            seat.address = link.address or self._new_address()
        link.address = seat.address
        refusal = ear.subscribe(seat.address, until)
        if refusal is not None:
            self._deaf = True

    def _heard_at(self, link: Link, call_of: Callable[[bytes], Call]) -> bytes:
        """Where a claim is reached that waits on this connection; empty if that isn't so yet."""
        if not link.address:
            return b""
        ear = link.ear or link
        return link.address if ear.subscribed and not ear.dead else b""

    def _new_address(self) -> bytes:
        return f"{self._settings.prefix}:poke:{os.urandom(9).hex()}".encode()
