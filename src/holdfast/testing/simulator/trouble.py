"""Excuses for a violation: faults that were active, and a server clock that was set."""

from __future__ import annotations

import math

from ...core.lease import Lease
from ...core.policy import PATIENCE_S
from ..promise import PromiseBroken
from .fates import CUT_S, DOWN_S, Fate
from .world import Process, World

#: Seconds after a fate in which the renewals of its process may fail.
FATE_S = 4.0
#: Seconds after its next renewal in which a holder notices that its lease has expired, with the
#: store in reach.
TOLD_S = 1.5
#: No outage shorter than this part of a lease may lose it: a grant by push is renewed at its half.
OUTAGE_PART = 0.45


def longest(lease: Lease) -> float:
    """The longest lease that one request may have granted: a hold that was extended to a shorter
    lease had a longer one before, and a granted waiter has a lease of the waiter TTL."""
    claim = getattr(lease, "claim", None)  # a delivery has none
    return lease.ttl if claim is None else max(lease.ttl, claim.spec.ttl, PATIENCE_S)


class Violation(PromiseBroken):
    """An invariant does not hold; ``invariant`` is its name."""

    def __init__(self, invariant: str, story: str) -> None:
        super().__init__(f"{invariant}: {story}")
        self.invariant = invariant


class Trouble:
    """Records what happens in a simulation, except the actions of its actors."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.over = False
        #: A violation that a callback has seen, where it can't be raised.
        self.found: Violation | None = None
        #: Start, end and process (None: all) of the faults that may excuse a lost lease.
        self.trouble: list[tuple[float, float, int | None]] = []
        #: The faults of joins: they excuse a claim that is left behind, but no late renewal.
        self.joins: set[tuple[float, float, int | None]] = set()
        self.data_lost = -1.0
        #: When the clock of the server was last set forward.
        self.forward = -math.inf
        #: When it was last set back; expired claims are then valid again for one lease.
        self.back = -math.inf

    def at_the_end(self) -> None:
        """Judge the end: all flows have ended, and all faults are healed."""

    def troubled(self, span: float) -> bool:
        """Was there a fault within the last ``span`` seconds?"""
        return any(end > self.world.time - span for _, end, _ in self.trouble)

    def troubled_by_fate(self, process: Process, fate: Fate, verb: str) -> None:
        """Record the fate of a request; its server may be down for all processes."""
        now = self.world.time
        pid = None if fate is Fate.DOWN else process.pid
        length = max(DOWN_S) if fate is Fate.DOWN else max(CUT_S) if fate is Fate.CUT else 0.0
        self.trouble.append((now, now + length + FATE_S, pid))
        if not length and verb in ("join", "join_free"):
            self.joins.add(self.trouble[-1])

    def lost_data(self) -> None:
        """The server restarted without its data."""
        self.data_lost = self.world.time

    def clock_was_set(self, delta: float) -> None:
        """The clock of the server was set. Forward: leases end before their holders expect it."""
        if delta > 0:
            self.forward = self.world.time
        else:
            self.back = self.world.time

    @property
    def rewound(self) -> bool:
        """Was the clock of the server ever set back?"""
        return self.back >= 0

    def outdated(self, process: Process, lease: Lease) -> bool:
        """Did the lease begin before the clock of the server was set forward?"""
        sent = (lease.deadline - longest(lease) - process.offset) / process.rate
        return sent <= self.forward

    def told_late(self, process: Process, lease: Lease) -> bool:
        """Has the holder had enough time to notice that the clock was set?"""
        since = self.world.time - self.forward
        late = since > lease.ttl / 3 + TOLD_S and lease.renewing
        return late and not process.paused and not self.troubled(lease.ttl + TOLD_S)

    def unexplained(self, process: Process, lease: Lease, ttl: float) -> float | None:
        """The seconds of trouble, if they don't explain the loss of a lease of length ``ttl``."""
        # when it ended, which may be long before any check
        when = min(self.world.time, (lease.deadline - process.offset) / process.rate)
        since = when - ttl * 1.5 - 6.0
        total = sum(
            min(end, when) - max(start, since)
            for start, end, pid in self.trouble
            if end > since and start < when and pid in (None, process.pid)
            if (start, end, pid) not in self.joins
        )
        return total if total < ttl * OUTAGE_PART else None
