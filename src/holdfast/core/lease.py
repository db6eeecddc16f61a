"""The record of a hold, and the terms on which it is held.

The keeper knows only leases, so that a hold that nobody refers to any more is collected, warns,
and is no longer renewed. A lease ends once: released, detached or lost. A loss is final as soon
as anybody has seen it: ``loss`` writes down what it saw, so a renewal that is answered late can't
bring a hold back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from .model import Claim, Keep, Leave, Loss, Renewal, State
from .policy import deadline, margin, renew_every

if TYPE_CHECKING:
    from .hold import HoldBase
    from .ports import Latch, Undo

#: Called once, with the reason, when a hold is lost; on the keeper's thread or task.
OnLost: TypeAlias = "Callable[[HoldBase, Loss], object]"


class Terms(NamedTuple):
    """How a hold is to be treated while it lasts: the options of a lock that stores don't see."""

    auto_renew: bool = True
    max_hold: float = math.inf
    min_hold: float = 0.0
    on_lost: OnLost | None = None
    cancel_on_lost: bool = False


class Lease:
    """The state of one hold. Written by the keeper and by the caller; every write is final or
    monotonic, so no lock is needed between them."""

    #: What it has as long as nothing happens to it; most leases never have anything else.
    due = min_until = 0.0
    closing = orphan = watched = False
    #: Was less asked for than its ttl, because ``max_hold`` allows no more?
    cut = False
    failures = 0
    end: State | None = None
    reason: Loss | None = None
    hold_ref: Callable[[], HoldBase | None] | None = None
    _renewal: Renewal | None = None
    #: What it is of: each kind has a verb of its own that renews it.
    kind = "hold"
    #: Is it an error to lose it?
    grave = True
    #: What is said of one whose hold was forgotten.
    forgotten = (
        "a hold on {} was collected without release(); "
        "it is renewed no more. Use `with`, or keep the hold and release it"
    )

    def __init__(
        self, claim: Claim, fence: int, until: float, begun: float, terms: Terms, suspect: bool
    ) -> None:
        self.claim = claim
        self.fence = fence
        self.deadline = until
        self.ttl = claim.spec.ttl
        self.weight = self._entered_with = claim.spec.weight
        self.every = renew_every(self.ttl)
        self.renewing = terms.auto_renew
        self.stop_at = begun + terms.max_hold
        self.suspect = suspect
        self.callbacks: list[OnLost] = []
        self.latches: list[Latch] = []

    @property
    def name(self) -> str:
        """What is held."""
        return self.claim.spec.name

    def undo(self, reason: Loss) -> Undo:
        """What gives it back when it is lost, for this reason, or when its client is closed."""
        del reason
        return Leave(self.name, self.claim.id, self.fence, 0.0, self.suspect, self.ttl)

    def loss(self, now: float) -> Loss | None:
        """Why it is lost, or None; what is seen here stays true."""
        if self.reason is None and self.end is None and now >= self.deadline:
            if self.capped() or (self.cut and not self.failures):  # a store may grant a bit less
                self.reason = Loss.MAX_HOLD
            else:
                self.reason = Loss.UNREACHABLE if self.failures else Loss.EXPIRED
        return self.reason

    def renewed(self, sent: float, lease: float, now: float) -> bool:
        """Move the deadline after an answered keep; False if it came too late to count."""
        return self.prolonged(deadline(sent, lease), now)

    def prolonged(self, until: float, now: float) -> bool:
        """The same, where the deadline of such a keep is known."""
        if now >= self.deadline:
            self.loss(now)
        if self.reason is not None:
            return False
        if until > self.stop_at:
            until = self.stop_at
        if until > self.deadline:
            self.deadline = until
        self.failures = 0
        return self.reason is None

    def capped(self) -> bool:
        """Is the deadline as late as ``max_hold`` allows?"""
        return self.deadline + margin(self.ttl) >= self.stop_at

    def length(self, wanted: float, now: float) -> float:
        """For how many seconds it is renewed: never beyond ``max_hold``."""
        left = self.stop_at - now
        if wanted <= left:
            return wanted
        self.cut = True
        return max(left, 0.001)

    def keep(self, now: float, length: float = 0.0) -> Keep:
        """The request that renews it, for its ttl or another length: never beyond ``max_hold``. A
        smaller weight than that of the claim goes with it each time, so that a downgrade whose
        reply was lost is caught up. Where that isn't so, it is the same object as long as it asks
        for the same."""
        ttl = self.length(length or self.ttl, now)
        if self.weight < self._entered_with:
            return Keep(self.claim, self.fence, ttl, self.weight)
        renewal = self._renewal
        if renewal is None or renewal.ttl != ttl:
            renewal = self._renewal = Renewal(self.claim, self.fence, ttl)
        return renewal
