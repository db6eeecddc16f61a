"""The port for a cluster: sends each call to the right node, for threads and for asyncio.

A call goes to the node that has the slot of its bucket. redis-py finds out which node has which
slots; a later error of a node (MOVED) corrects the place of a slot immediately. Each node is
reached by its own port (``blocking/shard.py``, ``aio/shard.py``), which handles scripts, recovery
and wake-ups.

While a slot moves from one node to another, both nodes answer TRYAGAIN to a script if its keys are
not all on one node. The call is sent again until the slot has moved or the call's time is used up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from ...core.model import Granted
from ...core.policy import PATIENCE_S
from ...errors import HoldfastError, StoreUnavailable
from .cluster_values import Reading
from .complaints import MOVED, ServerSaid, complaint
from .keys import BUCKETS
from .library import EXTEND, PROLONG, RENEW
from .nodes import Face, Node, looked, scanned
from .recovery import LOOKS, Recovery, Reply, Verdict, asks
from .scripts import Call
from .slots import ASK, ELSEWHERE, sent_to
from .topology import Members, Place
from .value_keys import Place as Keys

#: Seconds between two tries of the same call: the first pause, and the longest one.
PAUSE_S, PAUSE_MAX_S = 0.002, 0.05
#: Minimum seconds between two requests for the whole map.
FRESH_S = 0.5
#: Maximum seconds to find out where the slots are, while there is an old map to use.
FIND_S = 1.0
#: Maximum seconds to begin the grace periods of all buckets. If a bucket isn't reached in this
#: time, its grace period begins at its next use.
OPEN_S = 0.5
#: Scripts that renew leases. After ASK, such a script is sent to the node that takes over the slot.
_OF_ONE_KEY = (RENEW, EXTEND, PROLONG)


class ClusterPort:
    """See :class:`holdfast.stores.redis.store.Port`."""

    clustered = True
    patience = PATIENCE_S

    def __init__(self, members: Members, face: Face, recovery: Recovery) -> None:
        self.label = members.settings.label
        self.recovery = recovery
        self.replicas = members.settings.replicas
        self._members = members
        self._face = face
        self._now = face.now
        self._start()

    def _start(self) -> None:
        #: The node of each bucket (None: no node); an empty list until the nodes are first found.
        self._map: list[Place | None] = []
        #: The node to which the last call for each bucket went.
        self._last: list[Place | None] = [None] * BUCKETS
        self._nodes: dict[Place, Node] = {}
        #: Nodes that could not be reached lately; such nodes are asked last.
        self._silent: set[Place] = set()
        #: The last `Verdict` of recovery for each primary.
        self._verdicts: dict[Place, Verdict] = {}
        #: The time until which `_open_windows` has nothing to do.
        self._opened = 0.0
        self._found_at = -FRESH_S
        self._stale = True
        self._finding = False
        #: The node at which each claim waits.
        self._seats: dict[str, Node] = {}

    # -- the map -----------------------------------------------------------------------------

    async def _place(self, bucket: int, until: float) -> Place:
        """The node that has this bucket."""
        if self._stale and self._now() - self._found_at >= FRESH_S:
            await self._find(until)
        place = self._map[bucket] if self._map else None
        if place is None:
            raise StoreUnavailable(f"no node of {self.label} serves the slot of bucket {bucket}")
        return place

    async def _find(self, until: float) -> None:
        if self._finding and self._map:
            return  # another thread or task is doing it
        self._finding = True
        known = {place for place in self._map if place is not None}
        order = [*known, *(one for one in self._members.places if one not in known)]
        order.sort(key=self._silent.__contains__)
        left = until - self._now()
        try:
            found = await self._face.find(order, min(left, FIND_S) if self._map else left)
        except StoreUnavailable:
            self._found_at = self._now()
            if not self._map:
                self._found_at -= FRESH_S
                raise
            return
        finally:
            self._finding = False
        self._map, self._stale, self._found_at = found, False, self._now()
        self._silent.clear()
        for place, node in list(self._nodes.items()):
            if place not in found:
                await node.retire()

    def _node(self, place: Place) -> Node:
        node = self._nodes.get(place)
        return node or self._nodes.setdefault(
            place, self._face.open(place, self.recovery.of_node())
        )

    def _unreachable(self, place: Place) -> None:
        self._stale = True
        self._silent.add(place)

    def _told(self, bucket: int, place: Place, said: ServerSaid) -> bool:
        """Record the error of a node; return True if the call can be sent again immediately."""
        self._stale = True
        if said.code != MOVED:
            return False
        to = sent_to(said, place)
        if to is None:
            return False
        if self._members.remap is not None:
            to = self._members.remap(to)
        self._map[bucket] = to
        return to != place

    # -- asking ------------------------------------------------------------------------------

    async def _routed(
        self, bucket: int, send: Callable[[Node, float], Awaitable[Reply]], within: float
    ) -> Reply:
        """Call ``send`` for the node that has the bucket; repeat while a node refuses the call."""
        until = self._now() + within
        pause = PAUSE_S
        hops = 0
        while True:
            place = await self._place(bucket, until)
            node = self._node(place)
            try:
                if self._last[bucket] != place:
                    await self._introduced(bucket, place, node, until)
                reply = await send(node, until - self._now())
            except StoreUnavailable:
                self._unreachable(place)
                raise
            said = _refusal(reply)
            if said is None:
                if reply.__class__ is list and asks(reply):
                    await self._open_windows(reply[1] if len(reply) == 3 else 0.0, until)
                return reply
            if self._told(bucket, place, said) and hops < 2:
                hops += 1
                continue
            if self._now() + pause >= until:
                return reply
            await self._face.pause(pause)
            pause, hops = min(2 * pause, PAUSE_MAX_S), 0

    async def _introduced(self, bucket: int, place: Place, node: Node, until: float) -> None:
        """If the slot has come to this node from another node, ask recovery about the bucket.

        The script of a join requires that in any case. But the script of a release doesn't: without
        this, the release would grant nothing, and the next waiter would wait for another request.
        """
        if self.recovery.on and self._last[bucket] is not None:
            said = await node.look_at(bucket, until - self._now())
            if isinstance(said, ServerSaid):
                return
        self._last[bucket] = place

    async def _open_windows(self, seconds: float, until: float) -> None:
        """Ask recovery about all buckets, so that all grace periods end together."""
        now = self._now()
        if not self.recovery.on or now < self._opened:
            return
        self._opened = now + max(seconds, self.recovery.window / LOOKS)
        at = [(one, place) for one, place in enumerate(self._map) if place is not None]
        calls = [self._node(place).recovery.asked(bucket) for bucket, place in at]
        await self.ask_many(calls, min(OPEN_S, until - now))

    async def ask(self, call: Call, within: float) -> Reply:
        """Send one call to the node of its bucket; see the protocol."""

        async def send(node: Node, left: float) -> Reply:
            return await self._followed(call, await node.ask(call, left), left)

        return await self._routed(call.bucket, send, within)

    async def _followed(self, call: Call, reply: Reply, left: float) -> Reply:
        """Return the reply. If the reply to a renewal is ASK, ask the node that gets the slot."""
        if isinstance(reply, ServerSaid) and reply.code == ASK and call.script in _OF_ONE_KEY:
            place = sent_to(reply, (self._members.places[0]))
            if place is not None:
                said = await self._node(place).asking(call, left)
                return reply if _refusal(said) is not None else said
        return reply

    async def ask_many(self, calls: Sequence[Call], within: float) -> list[Reply | Exception]:
        """Send many calls, in one round trip per node; see the protocol."""
        until = self._now() + within
        found: list[Reply | Exception] = [None] * len(calls)
        left = list(range(len(calls)))
        pause = PAUSE_S
        while left:
            groups: dict[Place, list[int]] = {}
            for at in left:
                try:
                    place = await self._place(calls[at].bucket, until)
                except HoldfastError as wrong:
                    found[at] = wrong
                else:
                    groups.setdefault(place, []).append(at)
            again, at_once = await self._ask_groups(groups, calls, found, until)
            if not again or self._now() + pause >= until:
                break
            left = again
            if not at_once:
                await self._face.pause(pause)
                pause = min(2 * pause, PAUSE_MAX_S)
        return found

    async def _ask_groups(
        self,
        groups: dict[Place, list[int]],
        calls: Sequence[Call],
        found: list[Reply | Exception],
        until: float,
    ) -> tuple[list[int], bool]:
        """Ask each node; return the calls to send again, and True if no pause is needed."""
        order = sorted(groups, key=self._silent.__contains__)
        works = [self._part(self._node(one), [calls[at] for at in groups[one]]) for one in order]
        again: list[int] = []
        at_once = True
        for place, said in zip(order, await self._face.together(works, until), strict=True):
            failed = isinstance(said, Exception)
            if failed:
                self._unreachable(place)
            replies = [said] * len(groups[place]) if failed else said
            for at, reply in zip(groups[place], replies, strict=True):
                found[at] = reply
                refusal = _refusal(reply)
                if isinstance(reply, StoreUnavailable):
                    self._unreachable(place)
                elif refusal is not None:
                    again.append(at)
                    at_once &= self._told(calls[at].bucket, place, refusal)
        return again, at_once

    def _part(
        self, node: Node, calls: Sequence[Call]
    ) -> Callable[[float], Coroutine[Any, Any, list[Reply | Exception]]]:
        async def ask(within: float) -> list[Reply | Exception]:
            said = await node.ask_many(calls, within)
            return [
                await self._followed(call, one, within)
                for call, one in zip(calls, said, strict=True)
            ]

        return ask

    async def fetch(self, places: Sequence[Keys], within: float) -> list[Reply]:
        """Read values, in one round trip per node; see the protocol."""
        until = self._now() + within
        reading = Reading(self, places, until)
        left, pause = list(range(len(places))), PAUSE_S
        while True:
            left, at_once = await reading.round(left)
            if not left or self._now() + pause >= until:
                return reading.found
            if not at_once:
                await self._face.pause(pause)
                pause = min(2 * pause, PAUSE_MAX_S)

    # -- waiting -----------------------------------------------------------------------------

    async def enter(self, claim_id: str, call_of: Callable[[bytes], Call], within: float) -> Reply:
        """Send the join of a claim that may wait, to the node where it waits; see the protocol."""

        async def send(node: Node, left: float) -> Reply:
            before = self._seats.get(claim_id)
            if before is not None and before is not node:
                before.unlisten(claim_id)
            self._seats[claim_id] = node
            return await node.enter(claim_id, call_of, left)

        return await self._routed(call_of(b"").bucket, send, within)

    def addressed(self, claim_id: str) -> bool:
        """True if the join of this claim had an address; see the protocol."""
        node = self._seats.get(claim_id)
        return node is not None and node.addressed(claim_id)

    async def stand(self, claim_id: str, call_of: Callable[[bytes], Call], within: float) -> Reply:
        """Send the call of a waiting claim to the node where it waits now; see the protocol."""

        async def send(node: Node, left: float) -> Reply:
            before = self._seats.get(claim_id)
            if before is not node:
                address = b"" if before is None else before.address(claim_id)
                if before is not None:
                    before.unlisten(claim_id)
                self._seats[claim_id] = node
                node.seat(claim_id, address)
            return await node.stand(claim_id, call_of, left)

        return await self._routed(call_of(b"").bucket, send, within)

    async def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """Sleep until woken; see the protocol."""
        node = self._seats.get(claim_id)
        return None if node is None else await node.wait(claim_id, ticket, seconds)

    def unlisten(self, claim_id: str) -> None:
        """Stop waiting for this claim; see the protocol."""
        node = self._seats.pop(claim_id, None)
        if node is not None:
            node.unlisten(claim_id)

    # -- all nodes ---------------------------------------------------------------------------

    async def _primaries(self, until: float) -> dict[Place, int]:
        """The nodes that have buckets, and one bucket of each."""
        await self._place(0, until)
        return {place: at for at, place in enumerate(self._map) if place is not None}

    async def look(self, within: float) -> Verdict:
        """The verdicts of recovery for all nodes together; see the protocol.

        For a node that can't be reached, its last verdict is used, so that the verdicts of the
        other nodes are still returned.
        """
        until = self._now() + within
        primaries = await self._primaries(until)
        works = [looked(self._node(place), at) for place, at in primaries.items()]
        said = await self._face.together(works, until)
        verdicts: dict[Place, Verdict] = {}
        wrong: Exception | None = None
        for place, one in zip(primaries, said, strict=True):
            if isinstance(one, Verdict):
                verdicts[place] = one
                continue
            self._unreachable(place)
            wrong = complaint(one, self.label) if isinstance(one, ServerSaid) else one
            if place in self._verdicts:
                verdicts[place] = self._verdicts[place]
        if wrong is not None and len(verdicts) < len(primaries):
            raise wrong
        self._verdicts = verdicts
        worst = max(verdicts.values(), key=lambda one: one.seconds)
        if worst.seconds:
            await self._open_windows(worst.seconds, until)
        ids = sorted(one.run_id for one in verdicts.values())
        records = sorted(one.record for one in verdicts.values())
        return Verdict(b" ".join(ids), worst.seconds, worst.cause, b" ".join(records))

    async def scan(self, pattern: bytes, within: float) -> list[bytes]:
        """The keys of all primaries that match; see the protocol."""
        until = self._now() + within
        primaries = await self._primaries(until)
        works = [scanned(self._node(place), pattern) for place in primaries]
        found: set[bytes] = set()
        for place, said in zip(primaries, await self._face.together(works, until), strict=True):
            if isinstance(said, Exception):
                self._unreachable(place)
                raise said
            found.update(said)
        return list(found)

    # -- its life ----------------------------------------------------------------------------

    async def close(self) -> None:
        """Close the connections to all nodes."""
        await self._face.close()
        for node in list(self._nodes.values()):
            await node.close()

    def forked(self) -> None:
        """Reset in the child of a fork; see the protocol."""
        for node in self._nodes.values():
            node.forked()
        self._face.forked()
        self._start()


def _refusal(reply: Reply | Exception) -> ServerSaid | None:
    """Return an error reply of a node that did nothing; for any other reply, None."""
    if isinstance(reply, ServerSaid) and reply.code in ELSEWHERE:
        return reply
    return None
