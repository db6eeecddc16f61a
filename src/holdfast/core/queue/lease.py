"""The data of a delivery for the renewer, which renews a delivery like a hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...errors import LockLost
from ..lease import Lease
from ..model import Loss
from ..policy import renew_every
from ..ports import Store, Undo
from .model import Delivered, Extend, Settle, Take, Verdict
from .ports import queues_of


class DeliveryLease(Lease):
    """The state of one delivery; see ``Lease``."""

    kind = "delivery"
    remedy = "take from it again"
    forgotten = (
        "a delivery of {} was collected unsettled; it is not renewed, and the job is delivered "
        "again when the lease expires. Call ack(), retry() or dead_letter(), or use `with`"
    )

    #: ``asked``: True if a settle was sent and not answered. ``unsure``: True if the lease ended
    #: before the outcome of that settle was known.
    asked = unsure = False
    #: The number of settles of this delivery under way.
    settling = 0

    def __init__(self, take: Take, job: Delivered, until: float, suspect: bool) -> None:
        self.take = take
        self.job = job
        self.fence = job.fence
        self.deadline = until
        self.ttl = take.ttl
        self.every = renew_every(take.ttl)
        self.renewing = True
        self.stop_at = math.inf
        self.suspect = suspect
        self.callbacks = []
        self.latches = []

    @property
    def name(self) -> str:
        """The queue, and the group if the job has one: the name in messages."""
        return f"{self.take.queue}/{self.job.group}" if self.job.group else self.take.queue

    @property
    def last(self) -> bool:
        """True if this is the last attempt."""
        return self.job.attempt >= self.take.patience.attempts

    def settle(self, verdict: Verdict, delay: float = 0.0, reason: str = "") -> Settle:
        """Return the request that settles the delivery with this verdict."""
        take, job = self.take, self.job
        what = (take.queue, job.group, job.seq, take.id, verdict, delay, reason)
        return Settle(*what, self.ttl, self.suspect)

    def undo(self, reason: Loss) -> Undo:
        """Return the request that ends the delivery after a loss. If the client was closed, it
        releases the delivery. Otherwise the attempt counts as failed, as if the lease had expired;
        after the last attempt the job is a dead letter."""
        if reason is Loss.CLOSED:
            return self.settle(Verdict.RETURN)
        return self.settle(Verdict.DEAD if self.last else Verdict.RETRY, reason=str(reason))

    def extension(self) -> Extend:
        """Return the request that renews the lease."""
        take, job = self.take, self.job
        return Extend(take.queue, job.group, job.seq, take.id, job.fence, self.ttl)


async def prolong(store: Store, leases: Sequence[Lease], within: float) -> Sequence[object]:
    """Renew deliveries; return one reply for each."""
    extends = [one.extension() for one in leases if isinstance(one, DeliveryLease)]
    return await queues_of(store).extend(extends, within)


async def withdraw(store: Store, undo: Undo, within: float) -> None:
    """Send the request that releases a take or settles a delivery."""
    if isinstance(undo, Take):
        await queues_of(store).give_back(undo, within)
    elif isinstance(undo, Settle):
        (answer,) = await queues_of(store).settle([undo], within)
        if isinstance(answer, Exception) and not isinstance(answer, LockLost):
            raise answer
