"""Actions of the claimants: every primitive of the real core, in random order, on a few names."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...core.client import ClientBase
from ...core.election import ElectionBase
from ...core.hold import HoldBase
from ...core.lock import LockBase
from ...core.model import RWLOCK_CAPACITY, Kind, Leave
from ...core.multi import MultiHoldBase, MultiLockBase
from ...core.rwlock import RWSideBase
from ...core.semaphore import OnConflict, SemaphoreBase
from ...errors import ConfigError, LockLost, NotAcquired, NotHeld, NotSupported, StoreUnavailable
from .runtime import SimRuntime
from .store import SimStore
from .watch import Grant, Watch
from .world import Cancelled, Process

if TYPE_CHECKING:
    from .history import History

#: Name -> the greatest capacity that the workload gives this name.
CAPACITY = {"a": 1, "b": 1, "c": 1, "sem": 5, "rw": RWLOCK_CAPACITY, "boss": 1}
#: Minimum number of steps of a history.
STEPS_MIN = 300
LOCKS = ("a", "b", "c")
EXPECTED = (StoreUnavailable, NotAcquired, LockLost, NotHeld, ConfigError, NotSupported)


class Actor:
    """One claimant: a task of a process that draws its actions from a separate seed."""

    def __init__(self, history: History, process: Process, number: int, seed: int) -> None:
        self.history = history
        self.process = process
        self.number = number
        self.rng = random.Random(seed)
        self.watch: Watch = history.watch
        self.client: ClientBase = history.clients[process.pid]
        self.calls = 0
        self.holding: list[Grant] = []

    async def main(self) -> None:
        """Execute a number of actions, one after the other; release all holds after each action."""
        choices = self.choices()
        done = 0
        while done < self.history.plan.actions or self.history.world.steps < STEPS_MIN:
            done += 1
            act = self.rng.choice(choices)
            self.history.tell(self, act.__name__)
            try:
                await act()
            except EXPECTED as failure:
                self.history.tell(self, f"  {type(failure).__name__}")
            except Cancelled:
                self.history.tell(self, "  cancelled")
            except KeyboardInterrupt:
                self.history.tell(self, "  Ctrl-C")
            for grant in self.holding:
                grant.released = True  # an exception ended the action, and with it the work
            await self._in_the_end(self._give_up_all)
            await self._in_the_end(lambda: self.pause(0.3))

    def choices(self) -> Sequence[Callable[[], Awaitable[None]]]:
        """The actions to choose from, each repeated by its weight."""
        return (
            [self.plain] * 6
            + [self.semaphore] * 3
            + [self.rwlock] * 3
            + [self.several] * 3
            + [self.election, self.hand_over, self.adopt, self.limited]
            + [self.resize, self.intrude, self.reenter, self.operator]
        )

    async def _in_the_end(self, act: Callable[[], Awaitable[None]]) -> None:
        """Repeat ``act`` until no interrupt ends it."""
        while True:
            try:
                return await act()
            except (Cancelled, KeyboardInterrupt):
                continue

    async def _give_up_all(self) -> None:
        while self.holding:
            grant = self.holding[-1]
            while grant.lease.end is None:
                try:
                    await grant.hold._release()
                except StoreUnavailable:
                    await self.pause(0.5)
                except EXPECTED:
                    break
            self.watch.ended.add(grant.lease.claim.spec.meta)
            self.holding.pop()

    # -- the actions -------------------------------------------------------------------------

    async def plain(self) -> None:
        """Acquire a lock, with or without waiting, and hold it for a while."""
        hold = await self._take(self._lock(self.rng.choice(LOCKS)))
        if hold is not None:
            await self._work(hold)

    async def reenter(self) -> None:
        """Enter a reentrant lock twice."""
        lock = self._lock(self.rng.choice(LOCKS), reentrant=True)
        hold = await self._take(lock)
        if hold is None:
            return
        again = await lock._acquire()
        assert again is not None
        assert again is hold.hold
        await self.pause(0.2)
        await again._release()
        self.watch.looked(hold, hold.hold.lost)
        await self._work(hold)

    async def semaphore(self) -> None:
        """Acquire one to three permits of a semaphore."""
        lock = self._semaphore(self.rng.randint(1, 3))
        hold = await self._take(lock)
        if hold is not None:
            await self._work(hold)

    async def rwlock(self) -> None:
        """Acquire a read lock, sometimes nested; or a write lock, sometimes with a downgrade."""
        write = self.rng.random() < 0.4
        weight = RWLOCK_CAPACITY if write else 1
        side = RWSideBase(*self._wish(Kind.RWLOCK, "rw", RWLOCK_CAPACITY, weight))
        hold = await self._take(side)
        if hold is None:
            return
        if write and self.rng.random() < 0.6:
            await self.pause(0.2)
            await hold.hold._downgrade()
            self.history.tell(self, "  downgraded")
        elif not write and self.rng.random() < 0.4:
            nested = await side._acquire()
            if nested is not None:
                await nested._release()
        await self._work(hold)

    async def several(self) -> None:
        """Acquire two or three locks as one, sometimes with a semaphore and a read lock."""
        rng = self.rng
        names = rng.sample(LOCKS, rng.randint(2, 3))
        locks = [self._lock(name, reentrant=rng.random() < 0.2) for name in names]
        if rng.random() < 0.25:
            locks.append(self._semaphore(rng.randint(1, 3)))
        if rng.random() < 0.25:
            locks.append(RWSideBase(*self._wish(Kind.RWLOCK, "rw", RWLOCK_CAPACITY, 1)))
        multi = MultiLockBase(self.client._ctx, locks)
        begun = self.history.world.time
        hold = None
        try:
            hold = await multi._acquire(timeout=self._patience())
        finally:
            if hold is None:  # its claims must be withdrawn soon
                for lock in locks:
                    self.watch.abandoned[lock._spec.meta] = self.history.world.time
        if hold is None:
            return
        self._got_all(hold, begun)
        await self.pause(1.0)
        if rng.random() < 0.3:
            for grant in reversed(list(self.holding)):
                await self._release(grant)
            return
        await self._release_all(hold)

    async def election(self) -> None:
        """Lead an election for a while."""
        hold = await self._take(ElectionBase(*self._wish(Kind.ELECTION, "boss", 1, 1)))
        if hold is not None:
            await self._work(hold)

    async def limited(self) -> None:
        """Acquire a lock without renewal, or with ``max_hold`` or ``min_hold``."""
        kind = self.rng.randrange(3)
        options: dict[str, Any] = {"auto_renew": False}
        if kind == 1:
            options = {"max_hold": self.rng.uniform(0.3, 4.0)}
        elif kind == 2:
            options = {"min_hold": self.rng.uniform(0.1, 2.0)}
        hold = await self._take(self._lock(self.rng.choice(LOCKS), **options))
        if hold is not None:
            await self._work(hold)

    async def hand_over(self) -> None:
        """Detach a hold; any claimant may adopt it."""
        grant = await self._take(self._lock(self.rng.choice(LOCKS)))
        if grant is None:
            return
        await self.pause(0.3)
        self.history.detached.add(grant.lease.claim.spec.meta)
        grant.released = True
        token = await grant.hold._detach()
        self.holding.remove(grant)
        self.history.tokens.append(token)

    async def adopt(self) -> None:
        """Adopt a detached hold.

        In half of the cases the token stays in the list of tokens. A second adoption with this
        token must fail."""
        if not self.history.tokens:
            return
        twice = self.rng.random() < 0.5
        tokens = self.history.tokens
        token = tokens[-1] if twice else tokens.pop()
        begun = self.history.world.time
        hold = await self.client._adopt(token, True, None)
        grant = self.watch.granted(self.process, hold, begun, adopted=True)
        self.holding.append(grant)
        await self._work(grant)

    async def resize(self) -> None:
        """Change the number of permits."""
        await self._semaphore(1)._resize(self.rng.randint(3, CAPACITY["sem"]))

    async def intrude(self) -> None:
        """Send a leave with a wrong or empty id: it must change nothing."""
        store: SimStore = self.client._ctx.store  # type: ignore[assignment]
        name = self.rng.choice(LOCKS)
        line = self.history.server.lines.lines.get(name)
        row = next(line.rows(), None) if line is not None else None
        if row is not None:
            before = row.held
            drawn = self.rng.getrandbits(128)
            wrong = Leave(name, f"{drawn:032x}" if drawn % 2 else "", row.ticket)
            if await store.leave(wrong, 1.0):
                self.history.fail("ownership", f"a wrong id released {name!r} (held: {before})")

    async def operator(self) -> None:
        """Break a hold of some owner."""
        name = self.rng.choice(LOCKS)
        line = self.history.server.lines.lines.get(name)
        row = next(iter(line.held.values()), None) if line is not None else None
        if row is None or self.rng.random() < 0.5:
            return
        ticket = row.ticket
        for grant in self.watch.grants[name]:
            if grant.lease.fence == ticket:
                grant.broken = True
        self.watch.broken.add(ticket)
        await self.client._break(name, ticket)

    # -- the parts ---------------------------------------------------------------------------

    def _got_all(self, hold: MultiHoldBase, begun: float) -> None:
        for one in hold._holds:
            self.holding.append(self.watch.granted(self.process, one, begun))

    async def _release_all(self, hold: MultiHoldBase) -> None:
        for grant in self.holding:
            self.watch.released(grant)
        kept = await hold._release()
        for grant in self.holding:
            self.watch.given_back(grant, kept)
        self.holding.clear()

    async def _take(self, lock: LockBase, wait: float | None = -1.0) -> Grant | None:
        world = self.history.world
        begun, stopped = world.time, self.process.stopped_for
        wait = self._patience() if wait == -1.0 else wait
        try:
            hold = await lock._acquire(timeout=wait)
        except BaseException:
            self.watch.abandoned[lock._spec.meta] = world.time
            raise
        finally:
            if wait is not None:
                self.watch.in_time(self.process, begun, wait, stopped)
        if hold is None:
            self.history.tell(self, f"  busy: {lock.name}")
            self.watch.busy(lock._spec.meta)
            return None
        grant = self.watch.granted(self.process, hold, begun)
        self.history.tell(self, f"  holds {grant}")
        self.holding.append(grant)
        return grant

    async def _work(self, grant: Grant) -> None:
        """Hold the lock for a while, check it a few times, and release it."""
        ttl = grant.lease.ttl
        length = self.rng.choice((0.01, 0.3, ttl * 0.5, ttl * 2)) * self.rng.random()
        for _ in range(self.rng.randint(1, 3)):
            await self.pause(length / 2)
            self.watch.looked(grant, grant.hold.lost)
            if self.rng.random() < 0.15:
                await grant.hold._extend(self.rng.choice((None, ttl)))
        await self._release(grant)

    async def _release(self, grant: Grant) -> None:
        self.watch.released(grant)
        self.history.tell(self, f"  releases {grant}")
        self.watch.given_back(grant, await grant.hold._release())
        if grant in self.holding:
            self.holding.remove(grant)

    def _told(self, hold: HoldBase, reason: object) -> None:
        self.history.tell(self, f"  notified that {hold.name!r} is lost: {reason}")
        self.watch.told(hold)

    def _patience(self) -> float | None:
        return self.rng.choice((0.0, 0.05, 0.5, 3.0, 8.0, None))

    async def pause(self, seconds: float) -> None:
        """Sleep for up to twice this time."""
        await self.client._ctx.runtime.sleep(self.rng.random() * 2 * seconds)

    def _wish(self, kind: Kind, name: str, capacity: int, weight: int, **options: Any) -> Any:
        self.calls += 1
        drawn = self.rng.choice((0.4, 2.0, 2.0, 6.0, 10.0))
        options = {"ttl": drawn, "on_lost": self._told, **options}
        meta = f"{self.number}.{self.calls}"
        return self.client._wish(kind, name, capacity=capacity, weight=weight, meta=meta, **options)

    def _lock(self, name: str, reentrant: bool = False, **options: Any) -> LockBase:
        ctx, spec, terms, timeout = self._wish(Kind.LOCK, name, 1, 1, **options)
        return LockBase(ctx, spec, terms, timeout, reentrant)

    def _semaphore(self, weight: int) -> SemaphoreBase:
        permits = self.rng.choice((3, 3, 4))
        ctx, spec, terms, timeout = self._wish(Kind.SEMAPHORE, "sem", permits, weight)
        on_conflict: OnConflict = "resize" if self.rng.random() < 0.5 else "error"
        return SemaphoreBase(ctx, spec, terms, timeout, on_conflict)


class SimOwner:
    """The owner of a simulated process; the history reads the pid in the owner text."""

    def __init__(self, process: Process) -> None:
        self.label = "sim"
        self._text = f"host:{process.pid}:sim"

    def __call__(self) -> str:
        """Return the owner text."""
        return self._text


def client(process: Process, store: SimStore) -> ClientBase:
    """Make a client of the real core in a virtual process."""
    return ClientBase(store, SimRuntime(process), HoldBase, "sim://", 5.0, SimOwner(process))
