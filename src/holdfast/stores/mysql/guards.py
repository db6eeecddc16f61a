"""The verbs of refresh guards on MySQL and MariaDB: their statements, and what the replies mean.

There are no wake-ups: a waiter polls, with growing pauses. A *look* is one poll.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Sequence

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
from ...core.model import Gone, Held, Loss
from ...core.policy import TOMB_S
from ...errors import HoldfastError
from . import guard_replies as replies
from .guard_calls import GuardCalls, ascending
from .port import LOOK_FIRST_S, Port, look_until
from .replies import numbers, said

#: Maximum number of entries that one transaction invalidates: the transaction locks the rows of all
#: these entries.
BATCH_MAX = 250
#: A client removes expired entries after `SWEEP_S` seconds or `SWEEP_EVERY` refresh leases. It
#: removes at most twice the number of these leases plus `_SWEEP_MORE`, so entries don't accumulate.
SWEEP_S = 1.0
SWEEP_EVERY = 256
_SWEEP_MORE = 64


class MysqlGuards:
    """See :class:`holdfast.core.guard.ports.Guards`."""

    limits = GuardLimits()

    def __init__(self, port: Port, prefix: str) -> None:
        self._port = port
        self._calls = GuardCalls(prefix)
        self.forget()

    def forget(self) -> None:
        """Begin without state, at the start and in the child of a fork."""
        #: For each waiting `Wish`: the pause before its next look, and the number of refresh leases
        #: that had ended.
        self._pauses: dict[str, float] = {}
        self._ended: dict[str, int] = {}
        #: Number of refresh leases since the last sweep; the time of that sweep.
        self._since = 0
        self._swept = -math.inf

    async def read(self, entries: Sequence[Entry], within: float) -> list[Value | None]:
        """Return the values of entries, by one statement for each guard; see the contract."""
        if len(entries) == 1:
            rows = await self._port.call(self._calls.read(entries[0]), within)
            return [replies.read(rows[0][0]) if rows else None]
        until = self._port.now() + within
        found: dict[Entry, Value | None] = {}
        for guard, some in itertools.groupby(sorted({*entries}), lambda one: one.guard):
            sql = self._calls.read_all(guard, [one.key for one in some])
            for row in await self._port.call(sql, until - self._port.now()):
                found[Entry(guard, bytes(row[1]).decode())] = replies.read(row[0])
        return [found.get(one) for one in entries]

    async def begin(self, wish: Wish, within: float) -> Begun:
        """Take the refresh lease, unless another client holds it; see the contract."""
        begun, ended = replies.begun(await self._port.call(self._calls.begin(wish), within))
        if wish.wait and isinstance(begun, (Busy, Failing)):
            self._pauses.setdefault(wish.id, LOOK_FIRST_S)
            self._ended[wish.id] = ended
        return begun

    async def finish(self, finish: Finish, within: float) -> bool:
        """Store the value of a refresh lease; see the contract."""
        until = self._port.now() + within
        stored = said(await self._port.call(self._calls.finish(finish), within))
        await self._sweep(until)
        return bool(stored)

    async def abandon(self, abandon: Abandon, within: float) -> bool:
        """End a refresh lease without a value; see the contract."""
        until = self._port.now() + within
        tombstone = abandon.lease + TOMB_S if abandon.suspect else 0.0
        ours = said(await self._port.call(self._calls.abandon(abandon, tombstone), within))
        await self._sweep(until)
        return bool(ours)

    async def _sweep(self, until: float) -> None:
        """Remove expired entries if the next sweep is due."""
        self._since += 1
        now = self._port.now()
        left = min(until - now, SWEEP_S)
        if left <= 0 or (now - self._swept < SWEEP_S and self._since < SWEEP_EVERY):
            return
        rows, self._since, self._swept = 2 * self._since + _SWEEP_MORE, 0, now
        with contextlib.suppress(HoldfastError):  # the next sweep can do it
            await self._port.call(self._calls.sweep(rows, 0), left)

    async def prolong(
        self, prolongs: Sequence[Prolong], within: float
    ) -> list[Held | Gone | Exception]:
        """Renew a batch of refresh leases; see the contract."""
        order = ascending([one.entry for one in prolongs])
        sql = self._calls.prolong(prolongs[at] for at in order)
        fences = numbers(await self._port.call(sql, within)) or []
        found = dict(zip(order, fences, strict=True))
        return [
            Held(found[at], one.lease) if found[at] else Gone(Loss.EXPIRED)
            for at, one in enumerate(prolongs)
        ]

    async def invalidate(self, entries: Sequence[Entry], within: float) -> list[bool]:
        """Forget entries; see the contract."""
        until = self._port.now() + within
        order = ascending(entries)
        found: dict[int, bool] = {}
        for start in range(0, len(order), BATCH_MAX):
            some = order[start : start + BATCH_MAX]
            sql = self._calls.invalidate(entries[at] for at in some)
            there = said(await self._port.call(sql, until - self._port.now()))
            text = there if isinstance(there, str) else bytes(there).decode()
            found.update((at, one == "1") for at, one in zip(some, text, strict=True))
        return [found[at] for at in range(len(entries))]

    async def wait(self, wish: Wish, seconds: float) -> bool:
        """Look repeatedly until a refresh lease has ended or the time is up; see the contract.

        There are no wake-ups. A look neither locks nor writes anything.
        """
        known = self._ended.get(wish.id, 0)
        looks = self._port, self._calls.ended(wish.entry), self._pauses, wish.id
        ended = await look_until(*looks, lambda rows: not rows or rows[0][0] != known, seconds)
        return ended is not None

    def unlisten(self, wish: Wish) -> None:
        """Forget a `Wish` that no longer waits; see the contract."""
        self._pauses.pop(wish.id, None)
        self._ended.pop(wish.id, None)

    async def look(self, entry: Entry, within: float) -> EntryRecord:
        """Return the state of an entry; see the contract."""
        return replies.looked(await self._port.call(self._calls.look(entry), within), entry)

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[GuardRecord]:
        """Return the guards that have counts; see the contract."""
        return replies.surveyed(await self._port.call(self._calls.survey(prefix, exact), within))

    async def tally(self, guard: str, tally: GuardCounts, within: float) -> None:
        """Add to the counts of a guard; see the contract."""
        await self._port.call(self._calls.tally(guard, tally), within)
