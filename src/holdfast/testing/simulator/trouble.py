"""Events that excuse a loss: faults that were active, and a server clock that was set."""

from __future__ import annotations

import math

from ...core.lease import Lease
from ...core.policy import PATIENCE_S
from ..promise import PromiseBroken
from .fates import CUT_S, DOWN_S, Fate
from .world import Process, World

#: Seconds after a fate in which the renewals of its process may fail.
FATE_S = 4.0
#: Maximum seconds from a renewal of an expired lease until the holder notices, without faults.
TOLD_S = 1.5
#: Part of a lease. An outage that is shorter must not lose the lease, because the first renewal
#: comes after half of the lease at the latest. The first renewal is that late if
#: a wake-up granted the hold.
OUTAGE_PART = 0.45


def longest(lease: Lease) -> float:
    """Return the longest lease, in seconds, that one request can have granted.

    A hold that was extended to a shorter lease had a longer one before. A granted waiter has a
    lease of the waiter TTL."""
    claim = getattr(lease, "claim", None)  # the lease of a delivery has no claim
    return lease.ttl if claim is None else max(lease.ttl, claim.spec.ttl, PATIENCE_S)


class Violation(PromiseBroken):
    """An invariant does not hold; ``invariant`` is its name."""

    def __init__(self, invariant: str, story: str) -> None:
        super().__init__(f"{invariant}: {story}")
        self.invariant = invariant


class Trouble:
    """Records the faults of a simulation, and the times at which its server's clock was set."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.over = False
        #: A violation that was found in a callback, which can't raise it.
        self.found: Violation | None = None
        #: Start, end and process (None: all) of the faults that may excuse a lost lease.
        self.trouble: list[tuple[float, float, int | None]] = []
        #: The faults of joins: they excuse a claim that is left behind, but no late renewal.
        self.joins: set[tuple[float, float, int | None]] = set()
        self.data_lost = -1.0
        #: The time at which the clock of the server was last set forward.
        self.forward = -math.inf
        #: The time at which the clock of the server was last set back. After this time, expired
        #: claims can be valid again for the length of one lease.
        self.back = -math.inf

    def at_the_end(self) -> None:
        """Check what is left after all tasks and faults have ended."""

    def troubled(self, span: float) -> bool:
        """Return True if a fault was active in the last ``span`` seconds."""
        return any(end > self.world.time - span for _, end, _ in self.trouble)

    def troubled_by_fate(self, process: Process, fate: Fate, verb: str) -> None:
        """Record the fate of a request as a fault; ``DOWN`` affects all processes."""
        now = self.world.time
        pid = None if fate is Fate.DOWN else process.pid
        length = max(DOWN_S) if fate is Fate.DOWN else max(CUT_S) if fate is Fate.CUT else 0.0
        self.trouble.append((now, now + length + FATE_S, pid))
        if not length and verb in ("join", "join_free"):
            self.joins.add(self.trouble[-1])

    def lost_data(self) -> None:
        """Record that the server restarted without its data."""
        self.data_lost = self.world.time

    def clock_was_set(self, delta: float) -> None:
        """Record that the clock was set. If it goes forward, leases end earlier than expected."""
        if delta > 0:
            self.forward = self.world.time
        else:
            self.back = self.world.time

    @property
    def rewound(self) -> bool:
        """True if the clock of the server was ever set back."""
        return self.back >= 0

    def outdated(self, process: Process, lease: Lease) -> bool:
        """Return True if the lease began before the clock of the server was set forward."""
        sent = (lease.deadline - longest(lease) - process.offset) / process.rate
        return sent <= self.forward

    def told_late(self, process: Process, lease: Lease) -> bool:
        """Return True if the holder had enough time to notice that the clock was set."""
        since = self.world.time - self.forward
        late = since > lease.ttl / 3 + TOLD_S and lease.renewing
        return late and not process.paused and not self.troubled(lease.ttl + TOLD_S)

    def unexplained(self, process: Process, lease: Lease, ttl: float) -> float | None:
        """Return the seconds of faults before the end of a lease of ``ttl`` seconds.

        Return None if these faults explain the loss of the lease.
        """
        # the end of the lease, which can be long before the loss is noticed
        when = min(self.world.time, (lease.deadline - process.offset) / process.rate)
        since = when - ttl * 1.5 - 6.0
        total = sum(
            min(end, when) - max(start, since)
            for start, end, pid in self.trouble
            if end > since and start < when and pid in (None, process.pid)
            if (start, end, pid) not in self.joins
        )
        return total if total < ttl * OUTAGE_PART else None
