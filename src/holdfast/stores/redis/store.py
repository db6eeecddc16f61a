"""The five verbs on Redis: which script each of them is, and what its answer means.

Nothing here knows a socket. A request is a ``Call`` (``scripts.py``): a script with its keys and
arguments, packed into the bytes that go over the wire. A port brings it to the server, for
threads (``blocking/``) or for one event loop (``aio/``).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol

from ...core.model import (
    Capabilities,
    Claim,
    Gone,
    Granted,
    Held,
    Joined,
    Keep,
    Leave,
    LineRecord,
    Loss,
    Mismatch,
    Standing,
    Waiting,
)
from ...errors import HoldfastError, StoreUnavailable
from . import replies
from .guard import LOOKS, Guard, Verdict
from .keys import name_of, pattern_of
from .queue_cluster import queues_over
from .replies import whole as _whole
from .scripts import KEEP_MAX, Call, Requests
from .together import Together
from .value_keys import Place
from .values import RedisGuards

log = logging.getLogger("holdfast")

#: What a port hands on: an int, bytes, a list of such, None, or a ``ServerSaid``.
Reply = Any
#: What this store can do.
CAPABILITIES = Capabilities(store="redis", queues=True, guards=True)
#: Seconds that a claim may take to say where it waits, if it joined before it could be woken; else
#: it says so later.
ADDRESS_S = 0.2
#: Maximum number of lines that one round trip looks at.
_LOOK_MAX = 50


class Port(Protocol):
    """How requests reach the server, and how a waiter hears that it was served.

    Each verb ends within ``within`` seconds, or raises ``StoreUnavailable`` and says what was
    asked, of whom, for how long. What the server answers is a ``Reply``; an error reply is the
    value ``ServerSaid``, not raised. The port itself deals with NOSCRIPT (it loads all scripts and
    sends the call again, on the same connection), and it drops a connection that said that it
    leads to no master (READONLY, LOADING, MASTERDOWN, MOVED), after handing that answer on.

    A verb that is interrupted (Ctrl-C, a cancellation) never leaves its reply to be read by
    another. Blocking: the connection is dropped. asyncio: the request keeps its slot, so that an
    undo that is sent after it can't overtake it.
    """

    #: What people see in messages; never with a password.
    label: str
    #: Seconds that a waiting claim lives without being kept.
    patience: float
    #: Must the calls of one batch of renewals be of one bucket?
    clustered: bool
    #: Asked by the port itself when a script wants it: the reply to a join is then ``[6, seconds,
    #: cause]`` as long as nothing is granted, and the call is sent again when grants are possible.
    guard: Guard
    #: Number of replicas that must have confirmed a grant or a renewal, or the port raises.
    replicas: int

    def ask(self, call: Call, within: float) -> Awaitable[Reply]:
        """Send one call over any connection. Sent again by the port itself only if the
        connection was found dead before anything was sent."""
        ...

    async def ask_many(self, calls: Sequence[Call], within: float) -> list[Reply | Exception]:
        """Send many in one round trip (one per server); one answer per call, in order."""
        ...

    def fetch(self, places: Sequence[Place], within: float) -> Awaitable[list[Reply]]:
        """Read the values in these places in one round trip (one per server): of each, for how
        many milliseconds it is kept, and what it is. An error reply is a value here, too."""
        ...

    def enter(
        self, claim_id: str, call_of: Callable[[bytes], Call], within: float
    ) -> Awaitable[Reply]:
        """The join of somebody who may wait, sent where the claim will wait.

        ``call_of(address)`` makes the call; the address is empty while nothing is subscribed
        there: a wake-up to it would be lost, and the claim would be taken for dead. If the reply
        says that the claim waits (``[2, ...]``), it has a place to wait at from now on,
        until ``unlisten``.
        """
        ...

    def addressed(self, claim_id: str) -> bool:
        """Did the join of this claim, which waits, have an address? Or can none be had here?"""
        ...

    async def stand(self, claim_id: str, call_of: Callable[[bytes], Call], within: float) -> Reply:
        """Send a waiting claim's call on the connection on which it waits.

        Subscribes first where that isn't done yet, and connects again first if the connection
        has died: under the same address, which the line knows.
        """
        ...

    async def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """Sleep until the wake-up for this claim *and* ticket is here, or for ``seconds``.

        What has been read already comes first. None, at once, if the connection has died: the
        next ``stand`` makes a new one.
        """
        ...

    def unlisten(self, claim_id: str) -> None:
        """The claim waits no more. Never fails, never suspends; does nothing if it never did."""
        ...

    async def look(self, within: float) -> Verdict:
        """What the guard says at present; not asked if it is off."""
        ...

    async def scan(self, pattern: bytes, within: float) -> list[bytes]:
        """The keys of all masters that match, each once, in no order."""
        ...

    async def close(self) -> None:
        """End the connections that are ours."""
        ...

    def forked(self) -> None:
        """We are the child of a fork: forget the parent's connections, and start lazily."""
        ...


class RedisStore:
    """See :class:`holdfast.core.ports.Store`."""

    keep_batch = KEEP_MAX

    def __init__(self, port: Port, prefix: str) -> None:
        self._port = port
        guard = self._guard = port.guard
        self.capabilities = CAPABILITIES._replace(push_grants=not port.replicas)
        self.watch_every = guard.window / LOOKS if guard.on else math.inf
        self.lease_max = guard.window if guard.mode == "strict" else math.inf
        self._latest = guard.latest
        #: What the guard said last.
        self._verdict = Verdict(b"")
        self._requests = Requests(prefix, port.patience)
        self._together = Together(port, self._requests)
        self.queues = queues_over(port, prefix)
        self.guards = RedisGuards(port, prefix)
        self._prefix = prefix
        self.patience = port.patience
        self.label = port.label
        #: Claims that wait: what keeps them is sent where they wait.
        self._waiting: set[str] = set()

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Enter the line, atomically; see the contract."""
        requests = self._requests
        if not wait:
            reply = await self._port.ask(requests.join(claim, False), within)
            if reply.__class__ is int:
                self._note(reply)
                return Held(reply, claim.spec.ttl)
            return replies.joined(reply, claim, self.label)
        reply = await self._port.enter(claim.id, partial(requests.join, claim, True), within)
        if reply.__class__ is int:
            self._note(reply)
            return Held(reply, claim.spec.ttl)
        answer = replies.joined(reply, claim, self.label)
        if isinstance(answer, Waiting):
            self._waiting.add(claim.id)
            if not self._port.addressed(claim.id):
                return await self._introduce(claim, answer, within)
        return answer

    async def _introduce(self, claim: Claim, waiting: Waiting, within: float) -> Joined:
        """Let the line know where the claim can be woken; if that fails it asks again soon."""
        keep = Keep(claim, waiting.ticket, claim.spec.ttl)
        try:
            return await self._stand(keep, min(within, ADDRESS_S))
        except StoreUnavailable:
            return waiting

    async def _stand(self, keep: Keep, within: float) -> Standing:
        reply = await self._port.stand(
            keep.claim.id, lambda address: self._requests.stand(keep, address), within
        )
        standing = replies.stood(reply, keep, self.label)
        if isinstance(standing, Held):
            self._note(standing.fence)
        return standing

    def _note(self, fence: int) -> None:
        """This fence was granted to us: no server may give a smaller one from now on."""
        if fence > self._latest.fence:
            self._latest.fence = fence

    async def keep(self, keeps: Sequence[Keep], within: float) -> list[Standing | Exception]:
        """Renew a batch; see the contract.

        Plain renewals of what is held go together. What waits, or is to be changed, goes by itself.
        """
        if len(keeps) == 1 and keeps[0].claim.id in self._waiting:
            return [await self._stand(keeps[0], within)]
        found = await self._keep(keeps, within)
        if self._guard.on:
            lost = [
                at
                for at, one in enumerate(found)
                if one.__class__ is not Held and self._may_be_back(keeps[at], one)
            ]
            if lost:
                await self._reclaim(keeps, lost, found, within)
        return found

    async def _keep(self, keeps: Sequence[Keep], within: float) -> list[Standing | Exception]:
        plain = [
            at for at, keep in enumerate(keeps) if not (keep.weight or keep.new_id or keep.detach)
        ]
        batches, unfit = self._requests.batches(keeps, plain, self._port.clustered)
        found: dict[int, Standing | Exception] = dict(unfit)
        said = await self._port.ask_many([batch.call for batch in batches], within)
        for batch, reply in zip(batches, said, strict=True):
            if reply == [held.fence for held in batch.held]:
                if len(batch.held) == len(keeps):
                    return list(batch.held)  # as nearly always
                found.update(zip(batch.places, batch.held, strict=True))
            else:
                found.update(self._kept(keeps, batch.places, reply))
        rest = [at for at in range(len(keeps)) if at not in found]
        if rest:
            calls = [self._requests.stand(keeps[at]) for at in rest]
            for at, reply in zip(rest, await self._port.ask_many(calls, within), strict=True):
                found[at] = self._stood(keeps[at], reply)
        return [found[at] for at in range(len(keeps))]

    def _may_be_back(self, keep: Keep, answer: Standing | Exception) -> bool:
        """Is it one that we held, but the server says otherwise, perhaps because it forgot?"""
        if keep.new_id or keep.claim.id in self._waiting:
            return False
        if keep.detach:  # asked by a token, which may be over since long, or of another store
            return False
        if isinstance(answer, Gone):
            return answer.reason not in (Loss.BROKEN, Loss.RELEASED)
        return isinstance(answer, Waiting)

    async def _reclaim(
        self,
        keeps: Sequence[Keep],
        places: list[int],
        found: list[Standing | Exception],
        within: float,
    ) -> None:
        """Put back the claims that the server has forgotten, if any; replaces their answers."""
        self._note(max(keeps[at].ticket for at in places))
        calls = [self._requests.reclaim(keeps[at], self._guard.window) for at in places]
        said = await self._port.ask_many(calls, within)
        for at, reply in zip(places, said, strict=True):
            answer = self._stood(keeps[at], reply)
            if isinstance(answer, Gone) and isinstance(found[at], Gone):
                continue  # the first one knows better why
            found[at] = answer
            if isinstance(answer, Held):
                name = keeps[at].claim.spec.name
                log.warning("%s had forgotten a hold on %r; it is back", self.label, name)

    def _kept(
        self, keeps: Sequence[Keep], places: list[int], reply: Reply | Exception
    ) -> dict[int, Standing | Exception]:
        """What became of those that went in one call; nothing of those to be asked for alone."""
        try:
            kept = replies.kept(_whole(reply), [keeps[at] for at in places], self.label)
        except HoldfastError as wrong:
            return dict.fromkeys(places, wrong)
        return {at: one for at, one in zip(places, kept, strict=True) if one is not None}

    def _stood(self, keep: Keep, reply: Reply | Exception) -> Standing | Exception:
        try:
            standing = replies.stood(_whole(reply), keep, self.label)
        except HoldfastError as wrong:
            return wrong
        if isinstance(standing, Held):
            self._note(standing.fence)
        return standing

    async def leave(self, leave: Leave, within: float) -> bool:
        """Withdraw or release, and wake who now fits; see the contract."""
        reply = await self._port.ask(self._requests.leave(leave), within)
        return replies.left(reply, self.label)

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Enter several lines that are empty; see the contract."""
        held = await self._together.join_free(claims, within)
        if held:
            self._note(max(one.fence for one in held))
        return held

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Withdraw or release many in one round trip; see the contract."""
        return await self._together.leave_all(leaves, within)

    async def changed(self, within: float) -> bool:
        """Has the server lost data, or is it another one? See the contract."""
        before, found = self._verdict, await self._port.look(within)
        self._verdict = found
        another = bool(before.run_id) and before.run_id != found.run_id
        return another or (found.seconds > 0 and found.record != before.record)

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until woken or until the time-out has expired; see the contract."""
        granted = await self._port.wait(claim.id, waiting.ticket, seconds)
        if granted is not None:
            self._note(granted.fence)
        return granted

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """The lines whose name begins with the prefix; see the contract."""
        names = [prefix]
        if not exact:
            keys = await self._port.scan(pattern_of(self._prefix, prefix.encode()), within)
            found = {name_of(self._prefix, key) for key in keys}
            names = sorted(name for name in found if name is not None and name.startswith(prefix))
        lines: list[LineRecord] = []
        for start in range(0, len(names), _LOOK_MAX):
            part = names[start : start + _LOOK_MAX]
            said = await self._port.ask_many([self._requests.inspect(one) for one in part], within)
            for name, reply in zip(part, said, strict=True):
                line = replies.looked(_whole(reply), name, self.label)
                if line is not None:
                    lines.append(line)
        return lines

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Change the capacity of a line that isn't empty; see the contract."""
        reply = await self._port.ask(self._requests.resize(name, capacity), within)
        return replies.resized(reply, self.label)

    def unlisten(self, claim: Claim) -> None:
        """The claim waits no more; see the contract."""
        self._waiting.discard(claim.id)
        self._port.unlisten(claim.id)

    async def close(self) -> None:
        """End our connections; a client that was handed in keeps its own."""
        self.queues.forget()
        self.guards.forget()
        await self._port.close()

    def forked(self) -> None:
        """We are the child of a fork; see the contract."""
        self._waiting = set()
        self.queues.forget()
        self.guards.forget()
        self._port.forked()
