"""The lease of a hold, and the terms of the hold.

The renewer refers to leases only, not to holds. So a hold without any other reference is collected:
a warning is given, and its lease is no longer renewed. A lease ends once: released, detached or
lost. ``loss`` records a loss when it is first seen. After that it is final: a late reply to a
renewal can't bring the hold back.

Only an answered renewal moves the deadline forward. Only a request for a shorter lease moves it
back. After such a request, the reply to an earlier renewal can't move the deadline beyond the end
of the shorter lease.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from .model import Claim, Leave, Loss, Renewal, State
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
    """A request for a shorter lease, sent at ``at`` for ``length`` seconds. Until the time
    ``until``, a late copy of the request can reach the store, and cut the lease again, even after a
    renewal."""

    __slots__ = ("at", "length", "until")

    def __init__(self, at: float, length: float) -> None:
        self.at, self.length, self.until = at, length, at + TOMB_S

    def answered(self, now: float) -> None:
        """Note that the request was answered at ``now``: no copy of the request is under way."""
        self.until = now


class Lease:
    """The state of one hold. The renewer and the caller write to this object without a lock: each
    write is final or monotonic, with one exception. A request for a shorter lease moves the
    deadline back. So such a request is recorded first (``shorter``), and limits the deadline that
    other replies give."""

    #: Class defaults of fields that most leases never change, to keep the instances small.
    due = min_until = 0.0
    closing = orphan = watched = False
    #: True if the heap of the schedule has an entry for this lease.
    own = False
    #: The number of releases of this lease that are under way.
    leaving = 0
    #: True if a release of this lease got no answer.
    unheard = False
    #: The request of the latest release of this lease.
    sent: Undo
    #: True if a renewal was shorter than the ttl, because of ``max_hold``.
    cut = False
    failures = 0
    end: State | None = None
    reason: Loss | None = None
    #: The loss that was already known when the release began.
    before: Loss | None = None
    hold_ref: Callable[[], HoldBase | None] | None = None
    #: The requests for a shorter lease that limit the deadline; most leases have none.
    shorter: Sequence[Shorter] = ()
    _renewal: Renewal | None = None
    #: The kind of lease; each kind has its own verb to renew leases.
    kind = "hold"
    #: True if a loss is logged as an error.
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
        """Return the request that releases the claim after a loss, or when its client is closed."""
        return Leave(self.name, self.claim.id, self.fence, 0.0, self.suspect, self.longest_asked)

    def again(self) -> tuple[Undo]:
        """Return the release, to be sent once more by a close of the client: the close ends the
        connection of the first one. One of the two requests finds no claim, which is no loss."""
        self.unheard = True
        return (self.sent,)

    def loss(self, now: float) -> Loss | None:
        """Return the reason of the loss, or None. A reason that was returned never changes."""
        if self.reason is None and self.end is None and now >= self.deadline:
            # A store may grant slightly less than requested, so `capped` alone is not enough.
            if self.capped() or (self.cut and not self.failures):
                self.reason = Loss.MAX_HOLD
            else:
                self.reason = Loss.UNREACHABLE if self.failures else Loss.EXPIRED
        return self.reason

    def renewed(self, sent: float, lease: float, now: float) -> bool:
        """Move the deadline after an answered keep; return False if the reply came too late."""
        return self.prolonged(sent, deadline(sent, lease), now)

    def prolonged(self, sent: float, until: float, now: float) -> bool:
        """Like `renewed`; ``until``: the new deadline, computed from the keep and its reply."""
        if now >= self.deadline:
            self.loss(now)
        if self.reason is not None:
            return False
        until = min(until, self.stop_at)
        if self.shorter:
            until = self._bounded(sent, until)
        if until > self.deadline:
            self.deadline = until
            if self.shorter:  # another thread may have requested a shorter lease just now
                self.deadline = min(self.deadline, self._bounded(sent, until))
        self.failures = 0
        return self.reason is None

    def shorten(self, sent: float, length: float) -> Shorter:
        """Record a request for a shorter lease, sent at ``sent``. The request limits the deadline
        even if it fails: the store may have carried it out. Some stores then cut the lease to the
        requested length, others only if their clock was set back. Call this before the request is
        sent, because its reply can be lost."""
        one = Shorter(sent, length)
        # A reply is late by a few seconds at most. So an older request no longer limits any reply.
        self.shorter = [old for old in self.shorter if sent < old.until + TOMB_S] + [one]
        self.ttl = length
        self.deadline = min(self.deadline, deadline(sent, length))
        return one

    def _bounded(self, sent: float, until: float) -> float:
        """Return the latest deadline that the reply to a request sent at ``sent`` can give."""
        for one in self.shorter:
            if sent < one.until:
                until = min(until, deadline(max(sent, one.at), one.length))
        return until

    def longest(self, now: float) -> float:
        """Return the longest lease that is safe to rely on, if the lease is requested now."""
        return min([self.ttl, *(one.length for one in self.shorter if now < one.until)])

    def capped(self) -> bool:
        """Return True if the deadline is as late as ``max_hold`` allows."""
        return self.deadline + margin(self.ttl) >= self.stop_at

    def length(self, wanted: float, now: float) -> float:
        """Return the length of lease to request, in seconds: never beyond ``max_hold``."""
        left = self.stop_at - now
        if wanted <= left:
            return wanted
        self.cut = True
        return max(left, 0.001)

    def renewal(self, now: float, length: float = 0.0) -> Renewal:
        """Return the request that renews the lease for its ttl or for ``length``, never beyond
        ``max_hold``. After a downgrade, each request contains the smaller weight, because the reply
        to the downgrade can be lost. Without a downgrade, equal requests are the same object."""
        ttl = self.length(length or self.ttl, now)
        if self.weight < self._entered_with:
            return Renewal(self.claim, self.fence, ttl, self.weight)
        renewal = self._renewal
        if renewal is None or renewal.ttl != ttl:
            renewal = self._renewal = Renewal(self.claim, self.fence, ttl)
        return renewal
