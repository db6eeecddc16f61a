"""The verbs of refresh guards on Redis: the script of each, and the meaning of its answer.

A value is read without a script, by two plain commands in one write. This module uses no socket:
see ``store.py`` for the port.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from ...core.guard.model import (
    Abandon,
    Begun,
    Entry,
    EntryRecord,
    Finish,
    GuardCounts,
    GuardLimits,
    GuardRecord,
    Prolong,
    Value,
    Wish,
)
from ...core.model import Gone, Held, Loss
from ...errors import HoldfastError, StoreUnavailable
from . import value_replies as replies
from .complaints import ServerSaid, complaint
from .port import Port, Reply
from .scripts import Call
from .value_calls import ValueRequests
from .value_keys import SHARDS

log = logging.getLogger("holdfast")

#: Maximum seconds to report the address of a request that was sent without an address; if this
#: report fails, a later request reports the address.
ADDRESS_S = 0.2
#: The first element of the reply to a begin that must wait.
_WAITS = 2


class RedisGuards:
    """See :class:`holdfast.core.guard.ports.Guards`."""

    limits = GuardLimits()

    def __init__(self, port: Port, prefix: str) -> None:
        self._port = port
        self._requests = ValueRequests(prefix)
        self.forget()

    def forget(self) -> None:
        """Forget all waiters: the client is closed, or this is the child of a fork."""
        #: By the id of a waiting request: the number of its calls. A wake-up for an older call is
        #: ignored.
        self._tickets: dict[str, int] = {}

    # -- reading -----------------------------------------------------------------------------

    async def read(self, entries: Sequence[Entry], within: float) -> list[Value | None]:
        """Read the values; see the contract."""
        place_of, label = self._requests.place, self._port.label
        if not entries:
            return []
        if len(entries) == 1:  # the usual case
            place = place_of(entries[0])
            left, raw = await self._port.fetch((place,), within)
            return [replies.value(left, raw, place, label)]
        places = [place_of(entry) for entry in entries]
        said = await self._port.fetch(places, within)
        return [
            replies.value(said[2 * at], said[2 * at + 1], place, label)
            for at, place in enumerate(places)
        ]

    # -- the refresh lease -------------------------------------------------------------------

    async def begin(self, wish: Wish, within: float) -> Begun:
        """Take the refresh lease; see the contract."""
        place = self._requests.place(wish.entry)
        if wish.wait:
            reply = await self._begin_or_wait(wish, within)
        else:
            reply = await self._port.ask(self._requests.begin(wish, b""), within)
        return replies.begun(reply, place, self._port.label)

    async def _begin_or_wait(self, wish: Wish, within: float) -> Reply:
        ask = self._port.stand if wish.id in self._tickets else self._port.enter
        reply = await self._asked(ask, wish, within)
        waits = reply.__class__ is list and reply[0] == _WAITS
        if not waits or self._port.addressed(wish.id):
            return reply
        try:  # if this fails, the request is sent again soon
            return await self._asked(self._port.stand, wish, min(within, ADDRESS_S))
        except StoreUnavailable:
            return reply

    async def _asked(
        self,
        ask: Callable[[str, Callable[[bytes], Call], float], Awaitable[Reply]],
        wish: Wish,
        within: float,
    ) -> Reply:
        """Ask as a waiter, with a new ticket each time, so that no old wake-up ends the sleep."""
        ticket = self._tickets[wish.id] = self._tickets.get(wish.id, 0) + 1

        def call_of(address: bytes) -> Call:
            seat = b"%d %b" % (ticket, address) if address else b""
            return self._requests.begin(wish, seat)

        return await ask(wish.id, call_of, within)

    async def wait(self, wish: Wish, seconds: float) -> bool:
        """Sleep until the refresh lease has ended; see the contract."""
        ticket = self._tickets.get(wish.id, 0)
        return await self._port.wait(wish.id, ticket, seconds) is not None

    def unlisten(self, wish: Wish) -> None:
        """Stop waiting for this request; see the contract."""
        if self._tickets.pop(wish.id, None) is not None:
            self._port.unlisten(wish.id)

    async def finish(self, finish: Finish, within: float) -> bool:
        """Store the value and end the refresh lease; see the contract.

        A server that is out of memory refuses the value. Then the refresh lease ends without a
        value, so that no caller waits for one.
        """
        label = self._port.label
        reply = await self._port.ask(self._requests.finish(finish), within)
        if isinstance(reply, ServerSaid) and reply.code == "OOM":
            wrong = complaint(reply, label)
            log.warning("%s was computed, but not stored: %s", finish.entry, wrong)
            given_up = Abandon(finish.entry, finish.id, 0.0)
            await self.abandon(given_up, within)
            return False
        return replies.yes(reply, label)

    async def abandon(self, abandon: Abandon, within: float) -> bool:
        """End the refresh lease without a value; see the contract."""
        reply = await self._port.ask(self._requests.abandon(abandon), within)
        return replies.yes(reply, self._port.label)

    async def prolong(
        self, prolongs: Sequence[Prolong], within: float
    ) -> list[Held | Gone | Exception]:
        """Renew a batch of refresh leases; see the contract."""
        calls = [self._requests.prolong(one) for one in prolongs]
        found: list[Held | Gone | Exception] = []
        said = await self._port.ask_many(calls, within)
        for one, reply in zip(prolongs, said, strict=True):
            try:
                ours = replies.yes(reply, self._port.label)
                found.append(Held(one.fence, one.lease) if ours else Gone(Loss.EXPIRED))
            except HoldfastError as wrong:
                found.append(wrong)
        return found

    async def invalidate(self, entries: Sequence[Entry], within: float) -> list[bool]:
        """Remove values, failures and refresh leases; see the contract."""
        calls = [self._requests.invalidate(entry) for entry in entries]
        said = await self._port.ask_many(calls, within)
        return [replies.yes(reply, self._port.label) for reply in said]

    # -- looking and counting ----------------------------------------------------------------

    async def look(self, entry: Entry, within: float) -> EntryRecord:
        """The state of an entry; see the contract."""
        reply = await self._port.ask(self._requests.look(entry), within)
        return replies.shown(reply, entry, self._requests.place(entry), self._port.label)

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[GuardRecord]:
        """The counts of guards; see the contract."""
        label = self._port.label
        found = [prefix]
        if not exact:
            calls = [self._requests.names(shard) for shard in range(SHARDS)]
            said = await self._port.ask_many(calls, within)
            known = {name for reply in said for name in replies.names(reply, label)}
            found = sorted(name for name in known if name.startswith(prefix))
        if not found:
            return []
        said = await self._port.ask_many([self._requests.sums(name) for name in found], within)
        tallies = [replies.summed(reply, label) for reply in said]
        return [
            GuardRecord(name, tally)
            for name, tally in zip(found, tallies, strict=True)
            if tally is not None
        ]

    async def tally(self, guard: str, tally: GuardCounts, within: float) -> None:
        """Add to the counts of a guard; see the contract."""
        reply = await self._port.ask(self._requests.tally(guard, tally), within)
        replies.yes(reply, self._port.label)
