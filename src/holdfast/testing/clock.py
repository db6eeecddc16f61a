"""A clock that a test moves, and clients that use it: half an hour passes in some milliseconds.

The clients are real clients for threads and for asyncio, over a separate memory store. Their time
is the machine's time plus the time that the test has added. ``advance`` lets time pass normally:
renewers renew when a renewal is due, waiters keep their places in the line of claims, and a lease
without a renewal expires. ``jump`` acts as if the process had been stopped: the time has passed,
and no renewer or waiter ran.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from weakref import WeakSet

from .. import aio, sync
from ..aio.loops import Loops
from ..core.client import DEFAULT_TTL_S, ClientBase
from ..core.context import Context
from ..core.hold import HoldBase
from ..core.lease import Lease
from ..core.policy import ASK_AGAIN_S_MAX
from ..core.ports import Latch
from ..runtime import fork
from ..runtime.aio import AioLatch, AioRuntime
from ..runtime.blocking import BlockingLatch, BlockingRuntime, boottime
from ..runtime.identity import Owner
from ..runtime.timers.aio import sleep
from ..stores.memory import blocking as memory
from ..stores.memory.line import Lines
from ..stores.memory.store import MemoryStore

T = TypeVar("T")
L = TypeVar("L", bound=Latch)

#: Maximum seconds of real time in which renewers and waiters must act after the clock has moved.
SETTLE_S = 5.0
#: Seconds by which the clock moves past the moment at which something is due.
BEHIND_S = 0.001

_numbers = itertools.count(1)


class _ThreadLatch(BlockingLatch):
    __slots__ = ("__weakref__",)


class _TaskLatch(AioLatch):
    __slots__ = ("__weakref__",)


class _Mailbox:
    """Receives the grant of one waiter. The clock can wake the waiter, too, without a grant."""

    def __init__(self, latch: Latch) -> None:
        self._latch = latch
        self._fence: int | None = None

    def poke(self, fence: int) -> None:
        """Deliver the fence of a grant, and wake the waiter."""
        self._fence = fence
        self._latch.set()

    async def wait(self, seconds: float) -> int | None:
        """Return the fence of the grant, or None; None can come before ``seconds`` have passed."""
        if self._fence is None:
            await self._latch.wait(seconds)
        return self._fence


class TestClock:
    """Moves the time of its clients and of the store that they share."""

    __test__ = False  # or pytest would collect it as a class of tests

    def __init__(self) -> None:
        self.name = f"test-{next(_numbers)}"
        self._space = memory.space(self.name)
        self._latches: WeakSet[Any] = WeakSet()
        self._clients: list[ClientBase] = []
        self._leases: list[Lease] = []
        self._moved = 0.0

    # -- clients ---------------------------------------------------------------------------

    def client(self, *, ttl: float = DEFAULT_TTL_S, label: str = "test") -> sync.Client:
        """A new client for threads that uses this clock."""
        client = Client(self, ttl, label)
        self._clients.append(client)
        return client

    def async_client(self, *, ttl: float = DEFAULT_TTL_S, label: str = "test") -> aio.AsyncClient:
        """A new client for asyncio that uses this clock."""
        client = AsyncClient(self, ttl, label)
        self._clients.append(client)
        return client

    def leaked(self) -> list[str]:
        """Describe the holds that are not released, not handed over and not lost."""
        now = self.now()
        return [
            f"{lease.claim.spec.name!r} (fence {lease.fence}, owner {lease.claim.spec.owner})"
            for lease in self._leases
            if lease.end is None and not lease.closing and lease.loss(now) is None
        ]

    def close(self) -> None:
        """Forget the clients and the store. The tasks of an event loop end with that loop."""
        for client in self._clients:
            client._ctx.closed = True
            client._ctx.keeper.stop()
        self._nudge()
        memory._spaces.pop(self.name, None)

    # -- time ------------------------------------------------------------------------------

    def now(self) -> float:
        """The time of this clock, in seconds since some moment."""
        return boottime() + self._space.skew

    def advance(self, seconds: float) -> None:
        """Let time pass for the clients that use threads; everything due happens in order."""
        self._refuse_tasks()
        for _ in self._steps(seconds):
            self._wait_for_threads()

    async def advance_async(self, seconds: float) -> None:
        """Let time pass for the tasks of this event loop, and for threads."""
        for _ in self._steps(seconds):
            await self._wait_for_tasks()

    def jump(self, seconds: float) -> None:
        """Skip this time, as for a process that was stopped; then wait until threads act."""
        self._refuse_tasks()
        self._move(seconds)
        self._wait_for_threads()

    async def jump_async(self, seconds: float) -> None:
        """Skip this time, for the tasks of this event loop, and for threads."""
        self._move(seconds)
        await self._wait_for_tasks()

    def _steps(self, seconds: float) -> Iterator[None]:
        """Move from one moment at which something is due to the next."""
        end = self.now() + seconds
        while (now := self.now()) < end:
            self._move(min(end, self._next() + BEHIND_S) - now)
            yield

    def _next(self) -> float:
        """Return the next time at which a client must act, or a lease expires."""
        now = self.now()
        dues = [client._ctx.keeper.next_due() for client in self._clients]
        expiry = self.call(lambda lines, _: lines.next_expiry())
        again = now + ASK_AGAIN_S_MAX if self._waiters() else math.inf
        return min(max(due, now) for due in (*dues, expiry, again))

    def _move(self, seconds: float) -> None:
        self._space.skew += max(seconds, 0.0)
        self._moved = self.now()
        for address, _, fence in self.call(lambda lines, now: lines.sweep(now)):
            address.poke(fence)
        self._nudge()

    def _nudge(self) -> None:
        for latch in list(self._latches):
            latch.set()

    def _settled(self) -> bool:
        """Return True if each renewer and waiter has done what was due when the clock moved."""
        moved = self._moved
        if any(client._ctx.keeper.next_due() <= moved for client in self._clients):
            return False
        kept = moved + self._space.lines.patience - BEHIND_S
        return all(expires >= kept for expires in self._waiters())

    def _waiters(self) -> list[float]:
        """Return the time at which each waiter expires; the waiter must ask again before."""

        def expiries(lines: Lines, now: float) -> list[float]:
            del now
            rows = [row for line in lines.lines.values() for row in line.waiting.values()]
            return [row.expires for row in rows if isinstance(row.address, _Mailbox)]

        return self.call(expiries)

    def _wait_for_threads(self) -> None:
        end = boottime() + SETTLE_S
        while not self._settled():
            _check(end)
            time.sleep(0.0002)

    async def _wait_for_tasks(self) -> None:
        end = boottime() + SETTLE_S
        for _ in range(5):  # each wake-up needs one or two callbacks
            await sleep(0)
        while not self._settled():
            _check(end)
            await sleep(0.0002)

    def _refuse_tasks(self) -> None:
        busy = [one for one in self._clients if isinstance(one, aio.AsyncClient)]
        if any(one._ctx.keeper.pending() for one in busy):
            raise RuntimeError(
                "a client for asyncio has holds, and its tasks can't run meanwhile: "
                "write `await lock_clock.advance_async(...)` or `await lock_clock.jump_async(...)`"
            )

    # -- parts of the clients --------------------------------------------------------------

    def call(self, act: Callable[[Lines, float], T]) -> T:
        """Run ``act`` with the store's lines of claims and the time of this clock."""
        return self._space.call(act)

    def latch(self, face: type[L]) -> L:
        """A latch that is also set when the clock moves: a wake-up without a cause is allowed."""
        latch = face()
        self._latches.add(latch)
        return latch

    def note(self, lease: Lease) -> None:
        """Record a new hold."""
        self._leases.append(lease)


class _Port:
    """The port of the memory store, with the time of this clock."""

    def __init__(self, clock: TestClock, face: type[Latch]) -> None:
        self.space = clock.name
        self.call = clock.call
        self.queue = memory.space(self.space).queue
        self.queue_names = memory.space(self.space).queue_names
        self.values = memory.space(self.space).values
        self._clock, self._face = clock, face

    def mailbox(self) -> _Mailbox:
        return _Mailbox(self._clock.latch(self._face))

    def forked(self) -> None:
        memory.space(self.space).forked()


class _ThreadRuntime(BlockingRuntime):
    latch: Any

    def __init__(self, clock: TestClock) -> None:
        super().__init__()
        self.now = clock.now
        self.latch = lambda: clock.latch(_ThreadLatch)
        self.note = clock.note


class _TaskRuntime(AioRuntime):
    latch: Any

    def __init__(self, clock: TestClock) -> None:
        super().__init__()
        self.now = clock.now
        self.latch = lambda: clock.latch(_TaskLatch)
        self.note = clock.note


class Hold(sync.Hold):
    """A hold that the clock records, so that a leak is found."""

    __slots__ = ()

    def __init__(self, ctx: Any, lease: Lease, lock: Any = None) -> None:
        super().__init__(ctx, lease, lock)
        ctx.runtime.note(lease)


class AsyncHold(aio.AsyncHold):
    """A hold that the clock records, so that a leak is found."""

    __slots__ = ()

    def __init__(self, ctx: Any, lease: Lease, lock: Any = None) -> None:
        super().__init__(ctx, lease, lock)
        ctx.runtime.note(lease)


class Client(sync.Client):
    """A client that uses the clock."""

    __slots__ = ()

    def __init__(self, clock: TestClock, ttl: float, label: str) -> None:
        _begin(self, clock, _ThreadLatch, _ThreadRuntime(clock), Hold, ttl, label)
        fork.register(self._ctx)


class AsyncClient(aio.AsyncClient):
    """A client that uses the clock."""

    __slots__ = ("_clock",)

    def __init__(self, clock: TestClock, ttl: float, label: str) -> None:
        self._clock = clock
        _begin(self, clock, _TaskLatch, _TaskRuntime(clock), AsyncHold, ttl, label)
        self._loops = Loops(self._ctx, self._another)
        self._loops.ends = False
        fork.register(self._loops)

    def _another(self) -> Context:
        store = MemoryStore(_Port(self._clock, _TaskLatch))
        another = Context(store, _TaskRuntime(self._clock), self._ctx.naming, AsyncHold)
        another.source = self._source
        return another


def _begin(
    client: ClientBase,
    clock: TestClock,
    latch: type[Any],
    runtime: Any,
    hold_class: type[HoldBase],
    ttl: float,
    label: str,
) -> None:
    store = MemoryStore(_Port(clock, latch))
    ClientBase.__init__(client, store, runtime, hold_class, store.label, ttl, Owner(label))


def _check(end: float) -> None:
    if boottime() > end:
        raise RuntimeError(f"renewers or waiters did not act within {SETTLE_S:g} s")
