"""The port to one node of a cluster, for one event loop.

Wake-ups come by channels that belong to a slot: one for each bucket in which a claim waits. All
nodes of a client use the same address for a bucket, so that a claim keeps its address when its slot
moves. The node that loses the slot ends the subscription and sends a message about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from ....core.model import Granted
from ....errors import StoreUnavailable
from ....runtime.blocking import boottime
from ..complaints import MOVED, ServerSaid, complaint
from ..config import Settings
from ..recovery import Recovery, Verdict
from ..replies import Reply
from ..scripts import Call
from ..slots import ELSEWHERE, address_in, bucket_in
from ..value_keys import Place
from .answer import Answer, wake
from .connect import connect, unheeded
from .port import MUTE_S, SIGN_S, SILENT_S, Box, LoopPort
from .shared import Shared
from .wire import Wire


class ShardWire(Wire):
    """A connection to a node, which can lose a slot and the subscriptions in it."""

    subscribed: Callable[[bytes], None]
    unsubscribed: Callable[[bytes], None]

    def _pushed(self, reply: Any, given: list[Answer]) -> None:
        # Record the begin and the end of a subscription now. The end can come in the same read as
        # the begin, and the task that awaits the begin continues only after this read.
        kind = reply[0] if isinstance(reply, list) else b""
        if kind == b"sunsubscribe":
            self.unsubscribed(reply[1])
            return
        if kind == b"ssubscribe":
            self.subscribed(reply[1])
        super()._pushed(reply, given)

    def _astray(self, reply: ServerSaid) -> bool:
        # MOVED is about one slot; the other slots can still be on this node.
        return reply.code != MOVED and super()._astray(reply)


class LoopNode(LoopPort):
    """See :class:`holdfast.stores.redis.nodes.Node`."""

    def __init__(self, settings: Settings, recovery: Recovery, token: str) -> None:
        super().__init__(settings)
        self.recovery = recovery
        self._token = token

    def _start(self) -> None:
        super()._start()
        #: The buckets whose channels are subscribed. By bucket: the work that subscribes now.
        self._heard_of: set[int] = set()
        self._subscribing: dict[int, Shared[ServerSaid | None]] = {}
        #: By id of a claim that may wait: its bucket.
        self._buckets: dict[str, int] = {}

    def _new_wire(self, ear: bool = False) -> Wire:
        wire = ShardWire(self.label, self._heard, self._ended, self.recovery, ear)
        wire.subscribed = self._subscribed
        wire.unsubscribed = self._unsubscribed
        return wire

    # -- asking ----------------------------------------------------------------------------

    async def asking(self, call: Call, within: float) -> Reply:
        """Send a call for a slot that this node is taking over."""
        wire, within = await self._reach(within)
        wire.command(b"ASKING", within=within).add_done_callback(unheeded)
        return await wire.send(call, within)

    async def fetch_asking(self, place: Place, within: float) -> list[Reply]:
        """Read a value of a slot that this node is taking over."""
        wire, within = await self._reach(within)
        answers = [wire.command(*words, within=within) for words in place.asking]
        return (await asyncio.gather(*answers))[1::2]

    async def look_at(self, bucket: int, within: float) -> Verdict | ServerSaid:
        """The verdict of recovery on this bucket."""
        wire, within = await self._reach(within)
        return self.recovery.verdict(await wire.send(self.recovery.asked(bucket), within))

    # -- waiting ---------------------------------------------------------------------------

    async def enter(self, claim_id: str, call_of: Callable[[bytes], Call], within: float) -> Reply:
        """Send the join of a claim that may wait."""
        wire, within = await self._reach(within)
        bucket = self._buckets[claim_id] = call_of(b"").bucket
        address = self._address_of(bucket)
        if address:
            self._boxes[claim_id] = 0
        return await self._send(wire, call_of(address), within)

    def addressed(self, claim_id: str) -> bool:
        """True if the join of this claim had an address."""
        return claim_id in self._boxes

    async def stand(self, claim_id: str, call_of: Callable[[bytes], Call], within: float) -> Reply:
        """Send the call of a waiting claim; subscribe first if needed."""
        wire, within = await self._reach(within)
        due = boottime() + within
        bucket = self._buckets[claim_id] = call_of(b"").bucket
        self._boxes.setdefault(claim_id, 0)
        if self._must_subscribe(bucket):
            try:
                # Subscribe in half of the time at most: the renewal of the claim needs the rest.
                refusal = await self._subscribe(bucket, within / 2)
            except StoreUnavailable:
                self._mute_until = boottime() + MUTE_S
            else:
                if refusal is not None and not self._deaf:
                    return refusal
            return await self.ask(call_of(self._address_of(bucket)), due - boottime())
        ear = self._ear
        if ear is not None and ear is not wire and boottime() > ear.heard_at + SILENT_S:
            ear.confirmed(b"PING", within=SIGN_S).add_done_callback(unheeded)
        return await self._send(wire, call_of(self._address_of(bucket)), within)

    async def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """Sleep until the wake-up arrives; None immediately if no wake-up can come."""
        if self._must_subscribe(self._buckets.get(claim_id, -1)):
            known = self._boxes.get(claim_id, 0)
            fence = known.fence if isinstance(known, Box) else known
            return Granted(ticket) if fence == ticket else None
        return await super().wait(claim_id, ticket, seconds)

    def unlisten(self, claim_id: str) -> None:
        """Stop waiting for this claim."""
        super().unlisten(claim_id)
        self._buckets.pop(claim_id, None)

    def seat(self, claim_id: str, address: bytes) -> None:
        """Register a claim that waits at this node; its address is the same at all nodes."""
        self._boxes.setdefault(claim_id, 0)

    def address(self, claim_id: str) -> bytes:
        """The address of a claim that waits at this node, as its line of claims contains it."""
        return address_in(self._buckets.get(claim_id, 0), self._settings.prefix, self._token)

    # -- channels --------------------------------------------------------------------------

    def _must_subscribe(self, bucket: int) -> bool:
        return bucket not in self._heard_of and not self._deaf and boottime() >= self._mute_until

    def _address_of(self, bucket: int) -> bytes:
        if bucket not in self._heard_of:
            return b""
        return address_in(bucket, self._settings.prefix, self._token)

    async def _subscribe(self, bucket: int, within: float) -> ServerSaid | None:
        undertaking = self._subscribing.get(bucket)
        if undertaking is None:
            undertaking = Shared(partial(self._listen_to, bucket))
            self._subscribing[bucket] = undertaking
        return await undertaking.wait(within, f"could not subscribe at {self.label}")

    async def _listen(self) -> None:
        """Choose the connection for subscriptions: the present one, or a new one under RESP2."""
        limit = self._attempt_s()
        ear, _ = await self._reach(limit)
        if self._settings.protocol == 2:
            ear = self._new_wire(ear=True)
            await connect(self._settings, ear, limit)
        self._ear = None if ear.over else ear

    async def _listen_to(self, bucket: int) -> ServerSaid | None:
        """Subscribe to the channel of a bucket; return the error if the server refuses."""
        limit = self._attempt_s()
        if self._ear is None:
            await self._listening.wait(limit, f"could not subscribe at {self.label}")
        ear = self._ear
        if ear is None:
            raise StoreUnavailable(f"the connection to {self.label} was lost")
        address = address_in(bucket, self._settings.prefix, self._token)
        reply = await ear.confirmed(b"SSUBSCRIBE", address, within=limit)
        if not isinstance(reply, ServerSaid):
            return None
        if reply.code in ELSEWHERE:
            return reply
        if isinstance(wrong := complaint(reply, self.label), StoreUnavailable):
            raise wrong
        self._refused(reply)
        return reply

    def _subscribed(self, address: bytes) -> None:
        """Record that the wake-ups for a bucket now come to this connection."""
        self._heard_of.add(bucket_in(address))

    def _unsubscribed(self, address: bytes) -> None:
        """Wake the waiters of a bucket whose slot has moved, so that they ask the new node."""
        bucket = bucket_in(address)
        self._heard_of.discard(bucket)
        for claim_id, box in self._boxes.items():
            if isinstance(box, Box) and self._buckets.get(claim_id) == bucket:
                wake(box.waiter)

    def _ended(self, wire: Wire) -> None:
        if wire is self._ear:
            self._heard_of.clear()
        super()._ended(wire)

    # -- the end ---------------------------------------------------------------------------

    async def retire(self) -> None:
        """Close the connections, if they are not in use: the node no longer has slots."""
        wire, ear = self._wire, self._ear
        if self._boxes or wire is None or wire.under_way:
            return
        wire.close()
        if ear is not None and ear is not wire:
            ear.close()

    async def close(self) -> None:
        """Close the connections."""
        await super().close()
        for undertaking in self._subscribing.values():
            await undertaking.cancel()
