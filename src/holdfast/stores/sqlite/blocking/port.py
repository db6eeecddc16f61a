"""The engine for threads: the work is done where it is asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ....core.model import Claim, Granted, Waiting
from ....url import StoreURL
from .engine import Engine
from .wake import Boxes

T = TypeVar("T")
#: A waiter that nobody can poke looks at its row this often at first, and at last, seconds.
POLL_FIRST_S = 0.001
POLL_LAST_S = 0.050
CLOSE_S = 2.0


class ThreadPort:
    """See :class:`holdfast.stores.sqlite.store.Port`."""

    def __init__(self, url: StoreURL) -> None:
        self.boxes = Boxes()
        self.engine = Engine(url, self.boxes)

    async def call(self, work: Callable[..., T], *args: object) -> T:
        """Do it."""
        return work(*args)

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until poked, until somebody watched has died, or until the time is over."""
        if self.boxes.known(claim.id) is not None:
            alarms = [fd for fd in map(self.engine.alarm, waiting.watch) if fd >= 0]
            return self.boxes.wait(claim.id, alarms, seconds)
        end = time.monotonic() + seconds
        nap = POLL_FIRST_S
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(nap, left))
            nap = min(nap * 1.5, POLL_LAST_S)
            fence = self.engine.peek(claim, waiting, left)
            if fence is not None:
                return Granted(fence) if fence else None
        return None

    def unlisten(self, claim: Claim) -> None:
        """Free the claim's socket for another."""
        self.boxes.release(claim.id)

    async def close(self) -> None:
        """End everything."""
        self.engine.close(CLOSE_S)

    def forked(self) -> None:
        """In the child of a fork."""
        self.engine.forked()
