"""The lease of a hold, and the terms of the hold.

The renewer refers to leases only, not to holds: a hold that has no other reference is collected,
warns, and is no longer renewed. A lease ends once: released, detached or lost. A loss is final once
it was seen: ``loss`` records it, so a late reply to a renewal can't bring the hold back. Only an
answered renewal moves the deadline forward. Only a request for a shorter lease moves it back; the
reply to a renewal that was sent before such a request can't move it beyond the shorter lease.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from .model import Claim, Keep, Leave, Loss, Renewal, State
from .policy import RENEWALS, TOMB_S, deadline, margin

if TYPE_CHECKING:
    from .hold import HoldBase
    from .ports import Latch, Undo

#: Called once, with the reason, when a hold is lost; on the renewer's thread or task.
OnLost: TypeAlias = "Callable[[HoldBase, Loss], object]"


class Terms(NamedTuple):
    """The terms of a hold: the options of a lock that stores don't see."""

    auto_renew: bool = True
    max_hold: float = math.inf
    min_hold: float = 0.0
    on_lost: OnLost | None = None
    cancel_on_lost: bool = False


class Shorter:
    """A request for a shorter lease, sent at ``at`` for ``length`` seconds. A store can handle it
    after any request that is sent before ``until``, and cut the lease to ``length`` then."""

    __slots__ = ("at", "length", "until")

    def __init__(self, at: float, length: float) -> None:
        self.at, self.length, self.until = at, length, at + TOMB_S

    def answered(self, now: float) -> None:
        """No copy of the request is under way."""
        self.until = now


class Lease:
    """The state of one hold. The renewer and the caller write it without a lock: each write is
    final or monotonic, except the deadline, which moves back when a shorter lease is requested.
    Such a request is recorded first (``shorter``), and bounds the deadline that other replies
    give."""

    #: The usual values; most leases never get others.
    due = min_until = 0.0
    closing = orphan = watched = False
    #: Does the schedule have a separate entry for it?
    own = False
    #: The number of its releases under way; and was one of them not answered?
    leaving = 0
    unheard = False
    #: The request of the last of them.
    sent: Undo
    #: Was a renewal shorter than the ttl, because of ``max_hold``?
    cut = False
    failures = 0
    end: State | None = None
    reason: Loss | None = None
    #: The loss that was known when its release began.
    before: Loss | None = None
    hold_ref: Callable[[], HoldBase | None] | None = None
    #: The requests for a shorter lease that bound the deadline; most leases have none.
    shorter: Sequence[Shorter] = ()
    _renewal: Renewal | None = None
    #: The kind of lease; each kind has its own verb to renew it.
    kind = "hold"
    #: Is it an error to lose it?
    grave = True
    #: What a caller can do after a loss, for messages.
    remedy = "acquire it again"
    #: The warning for a hold that was collected without a release.
    forgotten = (
        "a hold on {} was collected without release(); "
        "it is no longer renewed. Use `with`, or keep the hold and release it"
    )

    def __init__(
        self, claim: Claim, fence: int, until: float, begun: float, terms: Terms, suspect: bool
    ) -> None:
        self.claim = claim
        self.fence = fence
        self.deadline = until
        self.ttl = claim.spec.ttl
        #: The longest ttl requested so far: the store can keep the claim this long without renewal.
        self.longest_asked = self.ttl
        self.weight = self._entered_with = claim.spec.weight
        self.every = self.ttl / RENEWALS
        self.renewing = terms.auto_renew
        self.stop_at = begun + terms.max_hold
        self.suspect = suspect
        self.callbacks: list[OnLost] = []
        self.latches: list[Latch] = []

    @property
    def name(self) -> str:
        """The name that is held."""
        return self.claim.spec.name

    def undo(self, reason: Loss) -> Undo:
        """The request that releases it: after a loss, or when its client is closed."""
        del reason
        return Leave(self.name, self.claim.id, self.fence, 0.0, self.suspect, self.longest_asked)

    def again(self) -> tuple[Undo]:
        """The request that a close sends while a release is under way, because it ends the
        connections. The second of both finds no claim; that is no loss."""
        self.unheard = True
        return (self.sent,)

    def loss(self, now: float) -> Loss | None:
        """The reason of the loss, or None. A loss that this has returned is final."""
        if self.reason is None and self.end is None and now >= self.deadline:
            if self.capped() or (self.cut and not self.failures):  # a store may grant a bit less
                self.reason = Loss.MAX_HOLD
            else:
                self.reason = Loss.UNREACHABLE if self.failures else Loss.EXPIRED
        return self.reason

    def renewed(self, sent: float, lease: float, now: float) -> bool:
        """Move the deadline after an answered keep; False if the reply came too late."""
        return self.prolonged(sent, deadline(sent, lease), now)

    def prolonged(self, sent: float, until: float, now: float) -> bool:
        """Like `renewed`, with the deadline that the keep gives."""
        if now >= self.deadline:
            self.loss(now)
        if self.reason is not None:
            return False
        if until > self.stop_at:
            until = self.stop_at
        if self.shorter:
            until = self._bounded(sent, until)
        if until > self.deadline:
            self.deadline = until
            if self.shorter:  # another thread can have requested less just now
                self.deadline = min(self.deadline, self._bounded(sent, until))
        self.failures = 0
        return self.reason is None

    def shorten(self, sent: float, length: float) -> Shorter:
        """Record that a shorter lease is requested from ``sent`` on. It counts even if the request
        fails: some stores cut the lease to the last requested length, others do so after their
        clock is set back. Called before the request is sent, because its reply can be lost."""
        one = Shorter(sent, length)
        # A reply is late by some seconds at most, so a request that ended before bounds none.
        self.shorter = [old for old in self.shorter if sent < old.until + TOMB_S] + [one]
        self.ttl = length
        self.deadline = min(self.deadline, deadline(sent, length))
        return one

    def _bounded(self, sent: float, until: float) -> float:
        """The latest deadline that a reply to a request sent at ``sent`` can give."""
        for one in self.shorter:
            if sent < one.until:
                until = min(until, deadline(max(sent, one.at), one.length))
        return until

    def longest(self, now: float) -> float:
        """The longest lease that is valid if it is requested now."""
        return min([self.ttl, *(one.length for one in self.shorter if now < one.until)])

    def capped(self) -> bool:
        """Is the deadline as late as ``max_hold`` allows?"""
        return self.deadline + margin(self.ttl) >= self.stop_at

    def length(self, wanted: float, now: float) -> float:
        """The seconds to renew it for: never beyond ``max_hold``."""
        left = self.stop_at - now
        if wanted <= left:
            return wanted
        self.cut = True
        return max(left, 0.001)

    def keep(self, now: float, length: float = 0.0) -> Keep:
        """The request that renews it, for its ttl or another length: never beyond ``max_hold``.
        After a downgrade each request contains the smaller weight, because the reply to the
        downgrade can be lost. Otherwise the same object is used for equal requests."""
        ttl = self.length(length or self.ttl, now)
        if self.weight < self._entered_with:
            return Keep(self.claim, self.fence, ttl, self.weight)
        renewal = self._renewal
        if renewal is None or renewal.ttl != ttl:
            renewal = self._renewal = Renewal(self.claim, self.fence, ttl)
        return renewal
