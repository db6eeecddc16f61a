"""Refresh guards of the embedded store, for threads and for asyncio.

Each verb is passed to the port, as in ``store.py``. ``blocking/values/values.py`` defines them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

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
from ...core.model import Gone, Held

T = TypeVar("T")


class Engine(Protocol):
    """The verbs as functions that can block; the last argument is the time limit in seconds."""

    def begin(self, wish: Wish, within: float) -> Begun:
        """Take the refresh lease."""
        ...

    def finish(self, finish: Finish, within: float) -> bool:
        """Store the value."""
        ...

    def abandon(self, abandon: Abandon, within: float) -> bool:
        """End the refresh lease without a value."""
        ...

    def prolong(self, prolongs: Sequence[Prolong], within: float) -> list[Held | Gone | Exception]:
        """Renew a batch of refresh leases."""
        ...

    def invalidate(self, entries: Sequence[Entry], within: float) -> list[bool]:
        """Forget values."""
        ...

    def look(self, entry: Entry, within: float) -> EntryRecord:
        """The record of one entry."""
        ...

    def survey(self, prefix: str, exact: bool, within: float) -> list[GuardRecord]:
        """The records of the guards."""
        ...

    def tally(self, guard: str, tally: GuardCounts, within: float) -> None:
        """Add to the counts of one guard."""
        ...


class ValuePort(Protocol):
    """The runtime, threads or asyncio: it runs the verbs of guards, and waits for wake-ups."""

    @property
    def engine(self) -> Engine:
        """The engine that this port runs."""
        ...

    async def call(self, work: Callable[..., T], *args: object) -> T:
        """Run ``work`` after all earlier calls; see ``store.Port``."""
        ...

    async def read(self, entries: Sequence[Entry], within: float) -> list[Value | None]:
        """Return the values in order, without the file mutex if that is possible."""
        ...

    def glance(self, entry: Entry) -> Value | None:
        """Return the value if this client sees that the value is unchanged since its last read."""
        ...

    async def sleep(self, wish: str, seconds: float) -> bool:
        """Sleep until this request is woken, until the client that computes the value has died, or
        until ``seconds`` have passed. Return True after a wake-up."""
        ...

    def unlisten(self, wish: str) -> None:
        """Free the resources with which a request waited."""
        ...


class SqliteGuards:
    """See :class:`holdfast.core.guard.ports.Guards`."""

    limits = GuardLimits()

    def __init__(self, port: ValuePort) -> None:
        self._port = port
        self._engine = port.engine
        self._call = port.call
        #: Returns the values of up to 1,000 entries; see the contract.
        self.read = port.read
        #: Returns a value without a request to the store, if that is possible; see ``Glancing``.
        self.glance = port.glance

    async def begin(self, wish: Wish, within: float) -> Begun:
        """Take the refresh lease, unless another caller holds it; see the contract."""
        return await self._call(self._engine.begin, wish, within)

    async def finish(self, finish: Finish, within: float) -> bool:
        """Store the value and end the refresh lease; see the contract."""
        return await self._call(self._engine.finish, finish, within)

    async def abandon(self, abandon: Abandon, within: float) -> bool:
        """End the refresh lease without a value; see the contract."""
        return await self._call(self._engine.abandon, abandon, within)

    async def prolong(
        self, prolongs: Sequence[Prolong], within: float
    ) -> list[Held | Gone | Exception]:
        """Renew a batch of refresh leases in one transaction; see the contract."""
        return await self._call(self._engine.prolong, prolongs, within)

    async def invalidate(self, entries: Sequence[Entry], within: float) -> list[bool]:
        """Forget values, failures and refresh leases; see the contract."""
        return await self._call(self._engine.invalidate, entries, within)

    async def wait(self, wish: Wish, seconds: float) -> bool:
        """Sleep until woken or until the time-out has expired; see the contract."""
        return await self._port.sleep(wish.id, seconds)

    def unlisten(self, wish: Wish) -> None:
        """Remove the waiter of this request; see the contract."""
        self._port.unlisten(wish.id)

    async def look(self, entry: Entry, within: float) -> EntryRecord:
        """The state of an entry; see the contract."""
        return await self._call(self._engine.look, entry, within)

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[GuardRecord]:
        """The guards whose name begins with the prefix; see the contract."""
        return await self._call(self._engine.survey, prefix, exact, within)

    async def tally(self, guard: str, tally: GuardCounts, within: float) -> None:
        """Add to the counts of a guard; see the contract."""
        await self._call(self._engine.tally, guard, tally, within)
