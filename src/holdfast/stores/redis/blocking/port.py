"""The port for threads: the verbs over a few connections, and one that listens for all waiters.

A verb takes a connection and returns it after the reply (`connections`). Wake-ups arrive on one
connection for the whole client, which is opened when a claim first has to wait (`ear`).

After any error between taking and returning, Ctrl-C included, the connection is closed: a
reply that is still under way is never read by another request.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from ....core.model import Granted
from ....core.policy import PATIENCE_S
from ....errors import HoldfastError, StoreUnavailable
from ....runtime.blocking import Bell, boottime
from ..complaints import ServerSaid, complaint
from ..library import JOIN, packed
from ..recovery import Verdict
from ..replies import scanned
from ..scripts import Call
from ..value_keys import Place, reading
from .connections import Connections
from .ear import Box, Ear, EarLink

log = logging.getLogger("holdfast")

#: The warning after a refused subscription.
DEAF = "%s refused the subscription (%s): waiters ask once a second; tried again in %g s"
#: Number of keys that a server examines in one call of SCAN.
_SCAN_COUNT = b"1000"
_WAITS = 2
#: Seconds until listening is tried again after it has failed, and after the server has refused it.
MUTE_S, DEAF_S = 1.0, 30.0


class _Opening:
    """One thread opens the connection that listens; other threads wait until ``over`` is set."""

    __slots__ = ("over", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.over = Bell()


class ThreadPort(Connections):
    """See :class:`holdfast.stores.redis.store.Port`."""

    clustered = False
    patience = PATIENCE_S

    def _start(self) -> None:
        super()._start()
        self._ear = Ear()
        self._address = f"{self._settings.prefix}:poke:{os.urandom(9).hex()}".encode()
        self._openings: dict[int, _Opening] = {}
        #: The time until which no thread tries to listen: waiters get no wake-ups, and poll the
        #: server.
        self._deaf_until = 0.0

    # -- requests ----------------------------------------------------------------------------

    async def ask(self, call: Call, within: float) -> Any:
        """Send one call over any connection; see the protocol."""
        now = boottime()
        until = now + within
        link = self._take(now, until, call.script)
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
            if self._short:
                self._relieve()
        else:
            self._give(link, reply)
        return reply

    async def ask_many(self, calls: Sequence[Call], within: float) -> list[Any]:
        """Send many calls in one round trip; see the protocol."""
        if not calls:
            return []
        now = boottime()
        until = now + within
        link = self._take(now, until, None)
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
        now = boottime()
        until = now + within
        link = self._take(now, until)
        try:
            replies = link.ask_several(reading(places), 2 * len(places), now, until)
        except BaseException as wrong:
            self._broken(link, wrong, within)
        self._give(link, replies[0])
        return replies

    async def look(self, within: float) -> Verdict:
        """The present verdict of recovery; see the protocol."""
        until = boottime() + within
        link = self._take(boottime(), until)
        try:
            found = self._verdict(link, self.recovery.look(), until)
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
        now = boottime()
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
                cursor, keys = scanned(reply, self.label)
                found.update(keys)
                if cursor == b"0":
                    break
        except HoldfastError:
            raise  # after an unusable reply, the connection is collected and so closed
        except BaseException as wrong:
            self._broken(link, wrong, within)
        self._give(link, None)
        return list(found)

    # -- waiting -----------------------------------------------------------------------------

    async def enter(self, claim_id: str, call_of: Callable[[bytes], Call], within: float) -> Any:
        """Send the join of a claim that may wait; see the protocol."""
        now = boottime()
        until = now + within
        if self._ear.link is None:
            call = call_of(b"")
        else:
            call = self._heard_call(claim_id, call_of, now)
        link = self._take(now, until, JOIN)
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
            if self._short:
                self._relieve()
        else:
            self._give(link, reply)
        return reply

    def _heard_call(self, claim_id: str, call_of: Callable[[bytes], Call], now: float) -> Call:
        """Make the join of a claim. Record the claim's wake-ups already before the join is sent."""
        box = self._ear.box(claim_id)
        if self._ear.alive(box, now):
            return call_of(self._address)
        self._ear.forget(claim_id)
        return call_of(b"")

    def addressed(self, claim_id: str) -> bool:
        """True if the join had an address, or if no address is available; see the protocol."""
        return claim_id in self._ear.boxes or boottime() < self._deaf_until

    async def stand(self, claim_id: str, call_of: Callable[[bytes], Call], within: float) -> Any:
        """Send the call of a waiting claim; subscribe first if needed; see the protocol."""
        begun = boottime()
        until = begun + within
        box = self._ear.box(claim_id)
        # Subscribe in at most half of the time: the call that renews the claim needs the rest.
        refusal = self._attend(box, call_of, begun, begun + within / 2)
        if refusal is not None:
            return refusal
        now = boottime()
        link = self._take(now, until, JOIN)
        try:
            call = call_of(self._here(box))
            reply = link.ask(self._wire(link, call), now, until)
            if reply.__class__ is not int:
                reply = self._mended(link, call, reply, until)
            if self.replicas:
                self._confirm(link, call, reply, until)
        except BaseException as wrong:
            self._broken(link, wrong, within)
        self._give(link, reply)
        return reply

    async def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """Sleep until woken; see the protocol."""
        ear = self._ear
        box = ear.boxes.get(claim_id)
        if box is not None and ear.link is not None:
            poke = b"%b %d" % (claim_id.encode(), ticket)
            woken = ear.wait(box, ticket, poke, seconds)
            return tuple.__new__(Granted, (ticket,)) if woken else None
        if box is not None and box.fence == ticket:
            return Granted(ticket)
        if boottime() < self._deaf_until:
            self._pause(seconds)
        return None

    @staticmethod
    def _pause(seconds: float) -> None:
        time.sleep(max(0.0, seconds))

    def unlisten(self, claim_id: str) -> None:
        """Stop waiting for this claim; see the protocol."""
        if claim_id in self._ear.boxes:
            self._ear.forget(claim_id)

    # -- its life ----------------------------------------------------------------------------

    async def close(self) -> None:
        """Close the connections; wake threads that still wait on one."""
        self._hang_up()
        ear = self._ear.link
        if ear is not None:
            self._ear.give_up(ear)
        else:
            self._ear.wake()

    def forked(self) -> None:
        """Reset in the child of a fork; see the protocol."""
        links = self._open()
        self._start()
        for link in links:
            link.forget()

    def _farewell(self) -> None:
        super()._farewell()
        ear = self._ear.link
        if ear is not None:  # it leads to the same server
            self._ear.give_up(ear)

    # -- listening ---------------------------------------------------------------------------

    def _attend(
        self, box: Box, call_of: Callable[[bytes], Call], now: float, until: float
    ) -> ServerSaid | None:
        """Make sure that the wake-ups for this claim arrive, if possible. In a cluster: return the
        error by which a node sends the claim to another node."""
        if self._ear.link is not None:
            self._ear.check(now)
        if self._ear.link is None and now >= self._deaf_until and not self._closed:
            self._listen(until)
        return None

    def _here(self, box: Box) -> bytes:
        return self._address if self._ear.link is not None else b""

    def _listen(self, until: float) -> None:
        """Open the connection that listens; if another thread is doing this, wait for it."""
        mine = _Opening(until)
        first = self._openings.setdefault(0, mine)
        if first is not mine:
            first.over.wait(max(0.0, min(until, first.until) - boottime()))
            if boottime() > first.until:  # its thread was interrupted
                self._openings.pop(0, None)
            return
        try:
            if self._ear.link is None:
                self._ear.link = self._new_ear(until)
        except StoreUnavailable:
            self._deaf_until = boottime() + MUTE_S
        finally:
            self._openings.pop(0, None)
            mine.over.set()

    def _new_ear(self, until: float) -> EarLink | None:
        ear = EarLink(self._dialler.dial(until), self._heard)
        self._links.add(ear)
        refusal = None
        try:
            if not self.clustered:
                refusal = ear.subscribe(self._address, until)
        except BaseException as wrong:
            self._broken(ear, wrong, until - boottime())
        if refusal is None and not self._closed:
            return ear
        self._drop(ear)  # `close` ran at the same time, and can have missed this connection
        if refusal is not None:
            self._refused(refusal)
        return None

    def _refused(self, refusal: ServerSaid) -> None:
        """Handle a refused subscription: the refusal is temporary, or the user lacks the right."""
        passing = isinstance(complaint(refusal, self.label), StoreUnavailable)
        self._deaf_until = boottime() + (MUTE_S if passing else DEAF_S)
        if not passing:
            log.warning(DEAF, self.label, refusal, DEAF_S)

    def _heard(self, said: list[Any]) -> None:
        """Handle a message."""
        if said[0] == b"message":
            self._ear.hear(said[2])
