"""The record of a hold, and the terms on which it is held.

The renewer knows only leases, so that a hold that nobody refers to any more is collected, warns,
and is no longer renewed. A lease ends once: released, detached or lost. A loss is final as soon
as anybody has seen it: ``loss`` writes down what it saw, so a renewal that is answered late can't
bring a hold back. Only an answered renewal moves the deadline forward, and only a request for a
shorter lease moves it back: the answer to a renewal that was sent before moves it no further.
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
    """How a hold is to be treated while it lasts: the options of a lock that stores don't see."""

    auto_renew: bool = True
    max_hold: float = math.inf
    min_hold: float = 0.0
    on_lost: OnLost | None = None
    cancel_on_lost: bool = False


class Shorter:
    """A request for a shorter lease: sent at ``at`` for ``length`` seconds. A store may handle it
    after any request that is sent before ``until``, and cut the lease to ``length`` then."""

    __slots__ = ("at", "length", "until")

    def __init__(self, at: float, length: float) -> None:
        self.at, self.length, self.until = at, length, at + TOMB_S

    def answered(self, now: float) -> None:
        """No copy of it is under way any more."""
        self.until = now


class Lease:
    """The state of one hold. Written by the renewer and by the caller, without a lock: every write
    is final or monotonic, except the deadline, which moves back when a shorter lease is asked for.
    That is written down first (``shorter``), and bounds what any other answer makes of it."""

    #: What it has as long as nothing happens to it; most leases never have anything else.
    due = min_until = 0.0
    closing = orphan = watched = False
    #: Was it put into the schedule at its own time?
    own = False
    #: The number of its releases under way; and was one not answered?
    leaving = 0
    unheard = False
    #: What the last of them sends.
    sent: Undo
    #: Was less asked for than its ttl, because ``max_hold`` allows no more?
    cut = False
    failures = 0
    end: State | None = None
    reason: Loss | None = None
    #: Why it was lost, if it was, when it began to be released.
    before: Loss | None = None
    hold_ref: Callable[[], HoldBase | None] | None = None
    #: The requests for a shorter lease that bound the deadline; most leases never have any.
    shorter: Sequence[Shorter] = ()
    _renewal: Renewal | None = None
    #: What it is of: each kind has its own verb that renews it.
    kind = "hold"
    #: Is it an error to lose it?
    grave = True
    #: What to do when it could not be kept.
    remedy = "acquire it again"
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
        #: The longest that was asked for so far: the store may keep the claim for so long, unheard.
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
        """What is held."""
        return self.claim.spec.name

    def undo(self, reason: Loss) -> Undo:
        """What releases it when it is lost, for this reason, or when its client is closed."""
        del reason
        return Leave(self.name, self.claim.id, self.fence, 0.0, self.suspect, self.longest_asked)

    def again(self) -> tuple[Undo]:
        """What a close sends while a release is under way, because it ends the connections:
        whichever comes second finds no claim, and that is no loss."""
        self.unheard = True
        return (self.sent,)

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
        return self.prolonged(sent, deadline(sent, lease), now)

    def prolonged(self, sent: float, until: float, now: float) -> bool:
        """The same, where the deadline of such a keep is known."""
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
            if self.shorter:  # also where another thread asked for less just now
                self.deadline = min(self.deadline, self._bounded(sent, until))
        self.failures = 0
        return self.reason is None

    def shorten(self, sent: float, length: float) -> Shorter:
        """From ``sent`` on a shorter lease is asked for, also if that fails: some stores cut the
        lease to what was asked for last, others do if their clock is set back. Called before it is
        sent, because nobody may hear of the answer."""
        one = Shorter(sent, length)
        # An answer is some seconds late at most, so what was over earlier bounds none.
        self.shorter = [old for old in self.shorter if sent < old.until + TOMB_S] + [one]
        self.ttl = length
        self.deadline = min(self.deadline, deadline(sent, length))
        return one

    def _bounded(self, sent: float, until: float) -> float:
        """How long an answer to a request of that time may be believed at most."""
        for one in self.shorter:
            if sent < one.until:
                until = min(until, deadline(max(sent, one.at), one.length))
        return until

    def longest(self, now: float) -> float:
        """The longest lease that may be believed if it is asked for now."""
        return min([self.ttl, *(one.length for one in self.shorter if now < one.until)])

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
