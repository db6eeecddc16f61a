"""The verbs of refresh guards on PostgreSQL: each sends a call and translates the reply.

The port wakes a waiter for a value in the same way as a waiter for a lock. The id of the `Wish`
(the request for a refresh lease) takes the place of the id of a claim.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...core.guard.model import (
    Abandon,
    Begun,
    Busy,
    Entry,
    EntryRecord,
    Failing,
    Finish,
    GuardCounts,
    GuardLimits,
    GuardRecord,
    Prolong,
    Value,
    Wish,
)
from ...core.model import Gone, Held
from ...core.policy import TOMB_S
from ...errors import HoldfastError, StoreUnavailable
from . import guard_replies as replies
from .calls import span
from .config import Settings
from .guard_calls import GuardCalls
from .replies import words

if TYPE_CHECKING:
    from .store import Port

log = logging.getLogger("holdfast")

#: A client removes expired entries `TIDY_S` seconds after the last removal, or after `TIDY_EVERY`
#: ended refresh leases. It removes at most twice the number of these leases, plus `_TIDY_MORE`:
#: this is more than the client can have added, so expired entries don't accumulate.
TIDY_S = 1.0
TIDY_EVERY = 256
_TIDY_MORE = 64
#: Seconds after which a removal looks through all expired entries.
TIDY_ALL_S = 60.0
#: The number that a wake-up contains after the id; always the same.
_POKED = 1


class PostgresGuards:
    """See :class:`holdfast.core.guard.ports.Guards`."""

    limits = GuardLimits()

    def __init__(self, port: Port, settings: Settings) -> None:
        self._port = port
        self._label = settings.label
        self._calls = GuardCalls(settings)
        self.forget()

    def forget(self) -> None:
        """Begin without state, at the start and in the child of a fork."""
        #: Number of refresh leases that ended since the last removal.
        self._since = 0
        #: Time of the last removal, and of the last removal that looked through all expired
        #: entries.
        self._tidied = self._all_tidied = -math.inf
        #: The time step of expiry at which the next removal begins.
        self._from = 0

    async def read(self, entries: Sequence[Entry], within: float) -> list[Value | None]:
        """See the contract."""
        if len(entries) == 1:
            rows = await self._port.ask(self._calls.read(entries[0]), within)
            return [replies.read(rows[0][0]) if rows else None]
        rows = await self._port.ask(self._calls.read_all(entries), within)
        return replies.read_all(rows, len(entries))

    async def begin(self, wish: Wish, within: float) -> Begun:
        """See the contract."""
        address = self._port.seat(wish.id) if wish.wait else ""
        begun = await self._begin(wish, address, within)
        told = address or not wish.wait or self._port.deaf
        if told or not isinstance(begun, (Busy, Failing)):
            return begun
        try:
            await self._port.listen(within / 2)
        except StoreUnavailable as wrong:
            log.debug("%s: no waiter can be woken now: %s", self._label, wrong)
        address = self._port.seat(wish.id)
        return await self._begin(wish, address, within / 2) if address else begun

    async def _begin(self, wish: Wish, address: str, within: float) -> Begun:
        rows = await self._port.ask(self._calls.begin(wish, address), within)
        return replies.begun(rows, self._label)

    async def finish(self, finish: Finish, within: float) -> bool:
        """See the contract."""
        until = self._port.now() + within
        rows = await self._port.ask(self._calls.finish(finish), within)
        await self._tidy(until)
        return replies.yes(rows, self._label)

    async def abandon(self, abandon: Abandon, within: float) -> bool:
        """See the contract."""
        until = self._port.now() + within
        tombstone = abandon.lease + TOMB_S if abandon.suspect else 0.0
        rows = await self._port.ask(self._calls.abandon(abandon, tombstone), within)
        await self._tidy(until)
        return replies.yes(rows, self._label)

    async def _tidy(self, until: float) -> None:
        """Remove some expired entries, if the last removal was long enough ago."""
        self._since += 1
        now = self._port.now()
        left = min(until - now, TIDY_S)
        if left <= 0 or (now - self._tidied < TIDY_S and self._since < TIDY_EVERY):
            return
        many, self._since, self._tidied = 2 * self._since + _TIDY_MORE, 0, now
        if now - self._all_tidied >= TIDY_ALL_S:
            self._all_tidied, self._from = now, 0
        try:
            rows = await self._port.ask(self._calls.tidy(many, self._from), left)
            self._from = replies.number(rows, self._label)
        except HoldfastError as wrong:  # the next removal can do it
            log.debug("%s: expired entries stay until the next removal: %s", self._label, wrong)

    async def prolong(
        self, prolongs: Sequence[Prolong], within: float
    ) -> list[Held | Gone | Exception]:
        """See the contract."""
        order = _ascending([one.entry for one in prolongs])
        asked = [prolongs[at] for at in order]
        rows = await self._port.ask(self._calls.prolong(asked), within)
        found = dict(zip(order, replies.prolonged(rows, asked, self._label), strict=True))
        return [found[at] for at in range(len(prolongs))]

    async def invalidate(self, entries: Sequence[Entry], within: float) -> list[bool]:
        """See the contract."""
        order = _ascending(entries)
        rows = await self._port.ask(self._calls.invalidate([entries[at] for at in order]), within)
        (there,) = words(rows, self._label)
        found = dict(zip(order, there, strict=True))
        return [found[at] == ord("t") for at in range(len(entries))]

    async def wait(self, wish: Wish, seconds: float) -> bool:
        """See the contract."""
        poked = await self._port.wait(wish.id, _POKED, seconds) is not None
        if poked:  # this wake-up must not end the next wait, too
            self._port.unlisten(wish.id)
        return poked

    def unlisten(self, wish: Wish) -> None:
        """See the contract."""
        self._port.unlisten(wish.id)

    async def look(self, entry: Entry, within: float) -> EntryRecord:
        """See the contract."""
        rows = await self._port.ask(self._calls.look(entry), within)
        return replies.looked(rows, entry, self._label)

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[GuardRecord]:
        """See the contract."""
        call = self._calls.survey(*span(prefix, exact))
        return replies.surveyed(await self._port.ask(call, within))

    async def tally(self, guard: str, tally: GuardCounts, within: float) -> None:
        """See the contract."""
        await self._port.ask(self._calls.tally(guard, tally), within)


def _ascending(entries: Sequence[Entry]) -> list[int]:
    """Return the indexes of the entries in the server's order, so that requests can't deadlock."""
    return sorted(
        range(len(entries)),
        key=lambda at: (entries[at].guard.encode(), entries[at].key.encode()),
    )
