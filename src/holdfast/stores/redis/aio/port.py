"""The port for one event loop: one connection for all requests and wake-ups.

Under RESP3 the wake-ups come on the connection that the requests use. RESP2 can't do that, so a
second connection listens. The port subscribes when a claim first has to wait. Every new connection
uses the same address, a channel for this client alone, which the lines of claims contain.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ....core.model import Granted
from ....core.policy import PATIENCE_S, back_off
from ....errors import StoreUnavailable
from ....runtime.aio import another_loop, sever
from ....runtime.blocking import boottime
from ....runtime.timers.aio import ended, later, sleep
from ..complaints import ServerSaid, complaint
from ..config import Settings
from ..recovery import Recovery, Verdict, grants, wait_words
from ..replies import Reply, poked, scanned
from ..scripts import Call
from ..value_keys import Place, reading
from .answer import Answer, new_answer, wake
from .connect import connect, unheeded
from .shared import Shared, weakly
from .wire import Wire

log = logging.getLogger("holdfast")

#: Maximum seconds for the first attempt to connect; each further attempt can take twice as long.
FIRST_S = 1.0
#: Maximum seconds for requests under way when the client closes.
CLOSE_S = 2.0
#: Seconds of silence after which a PING is sent on the connection that only listens.
SILENT_S = 5.0
SIGN_S = 1.0  # maximum seconds for the reply
#: Seconds until the port tries again to subscribe after a failure.
MUTE_S = 1.0
#: Seconds until the port tries again to subscribe after a refusal. Each refusal is logged.
DEAF_S = 30.0
DEAF = "%s refused the subscription (%s): waiters ask once a second; tried again in %g s"
_SCAN_COUNT = b"1000"
#: In a forked child: objects of the parent. If Python freed them, the server would notice.
_of_the_parent: list[object] = []


class Box:
    """The sleep of a claim: the fence of its last wake-up, the ticket with which it waits, and the
    answer that ends the sleep."""

    __slots__ = ("fence", "ticket", "waiter")

    def __init__(self, fence: int, ticket: int, waiter: Answer) -> None:
        self.fence = fence
        self.ticket = ticket
        self.waiter = waiter


class LoopPort:
    """See :class:`holdfast.stores.redis.store.Port`."""

    clustered = False
    patience = PATIENCE_S
    #: The class of a connection.
    _made_into: type[Wire] = Wire

    def __init__(self, settings: Settings) -> None:
        self.label = settings.label
        self.recovery = Recovery(settings, boottime)
        self.replicas = settings.replicas
        self._settings = settings
        self._start()

    def _start(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wire: Wire | None = None
        #: The connection that is subscribed to the address; None: wake-ups don't arrive.
        self._ear: Wire | None = None
        self._not_before = self._mute_until = self._deaf_until = 0.0
        self._failures = 0
        self._closed = False
        self._address = f"{self._settings.prefix}:poke:{secrets.token_hex(9)}".encode()
        #: By id of a claim that can be woken: its `Box`, or the fence of its wake-up (0: none).
        self._boxes: dict[str, int | Box] = {}
        self._connecting = Shared(self._connect)
        self._listening = Shared(self._listen)

    # -- asking ----------------------------------------------------------------------------

    def ask(self, call: Call, within: float) -> Awaitable[Reply]:
        """Send one call. If there is a connection, the call leaves before the caller awaits it."""
        wire = self._wire
        if wire is None or asyncio.get_running_loop() is not self._loop:
            return self._ask(call, within)
        return self._send(wire, call, within)

    async def _ask(self, call: Call, within: float) -> Reply:
        wire, within = await self._reach(within)
        return await self._send(wire, call, within)

    def _send(self, wire: Wire, call: Call, within: float) -> Awaitable[Reply]:
        answer = wire.send(call, within)
        return self._confirmed(wire, call, answer, within) if self.replicas else answer

    async def _confirmed(self, wire: Wire, call: Call, answer: Answer, within: float) -> Reply:
        """The answer, once replicas have confirmed a grant."""
        due = boottime() + within
        reply = await answer
        if grants(call, reply):
            left = due - boottime()
            said = await wire.command(*wait_words(self.replicas, left), within=left)
            wrong = self.recovery.unconfirmed(said, self.replicas)
            if wrong is not None:
                raise wrong
        return reply

    async def look(self, within: float) -> Verdict:
        """The present verdict of recovery; see the protocol."""
        wire, within = await self._reach(within)
        due = boottime() + within
        found = self.recovery.verdict(await wire.send(self.recovery.look(), within))
        if isinstance(found, Verdict) and found.record != found.run_id:
            found = self.recovery.verdict(await wire.send(self.recovery.asked(0), due - boottime()))
        if isinstance(found, ServerSaid):
            raise complaint(found, self.label)
        return found

    async def ask_many(self, calls: Sequence[Call], within: float) -> list[Reply | Exception]:
        """Send many calls in one write; one answer per call, in order."""
        wire, within = await self._reach(within)
        answers = [asyncio.ensure_future(self._send(wire, call, within)) for call in calls]
        found: list[Reply | Exception] = []
        try:
            for answer in answers:
                try:
                    found.append(await answer)
                except StoreUnavailable as failure:
                    found.append(failure)
        finally:
            for answer in answers[len(found) :]:
                _abandon(answer)
        return found

    def fetch(self, places: Sequence[Place], within: float) -> Awaitable[list[Reply]]:
        """Read values; the requests are sent immediately, as in `ask`."""
        wire = self._wire
        if wire is None or asyncio.get_running_loop() is not self._loop:
            return self._reach_and_fetch(places, within)
        return wire.fetch(reading(places), len(places), within)

    async def _reach_and_fetch(self, places: Sequence[Place], within: float) -> list[Reply]:
        wire, within = await self._reach(within)
        found: list[Reply] = await wire.fetch(reading(places), len(places), within)
        return found

    def enter(
        self, claim_id: str, call_of: Callable[[bytes], Call], within: float
    ) -> Awaitable[Reply]:
        """Send the join of a claim that may wait; see the protocol. The join is sent immediately,
        as in `ask`; the core has already checked the loop."""
        wire = self._wire
        if wire is None:
            return self._reach_and_enter(claim_id, call_of, within)
        return self._enter(wire, claim_id, call_of, within)

    async def _reach_and_enter(
        self, claim_id: str, call_of: Callable[[bytes], Call], within: float
    ) -> Reply:
        wire, within = await self._reach(within)
        return await self._enter(wire, claim_id, call_of, within)

    def _enter(
        self, wire: Wire, claim_id: str, call_of: Callable[[bytes], Call], within: float
    ) -> Awaitable[Reply]:
        if self._ear is None:
            return self._send(wire, call_of(b""), within)
        self._boxes[claim_id] = 0  # before the answer: its wake-up can come with it
        return self._send(wire, call_of(self._address), within)

    def addressed(self, claim_id: str) -> bool:
        """True if the join of this claim had an address; see the protocol."""
        return claim_id in self._boxes

    async def stand(self, claim_id: str, call_of: Callable[[bytes], Call], within: float) -> Reply:
        """Send the call of a waiting claim; subscribe first if needed."""
        wire, within = await self._reach(within)
        self._boxes.setdefault(claim_id, 0)
        ear = self._ear
        if ear is None and not self._deaf and boottime() >= self._mute_until:
            begun = boottime()
            try:
                # Subscribe in half of the time at most: the renewal of the claim needs the rest.
                await self._listening.wait(within / 2, f"could not subscribe at {self.label}")
            except StoreUnavailable:
                self._mute_until = boottime() + MUTE_S
            return await self.ask(call_of(self._here()), within - (boottime() - begun))
        if ear is not None and ear is not wire and boottime() > ear.heard_at + SILENT_S:
            ear.confirmed(b"PING", within=SIGN_S).add_done_callback(unheeded)
        return await self._send(wire, call_of(self._here()), within)

    def _here(self) -> bytes:
        return self._address if self._ear is not None else b""

    async def scan(self, pattern: bytes, within: float) -> list[bytes]:
        """The keys that match, each once, in no order."""
        due = boottime() + within
        wire, _ = await self._reach(within)
        found: set[bytes] = set()
        cursor = b"0"
        while True:
            words = (b"SCAN", cursor, b"MATCH", pattern, b"COUNT", _SCAN_COUNT)
            reply = await wire.command(*words, within=due - boottime())
            if isinstance(reply, ServerSaid):
                raise complaint(reply, self.label)
            cursor, keys = scanned(reply, self.label)
            found.update(keys)
            if cursor == b"0":
                return list(found)

    # -- waiting ---------------------------------------------------------------------------

    async def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """Sleep until the wake-up for this claim and ticket arrives, at most ``seconds``."""
        loop = self._own()
        known = self._boxes.get(claim_id, 0)
        fence = known.fence if isinstance(known, Box) else known
        if fence == ticket:
            return Granted(ticket)
        if self._ear is None and not self._deaf and boottime() >= self._mute_until:
            return None
        waiter = new_answer(loop)
        box = self._boxes[claim_id] = Box(fence, ticket, waiter)
        timer = later(loop, max(0.0, seconds), wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
        return Granted(ticket) if box.fence == ticket else None

    def unlisten(self, claim_id: str) -> None:
        """Stop waiting for this claim."""
        self._boxes.pop(claim_id, None)

    def _heard(self, message: bytes) -> Answer | None:
        """Record a wake-up. If its claim sleeps, return the answer that ends the sleep."""
        poke = poked(message)
        if poke is None or (box := self._boxes.get(poke[0])) is None:
            return None
        if not isinstance(box, Box):
            self._boxes[poke[0]] = poke[1]
            return None
        box.fence = poke[1]
        return box.waiter if box.ticket == poke[1] and not box.waiter.done() else None

    # -- connecting ------------------------------------------------------------------------

    def _own(self) -> asyncio.AbstractEventLoop:
        """The running loop; an error if this port belongs to another loop."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise another_loop()
        return loop

    async def _reach(self, within: float) -> tuple[Wire, float]:
        """The connection, a new one if there is none, and the seconds that are left."""
        self._own()
        if self._closed:
            raise StoreUnavailable(f"this client of {self.label} is closed")
        if self._wire is not None:
            return self._wire, within
        begun = boottime()
        wire = await self._connecting.wait(within, f"{self.label} took no connection")
        return wire, within - (boottime() - begun)

    async def _connect(self) -> Wire:
        await sleep(max(0.0, self._not_before - boottime()))
        wire = self._new_wire()
        try:
            found = await self._where()
            self._settings = await connect(found, wire, self._attempt_s(), self.recovery)
        except StoreUnavailable:
            self._failed()
            raise
        if not wire.over:
            self._wire = wire
        return wire

    def _new_wire(self, ear: bool = False) -> Wire:
        heard, ended = weakly(self._heard), weakly(self._ended)
        return self._made_into(self.label, heard, ended, self.recovery, ear)

    async def _where(self) -> Settings:
        """The settings of the current server; with sentinels, each call can find another server."""
        return self._settings

    def _attempt_s(self) -> float:
        """Maximum seconds to connect: few for the first attempt, because a packet can be lost."""
        return min(self._settings.connect_s, FIRST_S * 2.0 ** min(self._failures, 12))

    def _failed(self) -> None:
        self._failures += 1
        self._not_before = boottime() + back_off(self._failures, random.random(), 1.0)

    def _ended(self, wire: Wire) -> None:
        """A connection can no longer be used: wake the waiters, so that they ask the server."""
        if wire is self._wire:
            self._wire = None
            if wire.unfit:
                self._failed()
            else:
                self._failures = 0
        if wire is self._ear:
            self._ear = None
            for box in self._boxes.values():
                if isinstance(box, Box):
                    wake(box.waiter)

    async def _listen(self) -> None:
        """Subscribe: on the present connection, or on a separate one under RESP2."""
        limit = self._attempt_s()
        ear, _ = await self._reach(limit)
        own = self._settings.protocol == 2
        if own:
            ear = self._new_wire(ear=True)
            await connect(self._settings, ear, limit)
        try:
            reply = await ear.confirmed(b"SUBSCRIBE", self._address, within=limit)
            if not isinstance(reply, ServerSaid):
                self._ear = None if ear.over else ear
            elif isinstance(wrong := complaint(reply, self.label), StoreUnavailable):
                raise wrong
            else:
                self._refused(reply)
        finally:
            if own and self._ear is not ear:
                ear.close()

    def _refused(self, reply: ServerSaid) -> None:
        """Handle the refusal of the subscription: the user lacks the right for it."""
        self._deaf_until = boottime() + DEAF_S
        log.warning(DEAF, self.label, reply, DEAF_S)

    @property
    def _deaf(self) -> bool:
        return boottime() < self._deaf_until

    # -- the end ---------------------------------------------------------------------------

    async def close(self) -> None:
        """Close the connections after the requests under way have finished."""
        self._own()
        if self._closed:
            return
        self._closed = True
        wires = {one for one in (self._wire, self._ear) if one is not None}
        if self._wire is not None and self._wire.under_way:
            with contextlib.suppress(StoreUnavailable):
                await self._wire.command(b"PING", within=CLOSE_S)  # answered after all the others
        await self._connecting.cancel()
        await self._listening.cancel()
        for wire in wires:
            wire.close()
            await ended([wire.gone], CLOSE_S)

    def abandon(self) -> None:
        """Close the connections without their loop, which no longer runs."""
        self._closed = True
        for wire in {one for one in (self._wire, self._ear) if one is not None}:
            sever(wire.transport)

    def __del__(self) -> None:
        # If no caller has closed the connections, the loop keeps them open until its own end.
        loop = getattr(self, "_loop", None)
        if loop is None or self._closed:
            return
        for wire in {one for one in (self._wire, self._ear) if one is not None}:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(wire.close)

    def forked(self) -> None:
        """Reset the state: in the child of a fork it belongs to the parent."""
        for wire in {one for one in (self._wire, self._ear) if one is not None}:
            wire.leak()
        _of_the_parent.append((self._wire, self._ear, self._connecting, self._listening))
        self._start()


def _abandon(answer: asyncio.Future[Any]) -> None:
    """Cancel an answer that the caller no longer awaits; its place on the connection stays."""
    if not answer.cancel():
        unheeded(answer)
