"""The values of refresh guards under asyncio."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.guard.model import Entry, Value
from ....runtime.timers.aio import sleep
from ....url import StoreURL
from ..blocking.session import Alarm
from ..blocking.values.engine import ValueEngine
from .loop import Loop

#: Seconds after which a waiter that can't be woken asks again.
VALUES_POLL_S = 0.05
#: Maximum number of values that one call reads on the loop itself, because to wake the worker
#: thread would take longer.
AT_ONCE = 16


class LoopValues(Loop[ValueEngine]):
    """See :class:`holdfast.stores.sqlite.guards.ValuePort`.

    It has a separate worker, so that no renewal of a lock waits for a large value.
    """

    def __init__(self, url: StoreURL) -> None:
        super().__init__(lambda mail: ValueEngine(url, mail))

    def glance(self, entry: Entry) -> Value | None:
        """Return the value if nothing has changed since it was read; else None."""
        return self.engine.known(entry)

    async def read(self, entries: Sequence[Entry], within: float) -> list[Value | None]:
        """Return the values; read up to `AT_ONCE` on the loop, which waits for no other client."""
        if len(entries) <= AT_ONCE:
            self._here()
            found = self.engine.glance(entries)
            if found is not None:
                return found
        return await self.call(self.engine.read, entries, within)

    async def sleep(self, wish: str, seconds: float) -> bool:
        """Sleep until woken, until the client that computes the value has died, or until the
        time-out has expired."""
        ear = self.engine.ear(wish)
        if ear is None:
            self._here()
            await sleep(min(seconds, VALUES_POLL_S))
            return False
        return await self._sleep(ear, seconds, (self.engine.holder(wish),)) is not None

    def _alarm(self, session: str) -> Alarm:
        return self.engine.alarm(session)

    def unlisten(self, wish: str) -> None:
        """Free the resources with which the request waited."""
        self.engine.unlisten(wish)
