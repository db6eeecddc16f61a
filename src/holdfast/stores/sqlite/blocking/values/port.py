"""The engine of values for threads: the work is done on the caller's thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from .....core.guard.model import Entry, Value
from .....url import StoreURL
from ..wake import Boxes
from .engine import ValueEngine

T = TypeVar("T")
#: Seconds after which a waiter that can't be woken asks again.
VALUES_POLL_S = 0.05
CLOSE_S = 2.0


class ThreadValues:
    """See :class:`holdfast.stores.sqlite.guards.ValuePort`."""

    def __init__(self, url: StoreURL) -> None:
        self._boxes = Boxes()
        self.engine = ValueEngine(url, self._boxes)

    async def call(self, work: Callable[..., T], *args: object) -> T:
        """Run ``work`` immediately."""
        return work(*args)

    def glance(self, entry: Entry) -> Value | None:
        """Return the value if nothing has changed since it was read; else None."""
        return self.engine.known(entry)

    async def read(self, entries: Sequence[Entry], within: float) -> list[Value | None]:
        """Return the values."""
        return self.engine.read(entries, within)

    async def sleep(self, wish: str, seconds: float) -> bool:
        """Sleep until woken, until the client that computes the value has died, or until the
        time-out has expired."""
        ear = self.engine.ear(wish)
        if ear is None:
            time.sleep(min(seconds, VALUES_POLL_S))
            return False
        watch = (self.engine.holder(wish),)
        return self._boxes.wait(ear, self.engine.alarm, watch, seconds) is not None

    def unlisten(self, wish: str) -> None:
        """Free the request's socket for another request."""
        self.engine.unlisten(wish)

    def close(self) -> None:
        """Close the engine."""
        self.engine.close(CLOSE_S)

    def forked(self) -> None:
        """Start again in the child of a fork."""
        self.engine.forked()
