"""Actions that need more time than one lease: shorter leases, repeated joins, cancelled renewers,
closed clients, several names whose leases end at different times, and copies that arrive very late.

In two histories of seven the claimants draw from these actions, too. The histories of the other
seeds don't have these actions, and so stay unchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from ...core.model import Held, Renewal, Standing
from ...core.multi import MultiLockBase
from ...stores.memory.line import Lines, Poke
from .fates import TOO_LATE_S, Aim, Fate
from .faults import Fault, Faults
from .store import SimStore
from .watch import UNDONE_S
from .workload import LOCKS, Actor, client
from .world import Cancelled, Fut

if TYPE_CHECKING:
    from ...core.client import ClientBase

__all__ = ["TOO_LATE", "CutLines", "LaterActor", "cuts", "later"]

#: Seconds after its time-out at which a late request arrives. The longest delay is longer than each
#: undo, except the undos that continue in the background.
TOO_LATE = (*TOO_LATE_S, 11.0)
#: A seed has the actions of this module if the rest of its division by ``OF`` is in ``THESE``.
OF, THESE = 7, (0, 3)
#: In every third of these histories a renewal cuts the lease to the ttl of its request.
CUTS = 3


def later(seed: int) -> bool:
    """Return True if the history of this seed has the actions of this module."""
    return seed % OF in THESE


def cuts(seed: int) -> bool:
    """Return True if renewals in this history cut the lease to the ttl that they request."""
    return later(seed) and seed % CUTS == 0


class CutLines(Lines):
    """Lines in which a renewal cuts the lease to the ttl that it requests, as some dialects do."""

    def renew(self, renewal: Renewal, now: float) -> tuple[Standing, list[Poke]]:
        """Renew the lease, and let it end no later than the requested ttl."""
        answer, pokes = super().renew(renewal, now)
        line = self.lines.get(renewal.claim.spec.name)
        row = line.held.get(renewal.claim.id) if line is not None else None
        if line is not None and row is not None and isinstance(answer, Held):
            row.expires = now + renewal.ttl
            line.first = min(line.first, row.expires)
        return answer, pokes


class LaterActor(Actor):
    """A claimant that also draws from the actions of this module."""

    def choices(self) -> Sequence[Callable[[], Awaitable[None]]]:
        """The actions to choose from."""
        return [
            *super().choices(),
            *[self.shorten, self.again, self.recall, self.close_amid, self.uneven, self.gone] * 2,
            *[self.shorten_amid] * 4 * cuts(self.history.plan.seed),
        ]

    async def shorten(self) -> None:
        """Extend a hold to a shorter lease, and hold the name for longer than the old lease."""
        grant = await self._take(self._lock(self.rng.choice(LOCKS)))
        if grant is None:
            return
        before = grant.lease.ttl
        await grant.hold._extend(max(0.3, before * self.rng.uniform(0.15, 0.3)))
        for _ in range(5):
            await self.pause(before / 2)
            self.watch.looked(grant, grant.hold.lost)
        await self._release(grant)

    async def shorten_amid(self) -> None:
        """Extend a hold to a shorter lease during a renewal; then cut off the process."""
        grant = await self._take(self._lock(self.rng.choice(LOCKS)))
        if grant is None:
            return
        before = grant.lease.ttl
        if await self._amid_renewal(self.client, before):
            length = max(0.3, before * self.rng.uniform(0.15, 0.3))
            await grant.hold._extend(length)
            self._fated(Aim("renew", Fate.CUT))
            for _ in range(4):
                await self.pause(length / 2)
                self.watch.honest(grant)
                self.watch.looked(grant, grant.hold.lost)
        await self._release(grant)

    async def again(self) -> None:
        """Lose the first reply to a join, which is then repeated; hold for longer than a lease."""
        self._fated(Aim("join", Fate.LOST))
        lock = self._lock(self.rng.choice(LOCKS), ttl=6.0)
        grant = await self._take(lock)
        if grant is None:
            return
        for _ in range(4):
            await self.pause(1.0)
            self.watch.looked(grant, grant.hold.lost)
        await self._release(grant)

    async def recall(self) -> None:
        """Cancel the task of the renewer during a renewal; a new task must continue the work."""
        grant = await self._take(self._lock(self.rng.choice(LOCKS)))
        if grant is None:
            return
        keeper = self.client._ctx.keeper
        if await self._amid_renewal(self.client, grant.lease.ttl):
            task = self.client._ctx.runtime.keeper  # type: ignore[attr-defined]
            if task is not None and keeper._asked and not task.nobody:
                self.history.tell(self, "  its renewer is cancelled")
                self.history.world.interrupt(task, Cancelled())
        for _ in range(3):
            await self.pause(grant.lease.ttl / 2)
            self.watch.looked(grant, grant.hold.lost)
        await self._release(grant)

    async def close_amid(self) -> None:
        """Close a separate client during a renewal: all its claims must be withdrawn."""
        usual, own = self.client, self._guest()
        self.client = own
        lock = self._lock(self.rng.choice(LOCKS))
        try:
            grant = await self._take(lock)
            if grant is not None:
                await self._amid_renewal(own, grant.lease.ttl)
                self.watch.honest(grant)
                grant.released = True  # the close of the client ends this hold with a loss
        finally:
            self.client = usual
            world = self.history.world
            begun = world.time
            await self._in_the_end(own._close)
            self.holding = [one for one in self.holding if one.hold._ctx is not own._ctx]
            if self.watch.troubled(UNDONE_S + world.time - begun):
                self.watch.abandoned.pop(lock._spec.meta, None)  # a failed undo isn't repeated
                self.history.detached.add(lock._spec.meta)  # so a late copy stays for its ttl
            else:
                self.watch.abandoned[lock._spec.meta] = world.time

    async def uneven(self) -> None:
        """Acquire two names as one lock, one of them with a much shorter lease.

        The short lease ends during the reply to the join, or during the release."""
        names = self.rng.sample(LOCKS, 2)
        locks = [self._lock(name, ttl=ttl) for name, ttl in zip(names, (0.4, 10.0), strict=True)]
        multi = MultiLockBase(self.client._ctx, locks)
        begun, server, pid = self.history.world.time, self.history.server, self.process.pid
        late = self.rng.random() < 0.5
        if late:
            stop = Fault("pause", begun, 0.8, 0)
            act = functools.partial(Faults(self.history).pause, stop, self.process)
            server.aims[pid] = ("join", act)
        hold = None
        try:
            hold = await multi._acquire(timeout=3.0)
        finally:
            if hold is None:
                for lock in locks:
                    self.watch.abandoned[lock._spec.meta] = self.history.world.time
        if hold is None:
            return
        self._got_all(hold, begun)
        if not late:
            self.watch.trouble.append((self.history.world.time, self.history.world.time + 2, None))
            server.down(0.7)
        await self._release_all(hold)

    async def gone(self) -> None:
        """Give up an acquire; its request arrives long after that, and its undo doesn't arrive."""
        self._fated(Aim("join", Fate.LATE), Aim("", Fate.CUT))
        lock = self._lock(self.rng.choice(LOCKS), ttl=0.4)
        grant = await self._take(lock, 0.05)
        if grant is not None:
            await self._work(grant)

    # -- the parts ---------------------------------------------------------------------------

    def _fated(self, *aims: Aim) -> None:
        """Add fates for the next requests of this process, after the planned fates."""
        self.history.server.fated.setdefault(self.process.pid, []).extend(aims)

    def _guest(self) -> ClientBase:
        """Make another client in this process; it shares the wake-ups of the first client."""
        server = self.history.server
        first = server.stores[self.process.pid]
        store = SimStore(server, self.process)
        store.boxes, server.stores[self.process.pid] = first.boxes, first
        return client(self.process, store)

    async def _amid_renewal(self, its: ClientBase, ttl: float) -> bool:
        """Wait until this client sends a renewal; False if it sends none within one ttl."""
        world, aims, pid = self.history.world, self.history.server.aims, self.process.pid
        moment: Fut[None] = Fut(world)

        def hit() -> None:
            if its._ctx.keeper._asked or moment.done:
                moment.set(None)
            else:
                aims[pid] = ("renew", hit)

        aims[pid] = ("renew", hit)
        world.after(ttl, lambda: moment.set(None))
        await moment
        return bool(its._ctx.keeper._asked)
