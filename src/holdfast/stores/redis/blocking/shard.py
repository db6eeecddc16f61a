"""The port to one node of a cluster, for threads.

Wake-ups come by channels that belong to a slot, as keys do. The connection that listens is
subscribed to one channel for each bucket in which a claim has waited. All nodes of a client use the
same address for a bucket, so that a claim keeps its address when its slot moves. When a slot moves
away, the node ends the subscription and sends a message about it. The waiters then ask again, at
the new node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.model import Granted
from ....runtime.blocking import boottime
from ..complaints import MOVED, NOSCRIPT, ServerSaid
from ..config import Settings
from ..library import packed
from ..recovery import Recovery, Verdict
from ..scripts import Call
from ..slots import ELSEWHERE, address_in, bucket_in
from ..value_keys import Place
from .dial import Dialler
from .ear import Box, EarLink
from .link import Link
from .port import MUTE_S, ThreadPort

#: Seconds between two checks whether a subscription was confirmed, while another thread reads.
_LOOK_S = 0.005


class ShardLink(Link):
    """A connection of ``holdfast doctor`` that receives the messages of a channel in a slot."""

    __slots__ = ()

    def subscribe(self, address: bytes, until: float) -> ServerSaid | None:
        """Subscribe to this address here; return the server's error if the server refuses."""
        self._send(packed(b"SSUBSCRIBE", address))
        while True:
            said = self._next(until)
            if isinstance(said, ServerSaid):
                return said
            if isinstance(said, list) and said[:2] == [b"ssubscribe", address]:
                return None
            self._file(said)

    def _file(self, said: Any) -> None:
        if isinstance(said, list) and len(said) == 3 and said[0] == b"smessage":
            self.mail.append(said[2])


class ThreadNode(ThreadPort):
    """See :class:`holdfast.stores.redis.nodes.Node`."""

    clustered = True

    def __init__(self, settings: Settings, recovery: Recovery, token: str) -> None:
        super().__init__(settings)
        self.recovery = recovery
        self._token = token
        self._dialler = Dialler(settings, recovery)

    async def asking(self, call: Call, within: float) -> Any:
        """Send a call for a slot that this node is taking over."""
        now = boottime()
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
        """Read a value of a slot that this node is taking over."""
        now = boottime()
        until = now + within
        link = self._take(now, until)
        try:
            replies = link.ask_many([packed(*words) for words in place.asking], until)
        except BaseException as wrong:
            self._broken(link, wrong, within)
        self._give(link, None)
        return replies[1::2]

    async def look_at(self, bucket: int, within: float) -> Verdict | ServerSaid:
        """The verdict of recovery on this bucket."""
        now = boottime()
        link = self._take(now, now + within)
        try:
            found = self._judge(link, now + within, bucket)
        except BaseException as wrong:
            self._broken(link, wrong, within)
        self._give(link, found)
        return found

    # -- waiting -----------------------------------------------------------------------------

    def seat(self, claim_id: str, address: bytes) -> None:
        """Register a claim that waits at this node; its address is the same at all nodes."""
        self._ear.box(claim_id)

    def address(self, claim_id: str) -> bytes:
        """The address of a claim that waits at this node, as its line of claims contains it."""
        box = self._ear.boxes.get(claim_id)
        return b"" if box is None else self._address_of(box.bucket)

    async def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """Sleep until the wake-up arrives; None immediately if none can come."""
        box, link = self._ear.boxes.get(claim_id), self._ear.link
        if box is not None and link is not None and not self._here(box):
            if box.fence == ticket:
                return Granted(ticket)
            if boottime() >= self._deaf_until:
                return None
            self._pause(seconds)
            return None
        return await super().wait(claim_id, ticket, seconds)

    def _address_of(self, bucket: int) -> bytes:
        return address_in(bucket, self._settings.prefix, self._token)

    def _here(self, box: Box) -> bytes:
        link, address = self._ear.link, self._address_of(box.bucket)
        return address if link is not None and address in link.addresses else b""

    def _heard_call(self, claim_id: str, call_of: Callable[[bytes], Call], now: float) -> Call:
        bucket = call_of(b"").bucket
        box = self._ear.box(claim_id, bucket)
        box.bucket = bucket
        if self._ear.alive(box, now) and (address := self._here(box)):
            return call_of(address)
        self._ear.forget(claim_id)
        return call_of(b"")

    def _attend(
        self, box: Box, call_of: Callable[[bytes], Call], now: float, until: float
    ) -> ServerSaid | None:
        box.bucket = call_of(b"").bucket
        super()._attend(box, call_of, now, until)
        link = self._ear.link
        if link is None or now < self._deaf_until or self._here(box):
            return None
        try:
            refusal = self._subscribed(link, box, until)
        except (OSError, ValueError):
            self._deaf_until = boottime() + MUTE_S
            return None
        if refusal is None:
            return None
        if refusal.code in ELSEWHERE:
            return refusal
        self._refused(refusal)
        return None

    def _subscribed(self, link: EarLink, box: Box, until: float) -> ServerSaid | None:
        """Subscribe to the channel of a bucket; return the error if the node refuses."""
        address = self._address_of(box.bucket)
        link.refused.pop(address, None)
        if address not in link.pending:
            link.ask_for(b"SSUBSCRIBE", address)
        while address not in link.addresses:
            if address in link.refused:
                return link.refused[address]
            if self._ear.link is not link or boottime() >= until:
                raise TimeoutError("the subscription was not confirmed")
            if not self._ear.look(link, box, until):
                self._pause(_LOOK_S)
        return None

    def _heard(self, said: list[Any]) -> None:
        if said[0] == b"smessage":
            self._ear.hear(said[2])
        elif said[0] == b"sunsubscribe":
            self._ear.wake(bucket_in(said[1]))

    # -- connections -------------------------------------------------------------------------

    def _give(self, link: Link, reply: Any) -> None:
        if isinstance(reply, ServerSaid) and reply.code == MOVED:
            reply = None  # one slot is on another node; the others can still be on this one
        super()._give(link, reply)

    async def retire(self) -> None:
        """Close the connections that are not in use: the node no longer has slots."""
        self._farewell()
