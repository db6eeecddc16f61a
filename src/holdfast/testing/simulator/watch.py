"""The invariants, by name, judged while a history runs. A violation ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.hold import HoldBase
from ...core.lease import Lease
from ...core.model import Loss, State
from ..promise import PromiseBroken

if TYPE_CHECKING:
    from ...stores.memory.line import Line
    from .server import Server
    from .world import Process, World

#: `acquire(timeout=T)` must be back within T and this much.
GRACE_S = 0.25
#: With the store in reach, an abandoned claim is withdrawn within so many seconds.
UNDONE_S = 3.0
#: No outage shorter than this part of a lease may lose it: a pushed one is renewed at its half.
OUTAGE_PART = 0.45


class Violation(PromiseBroken):
    """An invariant does not hold; ``invariant`` is its name."""

    def __init__(self, invariant: str, story: str) -> None:
        super().__init__(f"{invariant}: {story}")
        self.invariant = invariant


class Grant:
    """A hold as the workload got it, and what has become of it."""

    __slots__ = (
        "begun",
        "broken",
        "first_deadline",
        "first_lease",
        "generation",
        "good_at_release",
        "hold",
        "lost_seen",
        "name",
        "process",
        "released",
    )

    def __init__(self, process: Process, hold: HoldBase, begun: float, generation: int) -> None:
        self.process = process
        self.hold = hold
        self.name = hold.name
        self.begun = begun
        self.generation = generation
        self.released = False
        self.good_at_release = False
        self.broken = False
        #: A grant by push has but the waiter's patience, until its first renewal.
        self.first_deadline = hold._lease.deadline
        self.first_lease = self.first_deadline - process.now()
        self.lost_seen = False

    @property
    def lease(self) -> Lease:
        """The record behind the hold."""
        return self.hold._lease

    def believed(self) -> bool:
        """Does its owner, looking at its own clock, believe now that it holds?"""
        lease = self.lease
        return (
            not self.released
            and lease.end is None
            and lease.reason is None
            and self.hold._epoch == self.process.epoch
            and self.process.now() < lease.deadline
        )

    def __repr__(self) -> str:
        return f"{self.name!r} fence {self.lease.fence % 10**9} of {self.process!r}"


class Watch:
    """Sees every grant, release and look of a history."""

    def __init__(self, world: World, server: Server, capacity: dict[str, int]) -> None:
        self.world = world
        self.server = server
        #: The greatest capacity that a name ever had.
        self.capacity = capacity
        self.grants: dict[str, list[Grant]] = {name: [] for name in capacity}
        #: name -> (when returned, fence) of the greatest fence returned so far.
        self.fences: dict[str, list[tuple[float, int]]] = {name: [] for name in capacity}
        self.seen_fences: dict[str, set[int]] = {name: set() for name in capacity}
        self.data_lost = -1.0
        self.over = False
        #: A violation seen where none can be raised, in a callback.
        self.found: Violation | None = None
        #: Tickets that an operator has broken, or is about to.
        self.broken: set[int] = set()
        #: Virtual times until which faults may excuse a lost lease.
        self.trouble: list[tuple[float, float, int | None]] = []
        #: Acquires that ended with an exception: when; nothing of them may be left for long.
        self.abandoned: dict[str, float] = {}
        self._held_before: dict[str, tuple[frozenset[int], int]] = {}
        server.after_verb = self.server_line

    # -- the server's side -------------------------------------------------------------------

    def server_line(self) -> None:
        """After each verb: served in order, within the capacity, and counted right."""
        now = self.server.now()
        for name, line in self.server.lines.lines.items():
            used = sum(r.weight for r in line.held.values())
            if used != line.used:
                raise Violation("exclusion", f"{name!r}: used {line.used}, but {used} are held")
            held = frozenset(r.ticket for r in line.held.values())
            before, capacity = self._held_before.get(name, (frozenset(), line.capacity))
            if held - before and used > max(line.capacity, 0) and capacity == line.capacity:
                raise Violation("exclusion", f"{name!r}: {used} of {line.capacity} granted")
            newest = max(held - before, default=0)
            for row in line.waiting.values():
                if row.ticket < newest and row.expires > now and row.weight <= line.capacity:
                    raise Violation(
                        "FIFO among the living",
                        f"{name!r}: ticket {newest} was served before {row.ticket}, which lives",
                    )
                break
            for row in line.held.values():
                if row.ticket not in before and row.expires <= now:
                    raise Violation("no resurrection", f"{name!r}: granted to the dead {row.meta}")
            self._held_before[name] = (held, line.capacity)
            self._abandoned_are_gone(name, line, now)
            self._waiters_live(name, line, now)

    def _abandoned_are_gone(self, name: str, line: Line, now: float) -> None:
        """What an interrupted acquire asked for is withdrawn soon after the trouble is over."""
        for row in line.rows():
            since = self.abandoned.get(row.meta)
            if since is None or row.expires <= now or self.world.time < since + UNDONE_S:
                continue
            process = self.world.processes[int(row.owner.split(":")[1]) - 1]
            if process.alive and not process.paused and not self.troubled(UNDONE_S):
                raise Violation("no leak", f"{name!r}: {row.meta} was interrupted and is left")

    def _waiters_live(self, name: str, line: Line, now: float) -> None:
        """A waiter of a living process does not lose its place for want of being kept."""
        for row in line.waiting.values():
            if row.expires > now or self.troubled(row.ttl + 8.0):
                continue
            process = self.world.processes[int(row.owner.split(":")[1]) - 1]
            waits = row.id in self.server.stores[process.pid].boxes
            if waits and process.alive and not process.paused:
                raise Violation("keep-alive", f"{name!r}: {row.meta} of {row.owner} lost its place")

    def troubled(self, span: float) -> bool:
        """Was there a fault within so many seconds?"""
        return any(end > self.world.time - span for _, end, _ in self.trouble)

    def told(self, hold: HoldBase) -> None:
        """``on_lost`` was called: never for what was given back in good time."""
        for grant in self.grants[hold.name]:
            if grant.hold is hold and grant.good_at_release and not grant.broken:
                self.found = Violation(
                    "no false loss", f"{grant} was released, and its owner told of a loss"
                )

    # -- the clients' side -------------------------------------------------------------------

    def granted(
        self, process: Process, hold: HoldBase, begun: float, adopted: bool = False
    ) -> Grant:
        """An acquire that was begun then returns this hold now."""
        grant = Grant(process, hold, begun, self.server.generation)
        grant.broken = hold.fence in self.broken
        name, fence = grant.name, hold.fence
        if not grant.believed():
            raise Violation("local honesty", f"{grant} was returned when its deadline was past")
        if not adopted:
            if fence in self.seen_fences[name]:
                raise Violation("fence order", f"{grant}: this fence was given before")
            earlier = max((f for t, f in self.fences[name] if t < begun), default=0)
            if fence <= earlier:
                raise Violation("fence order", f"{grant} after {earlier} had returned")
            self.seen_fences[name].add(fence)
            self.fences[name].append((self.world.time, fence))
        others = [g for g in self.grants[name] if g.believed() and not g.broken]
        total = sum(g.hold.weight for g in others) + hold.weight
        if total > self.capacity[name] and not grant.broken:
            raise Violation("exclusion", f"{grant} was returned while {others} are believed")
        self.grants[name] = [g for g in self.grants[name] if not g.released]
        self.grants[name].append(grant)
        self.honest(grant)
        return grant

    def honest(self, grant: Grant) -> None:
        """What its owner believes, the server must agree to."""
        if grant.lost_seen and grant.hold._lease.reason is None:
            raise Violation("no resurrection", f"{grant} was lost and is held again")
        if grant.lease.reason is not None:
            grant.lost_seen = True
        if not grant.believed() or grant.broken or self.data_lost >= grant.begun:
            return
        line = self.server.lines.lines.get(grant.name)
        row = line.held.get(grant.lease.claim.id) if line is not None else None
        if row is None or row.leaving or row.expires <= self.server.now():
            raise Violation(
                "local honesty", f"{grant} is believed, but the server holds it no more"
            )

    def looked(self, grant: Grant, lost: Loss | None) -> None:
        """The owner has looked at ``hold.lost``."""
        if grant.lost_seen and lost is None and not grant.released:
            raise Violation("no resurrection", f"{grant} was lost and is held again")
        if lost is not None:
            self.lost(grant, lost)
        self.honest(grant)

    def lost(self, grant: Grant, reason: Loss) -> None:
        """A hold was lost: only trouble of some length explains that."""
        if grant.lost_seen:
            return
        grant.lost_seen = True
        if reason not in (Loss.EXPIRED, Loss.UNREACHABLE) or grant.broken:
            return
        if not grant.lease.renewing or self.data_lost >= grant.begun:
            return
        process, ttl = grant.process, grant.lease.ttl
        if grant.lease.deadline == grant.first_deadline:
            ttl = min(ttl, grant.first_lease)  # granted by a push and not yet renewed
        # when it was over, which may be long before anybody looked
        when = min(self.world.time, (grant.lease.deadline - process.offset) / process.rate)
        since = when - ttl * 1.5 - 6.0
        total = sum(
            min(end, when) - max(start, since)
            for start, end, pid in self.trouble
            if end > since and start < when and pid in (None, process.pid)
        )
        if total < ttl * OUTAGE_PART:
            raise Violation(
                "keep-alive", f"{grant} ({ttl:g} s) lost after {total:.2f} s of trouble"
            )

    def released(self, grant: Grant) -> None:
        """Release was called: from here on its owner claims nothing."""
        self.honest(grant)
        grant.good_at_release = grant.believed()
        grant.released = True

    def busy(self, meta: str) -> None:
        """An acquire answered "busy": no grant of it may exist."""
        for name, line in self.server.lines.lines.items():
            for row in line.rows():
                if row.meta == meta and row.expires > self.server.now():
                    raise Violation("no false negative", f"{name!r} answered busy, but is granted")

    def in_time(self, process: Process, begun: float, timeout: float, stopped: float) -> None:
        """An acquire with a time-out is back."""
        if self.over:
            return
        took = (self.world.time - begun - (process.stopped_for - stopped)) * process.rate
        if took > timeout + GRACE_S:
            raise Violation("bounded waiting", f"timeout {timeout:.3f} s took {took:.3f} s")

    def at_the_end(self, spared: Any) -> None:
        """All flows are over and all faults healed: only what the dead left may remain."""
        now = self.server.now()
        for name, line in self.server.lines.lines.items():
            for row in line.rows():
                if row.expires > now and not row.leaving and not spared(row):
                    raise Violation(
                        "no leak", f"{name!r}: {row.meta} of {row.owner} is left behind"
                    )
        for grants in self.grants.values():
            for grant in grants:
                if grant.believed() and grant.process.alive and grant.lease.end is State.RELEASED:
                    raise Violation("no resurrection", f"{grant} was released and is believed")
