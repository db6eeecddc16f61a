"""The invariants, by name, checked while a history runs. A violation ends the history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...core.hold import HoldBase
from ...core.lease import Lease
from ...core.model import Change, Claim, Leave, Loss, Renewal, State
from ...core.policy import PATIENCE_S, REQUEST_S
from .trouble import Trouble, Violation

if TYPE_CHECKING:
    from ...stores.memory.line import Line
    from .server import Server
    from .world import Process, World

#: Maximum seconds by which an acquire may exceed its time-out.
GRACE_S = 0.25
#: Maximum seconds until the claim of an interrupted acquire is withdrawn, if no fault hinders it.
UNDONE_S = 3.0


class Grant:
    """A hold that the workload got, and its state for the checks."""

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
        #: A hold that a wake-up granted lasts only for the waiter TTL until its first renewal.
        self.first_deadline = hold._lease.deadline
        self.first_lease = self.first_deadline - process.now()
        self.lost_seen = False

    @property
    def lease(self) -> Lease:
        """The lease of the hold."""
        return self.hold._lease

    def believed(self) -> bool:
        """Return True if the hold counts as valid now for its owner, by the owner's clock."""
        lease = self.lease
        return (
            not self.released
            and lease.end is None
            and lease.reason is None
            and self.hold._epoch == self.process.epoch
            and self.process.now() < lease.deadline
        )

    def outdated(self, trouble: Trouble) -> bool:
        """Return True if the lease began before the clock of the server was set forward."""
        return trouble.outdated(self.process, self.lease)

    def __repr__(self) -> str:
        return f"{self.name!r} fence {self.lease.fence % 10**9} of {self.process!r}"


class Watch(Trouble):
    """Checks every grant, release and check of ``hold.lost`` in a history."""

    def __init__(self, world: World, server: Server, capacity: dict[str, int], spared: Any) -> None:
        super().__init__(world)
        self.server = server
        #: Called with a claim that is left at the end; returns True if this claim may be left.
        self._spared = spared
        #: The greatest capacity that a name ever had.
        self.capacity = capacity
        self.grants: dict[str, list[Grant]] = {name: [] for name in capacity}
        #: Name -> (time of return, fence, begin of the acquire) of each fence returned so far.
        self.fences: dict[str, list[tuple[float, int, float]]] = {name: [] for name in capacity}
        self.seen_fences: dict[str, set[int]] = {name: set() for name in capacity}
        #: Tickets for which an operator has sent a break, or is about to send it.
        self.broken: set[int] = set()
        #: Acquire (its ``meta``) -> the time at which the acquire ended with an exception; its
        #: claim must be withdrawn soon after that time.
        self.abandoned: dict[str, float] = {}
        #: Acquires (their ``meta``) whose holds were released.
        self.ended: set[str] = set()
        self._held_before: dict[str, tuple[frozenset[int], int]] = {}
        self._others: dict[str, tuple[int, float, int]] = {}
        server.before_verb = self.server_before
        server.after_verb = self.server_line

    # -- what happens to the server ----------------------------------------------------------

    def lost_data(self) -> None:
        """Record that the server restarted without its data."""
        super().lost_data()
        self._forget_fences()

    def _forget_fences(self) -> None:
        """Forget older fences if the data were lost and the clock was set back.

        Fences may fall only in this case, and only once.
        """
        if not (self.rewound and self.data_lost >= 0):
            return
        for name, fences in self.fences.items():
            later = [one for one in fences if one[2] > self.data_lost]  # granted since then
            self.fences[name], self.seen_fences[name] = later, {fence for _, fence, _ in later}

    def clock_was_set(self, delta: float) -> None:
        """Record that the clock of the server was set."""
        super().clock_was_set(delta)
        self._forget_fences()

    # -- the server's side -------------------------------------------------------------------

    def server_before(self, verb: str, args: tuple[Any, ...]) -> None:
        """Before each verb, record the holders that the verb doesn't name and must not change."""
        named = {item for arg in args for item in _names(arg)}
        now = self.server.now()
        self._others = {
            row.id: (row.ticket, row.expires, row.weight)
            for line in self.server.lines.lines.values()
            for row in line.held.values()
            if row.expires > now and row.id not in named and row.ticket not in named
        }

    def _untouched(self) -> None:
        """Check that the verb changed no fence, lease or weight of a holder that it didn't name."""
        if not self._others:
            return
        now = {
            row.id: (row.ticket, row.expires, row.weight)
            for line in self.server.lines.lines.values()
            for row in line.held.values()
        }
        for id_, was in self._others.items():
            if now.get(id_) != was:
                raise Violation(
                    "ownership", f"a request for others made of {was} {now.get(id_, 'nothing')}"
                )

    def server_line(self) -> None:
        """After each verb, check the grants: their order, the capacity, and the sum of weights."""
        self._untouched()
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
        """Check that the claim of an interrupted acquire is withdrawn soon after the faults end."""
        for row in line.rows():
            since = self.abandoned.get(row.meta)
            if since is None or row.expires <= now or self.world.time < since + UNDONE_S:
                continue
            process = self.world.processes[int(row.owner.split(":")[1]) - 1]
            # Several names are undone together: the first undo was at most one request earlier.
            if self.forward >= since - UNDONE_S - REQUEST_S:
                continue  # the tombstone has expired too early, so a late copy can enter
            if self.world.time < self.back + max(row.ttl, PATIENCE_S):
                continue  # the claim had expired and was not removed yet; now it is valid again
            if process.alive and not process.paused and not self.troubled(UNDONE_S):
                raise Violation("no leak", f"{name!r}: {row.meta} was interrupted and is left")

    def _waiters_live(self, name: str, line: Line, now: float) -> None:
        """Check that no waiter of a living process expires: the process asks again in time."""
        for row in line.waiting.values():
            if row.expires > now or self.troubled(row.ttl + 8.0):
                continue
            if self.world.time < self.forward + row.ttl + 8.0:
                continue
            process = self.world.processes[int(row.owner.split(":")[1]) - 1]
            waits = row.id in self.server.stores[process.pid].boxes
            if waits and process.alive and not process.paused:
                raise Violation("keep-alive", f"{name!r}: {row.meta} of {row.owner} lost its place")

    def told(self, hold: HoldBase) -> None:
        """Record a call of ``on_lost``: a violation if the hold was released in time."""
        for grant in self.grants[hold.name]:
            if grant.hold is hold and grant.good_at_release and not grant.broken:
                self.found = Violation(
                    "no false loss", f"{grant} was released, and its owner notified of a loss"
                )

    # -- the clients' side -------------------------------------------------------------------

    def granted(
        self, process: Process, hold: HoldBase, begun: float, adopted: bool = False
    ) -> Grant:
        """Record and check that an acquire that began at ``begun`` returns this hold now."""
        grant = Grant(process, hold, begun, self.server.generation)
        grant.broken = hold.fence in self.broken
        name, fence = grant.name, hold.fence
        if not grant.believed():
            raise Violation("local honesty", f"{grant} was returned when its deadline was past")
        if not adopted:
            if fence in self.seen_fences[name]:
                raise Violation("fence order", f"{grant}: this fence was given before")
            earlier = max((f for t, f, _ in self.fences[name] if t < begun), default=0)
            if fence <= earlier:
                raise Violation("fence order", f"{grant} after {earlier} had returned")
            self.seen_fences[name].add(fence)
            if not self.rewound or begun > self.data_lost:
                self.fences[name].append((self.world.time, fence, begun))
        others = [
            g for g in self.grants[name] if g.believed() and not g.broken and not g.outdated(self)
        ]
        total = sum(g.hold.weight for g in others) + hold.weight
        if total > self.capacity[name] and not grant.broken and not grant.outdated(self):
            raise Violation("exclusion", f"{grant} was returned while {others} are believed")
        self.grants[name] = [g for g in self.grants[name] if not g.released]
        self.grants[name].append(grant)
        self.honest(grant)
        return grant

    def honest(self, grant: Grant) -> None:
        """Check that the server has the claim of a hold that counts as valid for its owner."""
        if grant.lost_seen and grant.hold._lease.reason is None:
            raise Violation("no resurrection", f"{grant} was lost and is held again")
        if grant.lease.reason is not None:
            grant.lost_seen = True
        if not grant.believed() or grant.broken or self.data_lost >= grant.begun:
            return
        line = self.server.lines.lines.get(grant.name)
        row = line.held.get(grant.lease.claim.id) if line is not None else None
        if row is None or row.leaving or row.expires <= self.server.now():
            if grant.outdated(self) and not self.told_late(grant.process, grant.lease):
                return
            raise Violation(
                "local honesty", f"{grant} is believed, but the server holds it no more"
            )

    def looked(self, grant: Grant, lost: Loss | None) -> None:
        """Check the value of ``hold.lost`` that the owner has read."""
        if grant.lost_seen and lost is None and not grant.released:
            raise Violation("no resurrection", f"{grant} was lost and is held again")
        if lost is not None:
            self.lost(grant, lost)
        self.honest(grant)

    def lost(self, grant: Grant, reason: Loss) -> None:
        """Check that a loss is explained by enough seconds of faults."""
        if grant.lost_seen:
            return
        grant.lost_seen = True
        if reason not in (Loss.EXPIRED, Loss.RELEASED, Loss.UNREACHABLE) or grant.broken:
            return
        if not grant.lease.renewing or self.data_lost >= grant.begun or grant.outdated(self):
            return
        process, ttl = grant.process, grant.lease.ttl
        if grant.lease.deadline == grant.first_deadline:
            ttl = min(ttl, grant.first_lease)  # granted by a wake-up and not yet renewed
        total = self.unexplained(process, grant.lease, ttl)
        if total is not None:
            raise Violation(
                "keep-alive", f"{grant} ({ttl:g} s) lost after {total:.2f} s of trouble"
            )

    def released(self, grant: Grant) -> None:
        """Record a call of release: after it the hold no longer counts as valid."""
        self.honest(grant)
        grant.good_at_release = grant.believed()
        grant.released = True
        self.ended.add(grant.lease.claim.spec.meta)

    def given_back(self, grant: Grant, kept: bool) -> None:
        """Check the result of release: it may be True only if the store removed the claim."""
        lease = grant.lease
        excused = grant.broken or max(self.data_lost, self.forward) >= grant.begun
        if not kept or excused or lease.end is not State.RELEASED or lease.reason is not None:
            return
        if lease.claim.id not in self.server.freed:
            raise Violation("no false answer", f"{grant}: its release counts, but freed nothing")

    def busy(self, meta: str) -> None:
        """Check an acquire that returned "busy": its claim must not be in the line."""
        for name, line in self.server.lines.lines.items():
            for row in line.rows():
                now = self.server.now()  # if the clock was set back, expired claims are valid again
                if row.meta == meta and row.since <= now < row.expires:
                    raise Violation("no false negative", f"{name!r} answered busy, but is granted")

    def in_time(self, process: Process, begun: float, timeout: float, stopped: float) -> None:
        """Check that an acquire with a time-out has returned in time."""
        if self.over:
            return
        took = (self.world.time - begun - (process.stopped_for - stopped)) * process.rate
        if took > timeout + GRACE_S:
            raise Violation("bounded waiting", f"timeout {timeout:.3f} s took {took:.3f} s")

    def at_the_end(self) -> None:
        """Check the end of a history: only detached claims and those of dead processes are left."""
        now = self.server.now()
        for name, line in self.server.lines.lines.items():
            for row in line.rows():
                if self.forward >= 0 and (row.meta in self.abandoned or row.meta in self.ended):
                    continue  # a late copy found no tombstone and entered; it lasts for one lease
                if row.expires > now and not row.leaving and not self._spared(row):
                    raise Violation(
                        "no leak", f"{name!r}: {row.meta} of {row.owner} is left behind"
                    )
        for grants in self.grants.values():
            for grant in grants:
                if grant.believed() and grant.process.alive and grant.lease.end is State.RELEASED:
                    raise Violation("no resurrection", f"{grant} was released and is believed")


def _names(arg: Any) -> Iterator[Any]:
    """Yield the ids of the claims that an argument of a verb names; for others, the ticket."""
    if isinstance(arg, list | tuple) and not hasattr(arg, "_fields"):
        for one in arg:
            yield from _names(one)
    elif isinstance(arg, Claim):
        yield arg.id
    elif isinstance(arg, Renewal):
        yield arg.claim.id
    elif isinstance(arg, Change):
        yield from (arg.claim.id, arg.new_id)
    elif isinstance(arg, Leave):
        yield arg.id
    elif isinstance(arg, int):
        yield arg
