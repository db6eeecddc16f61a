"""The data of a refresh lease for the renewer, which renews such a lease like a hold."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from ..lease import Lease
from ..model import Loss
from ..policy import renew_every
from ..ports import Store, Undo
from .model import Abandon, Entry, Prolong, Wish
from .ports import guards_of


class DutyLease(Lease):
    """The state of one refresh lease; see ``Lease``.

    A loss isn't a failure: the caller that computed the value can still use it. But the store
    refuses the value.
    """

    kind = "duty"
    remedy = "ask for it again"
    grave = False
    #: The thread or task that computes the value.
    flow: Hashable = None

    def __init__(self, wish: Wish, fence: int, until: float, suspect: bool) -> None:
        self.wish = wish
        self.fence = fence
        self.deadline = until
        self.ttl = wish.lease
        self.every = renew_every(wish.lease)
        self.renewing = True
        self.stop_at = math.inf
        self.suspect = suspect
        self.callbacks = []
        self.latches = []

    @property
    def name(self) -> str:
        """The entry, as text for messages."""
        return str(self.entry)

    @property
    def entry(self) -> Entry:
        """The entry of the value."""
        return self.wish.entry

    def abandon(self, pause: float = 0.0, memory: float = 0.0, reason: str = "") -> Abandon:
        """Return the request that ends the refresh lease without a value."""
        wish = self.wish
        return Abandon(wish.entry, wish.id, wish.lease, pause, memory, reason, self.suspect)

    def undo(self, reason: Loss) -> Undo:
        """Return the request that lets another caller acquire the refresh lease."""
        return self.abandon()

    def prolonging(self) -> Prolong:
        """Return the request that renews the refresh lease."""
        return Prolong(self.wish.entry, self.wish.id, self.fence, self.ttl)


async def prolong(store: Store, leases: Sequence[Lease], within: float) -> Sequence[object]:
    """Renew refresh leases; return one answer for each."""
    asked = [one.prolonging() for one in leases if isinstance(one, DutyLease)]
    return await guards_of(store).prolong(asked, within)


async def withdraw(store: Store, undo: Abandon, within: float) -> None:
    """Release a refresh lease."""
    await guards_of(store).abandon(undo, within)
