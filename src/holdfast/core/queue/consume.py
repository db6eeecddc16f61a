"""One delivery after the other, for a ``for`` loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .delivery import DeliveryBase
from .ports import onward_of, queues_of
from .taking import never

if TYPE_CHECKING:
    from .queue import QueueBase


class Consumption:
    """A loop over a queue: to ask for the next job says that the last one is done. Where the store
    can, both are one request."""

    def __init__(self, queue: QueueBase, timeout: float | None) -> None:
        self._queue = queue
        self._timeout = timeout
        self._last: DeliveryBase | None = None

    async def next(self) -> DeliveryBase | None:
        """The next delivery; None when none came in the time."""
        last, self._last = self._last, None
        found = None
        if last is not None and last._lease.end is None:
            found = await self._onward(last)
        if found is None or not (found or self._timeout == 0):
            found = await self._queue._take(1, self._timeout)
        self._last = found[0] if found else None
        return self._last

    async def _onward(self, last: DeliveryBase) -> list[DeliveryBase] | None:
        """Ack the last one; and take what is due, if the store can do both at once, else None."""
        if not last._still_open() or onward_of(queues_of(last._ctx.store)) is None:
            await last._leave(None)
            return None
        found = await self._queue._take(1, 0.0, never, (last, last._ack_request()))
        if not last._kept:
            for one in found:
                await one._settle(one._return_request())
            last._require_kept()
        return found

    async def left(self) -> None:
        """The loop was left: what it had and did not settle comes again, after a pause."""
        last, self._last = self._last, None
        if last is not None and not last.settled and last.lost is None:
            await last._settle(last._retry_request(None, "its loop was left before it was settled"))
