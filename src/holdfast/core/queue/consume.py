"""Deliveries one after the other, for a ``for`` loop over a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import LockLost, StoreUnavailable
from .delivery import DeliveryBase
from .ports import onward_of, queues_of
from .taking import never

if TYPE_CHECKING:
    from .queue import QueueBase

#: The reason recorded for the retry of a job whose loop ended before the job was settled.
LEFT = "its loop was left before it was settled"


class Consumption:
    """A loop over a queue. Each step acks the last job and takes the next one; if the store can do
    both steps at once, they take one request."""

    def __init__(self, queue: QueueBase, timeout: float | None) -> None:
        self._queue = queue
        self._timeout = timeout
        self._last: DeliveryBase | None = None

    async def next(self) -> DeliveryBase | None:
        """Return the next delivery; None after the time-out."""
        last, self._last = self._last, None
        found = None
        if last is not None and not last.settled:
            found = await self._onward(last)
        if found is None or not (found or self._timeout == 0):
            found = await self._queue._take(1, self._timeout)
        self._last = found[0] if found else None
        return self._last

    async def _onward(self, last: DeliveryBase) -> list[DeliveryBase] | None:
        """Ack the last delivery and take a due job, in one request. None: the store has no such
        request, or did not answer; nothing was taken. ``LockLost`` if the delivery was lost."""
        if not last._still_open() or onward_of(queues_of(last._ctx.store)) is None:
            await last._finish()
            return None
        ack = last._ack_request()
        try:
            found = await self._queue._take(1, 0.0, never, (last, ack))
        except StoreUnavailable as failure:
            if not last._lease.asked or not last._still_open():
                last._require_kept(protected=True)
            else:
                last._go_on(ack, failure)
            return None
        except Exception:
            last._give_up(ack)
            raise
        try:
            last._require_kept(protected=True)
        except LockLost:
            for one in found:
                await one._settle(one._return_request())
            raise
        return found

    async def left(self) -> None:
        """Retry the job of an unsettled delivery, after a pause, because the loop has ended."""
        last, self._last = self._last, None
        if last is not None and not last.settled and last.lost is None:
            await last._settle_last(last._retry_request(None, LEFT))

    def abandoned(self) -> None:
        """Like `left`, for a moment at which nothing may be awaited: the renewer settles the
        delivery."""
        last, self._last = self._last, None
        if last is not None:
            last._hand_over(last._retry_request(None, LEFT))
