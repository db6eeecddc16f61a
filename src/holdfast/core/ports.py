"""The contract. Read this file first: everything else is policy above it or a store below it.

A **store** keeps, for each name, a line of claims: the holders and the waiters. A claim enters the
line by ``join`` and leaves it by ``leave``. A holder renews its lease by ``renew``, and a waiter
asks by ``turn``. Join and leave also exist for several names at once. A **runtime** gives time,
identity and a way to wait. The core uses only stores and runtimes. The core is written once, as
``async def``: a blocking store or runtime never suspends, so the API for threads runs each
coroutine to its end with one ``send(None)``.

Every verb is idempotent by the claim's id: if it is sent twice, because the reply was lost, the
second request changes nothing and gets the answer of the first. Every verb returns, or raises
``StoreUnavailable``, within ``within`` seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, Protocol, TypeVar

from ..errors import NotSupported, StoreUnavailable
from .model import (
    Capabilities,
    Change,
    Claim,
    Granted,
    Held,
    Joined,
    Leave,
    LineRecord,
    Mismatch,
    Renewal,
    Standing,
    Waiting,
)

T = TypeVar("T")


class NotYet(StoreUnavailable):
    """The answer to a join while the store grants nothing for about ``retry_in`` more seconds."""

    def __init__(self, message: str, retry_in: float) -> None:
        super().__init__(message)
        self.retry_in = retry_in


class DiskFailed(StoreUnavailable):
    """The store's disk accepts no writes: it is full, broken or read-only.

    A repeated request would fail as well. So this error is raised before the time-out.
    """


class Unreached(StoreUnavailable):
    """No connection could be made, so no part of this request was sent."""


class Undo(Protocol):
    """A request that releases a lease, now or later: of a hold (`Leave`), delivery or refresh."""

    @property
    def name(self) -> str:
        """The name of the lock, queue or guard, for messages."""
        ...

    @property
    def ttl(self) -> float:
        """Length of the lease that this request releases, in seconds."""
        ...

    @property
    def suspect(self) -> bool:
        """True if a copy of the request that is undone can still arrive at the store."""
        ...


class Store(Protocol):
    """The system that keeps the lines of claims."""

    capabilities: Capabilities
    #: The waiter TTL in seconds: a dead waiter can delay others for this time.
    patience: float
    #: The maximum number of claims in one request.
    batch_max: int
    #: The name of the store in messages; never with a password.
    label: str
    #: Seconds between two calls of `changed` while there are holds; ``inf``: it is never called.
    watch_every: float
    #: Maximum seconds of a lease. A hold with a longer ttl renews leases of this length.
    lease_max: float

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Enter the line of claims, atomically.

        With ``wait`` False, the claim enters only if it is granted at once; otherwise the answer is
        ``Refused``. The ticket is greater than all earlier tickets of this name. If the line
        already contains a claim with this id, the answer is the standing of that claim. Other
        answers: ``Gone`` if the id has a tombstone, ``Mismatch`` if the line has another kind or
        capacity, ``Full`` if it has 10,000 waiters. A lease granted by a join has the whole ttl.
        A join can also raise `NotYet`.
        """
        ...

    async def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        """Renew held claims, at most ``batch_max``; return one answer per claim, in order.

        A claim then lasts at least ``ttl`` seconds from now. An expired claim is ``Gone``, and
        never comes back. A store that has lost data may restore a claim, because the sender
        believes that it holds the claim. A renewal can also reduce the weight. It never grants: a
        claim that waits is not changed, and the answer is ``Waiting`` or ``Gone``. An error about
        one claim is the answer in its position, and doesn't affect the others. A ``Renewal`` is
        sent repeatedly as the same object: the store may attach prepared data to it.
        """
        ...

    async def turn(self, claim: Claim, ticket: int, within: float) -> Standing:
        """Ask for a claim that waits; if it is next, grant it.

        A claim that still waits keeps its place for ``patience`` seconds. A claim that is granted
        now, or was granted before, lasts for its whole ttl from now. Only `join` and `turn` grant
        the claim of their sender. An expired claim is ``Gone``. The answer is the same in each
        process that knows the id, if the claims of this store survive their process.
        """
        ...

    async def change(self, change: Change, within: float) -> Standing:
        """Renew a held claim as `renew` does, and change its id or its owner in the same step.

        A claim that isn't held is ``Gone``, and is never restored. If a suspect ``leave`` has
        withdrawn the new id, the answer is ``Gone``, and nothing changes. If the request is
        repeated, the claim already has the new id, and is renewed. Only stores with the capability
        ``detach`` have this verb; see `NoHandover`.
        """
        ...

    async def leave(self, leave: Leave, within: float) -> bool:
        """Withdraw or release a claim; return True if it was there.

        Wake exactly the claims that now fit. The id alone names the claim. A wrong id changes
        nothing; an empty id is wrong as well, or an error. With ``after``, a held claim stays for
        these seconds and can't be renewed.
        """
        ...

    async def break_(self, name: str, ticket: int, within: float) -> bool:
        """End the claim with this ticket, held or waiting, of any owner; return True if it was
        there.

        Wake exactly the claims that now fit. The claim's id gets a tombstone (``Loss.BROKEN``),
        which lasts longer than the claim's ttl. No ticket is given twice. So a second break, or a
        late copy of the first, changes nothing and returns False.
        """
        ...

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Grant all claims at once, atomically, if each of their lines is empty; otherwise None.

        There are at most ``batch_max`` claims, of different names. A line counts as empty if it
        has no holder, no waiter, and no tombstone for the id of this claim. So no waiter is ever
        overtaken. After None, this request has put no claim in a line; a separate join of each
        claim gives the details. The store may also return None if it can't decide at once, or
        can't grant the claims together. None describes *this* request only: a late copy of a
        granted request gets None, too, because its lines are no longer empty.
        """
        ...

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Send several leaves together; one answer for each, in order.

        Each leave has the effect that it would have alone. There are at most ``batch_max`` leaves,
        of different names. The leaves take one round trip, and a second one if waiters must be
        granted. An error about one leave is the answer in its position, and doesn't affect the
        others. If the call raises an error, the result of every leave is unknown.
        """
        ...

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until woken or until ``seconds`` have passed; waking without a reason is allowed.

        ``Granted``: a release made this claim a holder. The length of the lease is not part of it.
        The grant counts only if its fence is the ticket of ``waiting``; otherwise the grant is a
        late wake-up for an earlier ticket of the same id. A lost wake-up costs at most ``seconds``.
        """
        ...

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """Return the lines whose name begins with ``prefix`` (``exact``: equals it), sorted by
        name."""
        ...

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Change the capacity of a line that isn't empty; return the old capacity, or None if the
        line is empty.

        The store still accepts claims with the old capacity, and grants them by the new one. So
        clients can be changed from 4 to 8 permits one after the other. No holder loses its hold.
        """
        ...

    async def changed(self, within: float) -> bool:
        """True if the store has, or can have, lost acknowledged data since the last call.

        If so, all holds must be renewed immediately: a store with a finite ``watch_every`` grants
        nothing for a while, and a ``renew`` restores the claims that it has lost.
        """
        ...

    def unlisten(self, claim: Claim) -> None:
        """End the waiting of a claim: free its resources here. Never fails, never suspends."""
        ...

    async def close(self) -> None:
        """End the connection and this process's session; claims that are still held end with this
        session."""
        ...

    def forked(self) -> None:
        """Reset in the child of a fork, without using or changing anything of the parent."""
        ...


class NoHandover:
    """The verb `Store.change` of a store whose claims can't be passed to another process."""

    label: str

    async def change(self, change: Change, within: float) -> Standing:
        """Raise ``NotSupported``."""
        raise NotSupported(f"{self.label} can't hand over a hold")


class Latch(Protocol):
    """An object to wait on that any thread may set."""

    def set(self) -> None:
        """Wake the waiter, now or when it begins to wait."""
        ...

    async def wait(self, seconds: float | None) -> bool:
        """Sleep until set (True; the latch is then unset) or until the time has expired (False)."""
        ...


class CancelScope(Protocol):
    """Cancels one task when its hold is lost; distinguishes this cancellation from others."""

    def lost(self, hold: object, reason: object) -> None:
        """Cancel the task, because its hold is lost."""
        ...

    def caused(self, failure: BaseException | None) -> bool:
        """Return True if ``failure`` comes only from this object. Call it once, at the end of the
        task's body: it also withdraws the cancellation by this object, if there was one."""
        ...


class Runtime(Protocol):
    """Time, identity and concurrency, as the core may use them."""

    def bind(self) -> None:
        """Bind to the running event loop, at the start of an acquire; refuse a second loop."""
        ...

    def forked(self) -> None:
        """Reset in the child of a fork: forget the parent's loop and tasks."""
        ...

    def now(self) -> float:
        """Return seconds that never jump and continue while the machine sleeps (CLOCK_BOOTTIME)."""
        ...

    def new_id(self) -> str:
        """Return a new secret: 128 random bits as 32 hexadecimal digits."""
        ...

    def flow(self) -> Hashable:
        """Return an object for the running thread or asyncio task; a new task gets another one."""
        ...

    def jitter(self) -> float:
        """Return a random number from 0 to 1, so that clients don't all act at the same time."""
        ...

    def epoch(self) -> int:
        """Return a number that changes in the child of a fork."""
        ...

    def interrupts(self, failure: BaseException) -> bool:
        """Return True if this exception comes from outside: a cancellation of the task, or Ctrl-C.

        Return False if the code that runs in the task has raised it.
        """
        ...

    def hurried(self) -> bool:
        """Return True if a timer, such as that of ``asyncio.timeout``, can end the wait of the
        current task."""
        ...

    def latch(self) -> Latch:
        """Return a new latch, for a waiter of this runtime."""
        ...

    def cancel_scope(self) -> CancelScope:
        """Return one for the current task; ``NotSupported`` if tasks can't be cancelled."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep for this time."""
        ...

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` to its end, even if the caller is cancelled before that.

        The work starts immediately, before anything else runs. It survives the caller's
        cancellation, a second one, and the end of the event loop's main task.
        """
        ...

    #: True if this runtime can await the result of a callback.
    awaits: bool

    def follow(self, made: object, what: str) -> None:
        """Await the result of a callback in the background, if it is a coroutine.

        Its exception is logged, as the failure of ``what``. ``ConfigError`` if coroutines can't be
        awaited.
        """
        ...

    def background(
        self, main: Callable[[], Coroutine[Any, Any, None]], over: Callable[[], None], name: str
    ) -> Callable[[], object]:
        """Start a thread or a task: the renewer, one per client, or a loop of a worker.

        ``over`` is called when the thread or task has ended, or was cancelled before it began. Call
        the result to cancel the task; a thread can't be cancelled.
        """
        ...
