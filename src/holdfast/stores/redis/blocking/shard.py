"""The port to one node of a cluster, for threads.

Pokes come by channels that belong to a slot, as the keys do: a connection is subscribed to one
for each bucket that somebody has waited for there. When a slot moves away, the node ends the
subscription and says so; who waits asks again then, and is sent to where the slot is now.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import monotonic
from typing import Any

from ..complaints import MOVED, NOSCRIPT, ServerSaid
from ..config import Settings
from ..guard import Guard, Verdict
from ..keys import BUCKETS
from ..library import packed
from ..scripts import Call
from ..slots import ELSEWHERE, address_in
from ..value_keys import Place
from .link import Link
from .port import Seat, ThreadPort

#: A connection with more subscriptions isn't used again.
_ADDRESSES_MAX = 2 * BUCKETS


class Unsubscribed(ConnectionError):
    """The channel is another node's by now."""


class _Elsewhere(Exception):
    """The channel can't be subscribed here, as ``said`` tells."""

    def __init__(self, said: ServerSaid) -> None:
        super().__init__(said)
        self.said = said


class ShardLink(Link):
    """A connection with a subscription for each bucket. ``awaited``: where its claim is poked."""

    __slots__ = ("_listens", "addresses", "awaited", "token")

    def __init__(self, driver: Any) -> None:
        super().__init__(driver)
        self.token = os.urandom(9).hex()
        self.addresses: set[bytes] = set()
        self.awaited = b""
        self._listens = False

    def subscribe(self, address: bytes, until: float) -> ServerSaid | None:
        """Have the pokes for this address sent here; what the server said if it doesn't."""
        self._send(packed(b"SSUBSCRIBE", address))
        while True:
            said = self._next(until)
            if isinstance(said, ServerSaid):
                return said
            if isinstance(said, list) and said[:2] == [b"ssubscribe", address]:
                self.addresses.add(address)
                return None
            self._file(said)

    def listen(self, poke: bytes, until: float) -> bool:
        """As of any connection; raises if the channel moves away."""
        self._listens = True
        try:
            self._still_here(self.awaited)
            return super().listen(poke, until)
        finally:
            self._listens = False

    def _still_here(self, address: bytes) -> None:
        if self._listens and address == self.awaited and address not in self.addresses:
            raise Unsubscribed("its slot has moved to another node")

    def _file(self, said: Any) -> None:
        if not isinstance(said, list) or len(said) != 3:
            return
        if said[0] == b"smessage":
            self.mail.append(said[2])
        elif said[0] == b"sunsubscribe":
            self.addresses.discard(said[1])
            self._still_here(said[1])


class ThreadNode(ThreadPort):
    """See :class:`holdfast.stores.redis.nodes.Node`."""

    _link = ShardLink

    def __init__(self, settings: Settings, guard: Guard) -> None:
        super().__init__(settings)
        self.guard = guard

    async def asking(self, call: Call, within: float) -> Any:
        """Send a call for a slot that this node is just taking over."""
        now = monotonic()
        until = now + within
        link = self._take(now, until)
        wires = [packed(b"ASKING"), self._wire(link, call)]
        try:
            _, reply = link.ask_many(wires, until)
            if reply.__class__ is ServerSaid and reply.code == NOSCRIPT:
                self._load(link, until)
                _, reply = link.ask_many([wires[0], self._wire(link, call)], until)
        except BaseException as wrong:
            self._broken(link, wrong, within)
        self._give(link, reply)
        return reply

    async def fetch_asking(self, place: Place, within: float) -> list[Any]:
        """Read a value of a slot that this node is just taking over."""
        now = monotonic()
        until = now + within
        link = self._take(now, until)
        try:
            replies = link.ask_many([packed(*words) for words in place.asking], until)
        except BaseException as wrong:
            self._broken(link, wrong, within)
        self._give(link, None)
        return replies[1::2]

    async def look_at(self, bucket: int, within: float) -> Verdict | ServerSaid:
        """What the guard says of this bucket."""
        now = monotonic()
        link = self._take(now, now + within)
        try:
            found = self._judge(link, now + within, bucket)
        except BaseException as wrong:
            self._broken(link, wrong, within)
        self._give(link, found)
        return found

    # -- waiting -----------------------------------------------------------------------------

    async def stand(self, claim_id: str, call_of: Callable[[bytes], Call], within: float) -> Any:
        """A waiting claim's call, on its connection; MOVED if it can't be poked here any more."""
        seat = self._seats.setdefault(claim_id, Seat(None, b""))
        seat.bucket = call_of(b"").bucket
        try:
            return await super().stand(claim_id, call_of, within)
        except _Elsewhere as refused:
            return refused.said

    def seat(self, claim_id: str, address: bytes) -> None:
        """The claim waits here from now on."""
        self._seats[claim_id] = Seat(None, address)

    def address(self, claim_id: str) -> bytes:
        """By which the line knows a claim that waits here."""
        seat = self._seats.get(claim_id)
        return b"" if seat is None else seat.address

    def _listen(self, seat: Seat, link: Link, until: float) -> None:
        if self._deaf:
            return
        ear = self._ear_of(link, until)
        if not seat.address:
            seat.address = address_in(seat.bucket, self._settings.prefix, ear.token)
        ear.awaited = seat.address
        if seat.address in ear.addresses:
            return
        refusal = ear.subscribe(seat.address, until)
        if refusal is not None and refusal.code in ELSEWHERE:
            raise _Elsewhere(refusal)
        self._deaf = refusal is not None

    def _ear_of(self, link: Link, until: float) -> ShardLink:
        ear = link
        if self._dialler.protocol == 2:
            if link.ear is None or link.ear.dead:
                link.ear = self._dial(until)
            ear = link.ear
        assert isinstance(ear, ShardLink)
        return ear

    def _heard_at(self, link: Link, call_of: Callable[[bytes], Call]) -> bytes:
        ear = link.ear or link
        if not isinstance(ear, ShardLink) or ear.dead or not ear.addresses:
            return b""
        address = address_in(call_of(b"").bucket, self._settings.prefix, ear.token)
        if address not in ear.addresses:
            return b""
        ear.awaited = address
        return address

    # -- connections -------------------------------------------------------------------------

    def _give(self, link: Link, reply: Any) -> None:
        if isinstance(reply, ServerSaid) and reply.code == MOVED:
            reply = None  # one slot is elsewhere; the others may still be here
        ear = link.ear or link
        if isinstance(ear, ShardLink) and len(ear.addresses) > _ADDRESSES_MAX:
            self._drop(link)
        else:
            super()._give(link, reply)

    async def retire(self) -> None:
        """It has no slots any more: end the connections that nobody uses."""
        while self._pool:
            self._drop(self._pool.pop())
