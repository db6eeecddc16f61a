"""The contract. Read this file first: everything else is policy above it or a store below it.

A **store** keeps lines of claims. It has five verbs: join, keep, leave, wait and inspect. Join and
leave also exist for several names at once. A **runtime** gives time, identity and a way to wait.
The core uses only these two, and is written once, as ``async def``. Blocking ports never suspend,
so the sync face runs the same coroutine to its end with one ``send(None)``.

Every verb is idempotent by the claim's id: if it is sent twice, because the reply was lost, the
second request changes nothing and gets the answer of the first. Every verb returns, or raises
``StoreUnavailable``, within ``within`` seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, Protocol, TypeVar

from ..errors import StoreUnavailable
from .model import (
    Capabilities,
    Claim,
    Granted,
    Held,
    Joined,
    Keep,
    Leave,
    LineRecord,
    Mismatch,
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
    """The answer that the store's disk accepts no writes: it is full, broken or read-only.

    A repetition doesn't help. So the error is raised immediately, even if there is time left.
    """


class Unreached(StoreUnavailable):
    """No connection could be made, so no part of this request was sent."""


class Undo(Protocol):
    """A request that releases something, now or later: a `Leave`, or one about a queue or guard."""

    @property
    def name(self) -> str:
        """The name for a message."""
        ...

    @property
    def ttl(self) -> float:
        """Length of the lease that it releases, in seconds."""
        ...

    @property
    def suspect(self) -> bool:
        """May a copy of the request that it undoes still be under way?"""
        ...


class Store(Protocol):
    """The place that keeps the lines."""

    capabilities: Capabilities
    #: The waiter TTL in seconds: a dead waiter can delay others for this time.
    patience: float
    #: The maximum number of claims in one ``keep``.
    keep_batch: int
    #: The name of the store in messages; never with a password.
    label: str
    #: Seconds between two calls of `changed` while there are holds; ``inf``: it is never called.
    watch_every: float
    #: The longest lease. A longer ttl is kept as renewed leases of this length.
    lease_max: float

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Enter the line, atomically.

        With ``wait`` False the claim enters only if it is granted at once; otherwise the answer is
        ``Refused``. The ticket is greater than all earlier tickets of this name. If a claim with
        this id is in the line already, it does not enter twice: the answer is its standing. Other
        answers: ``Gone`` if the id has a tombstone, ``Mismatch`` if the line has another kind or
        capacity, ``Full`` if it has 10,000 waiters. A grant by join has the whole ttl. May also
        raise `NotYet`.
        """
        ...

    async def keep(self, keeps: Sequence[Keep], within: float) -> list[Standing | Exception]:
        """Renew a batch, at most ``keep_batch``; one answer per claim, in order.

        A held claim lives at least ``ttl`` from now, a waiting one ``patience`` from now. An
        expired claim is ``Gone``, and never comes back. A waiter that is next becomes a holder
        here. A keep can also shrink the weight, exchange the id, or detach. If a suspect ``leave``
        has withdrawn the new id, the answer is ``Gone``, and nothing changes. An error about one
        claim is the answer in its position, and doesn't affect the others. A ``Renewal`` is sent
        repeatedly as the same object: the store may attach prepared data to it.
        """
        ...

    async def leave(self, leave: Leave, within: float) -> bool:
        """Withdraw or release a claim; return if it was there.

        Wakes exactly the claims that now fit. By id, or by ticket alone when ``id`` is empty
        (break). With ``after``, a held claim stays for these seconds and can't be renewed. A wrong
        id changes nothing.
        """
        ...

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Grant all claims at once, atomically, if each of their lines is empty; otherwise None.

        At most ``keep_batch``, of different names. A line counts as empty if it has no holder, no
        waiter, and no tombstone for the id of this claim. So no waiter is ever overtaken. After
        None, none of the claims is in a line; a separate join of each gives the details. None is
        also allowed if the store can't decide at once, or can't grant the claims together. None
        answers *this* request only: a late copy of a request that was granted gets None too, as its
        lines are no longer empty.
        """
        ...

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Send several leaves together; one answer for each, in order.

        Each has the effect that it would have alone. At most ``keep_batch``, of different names. It
        takes one round trip, and another one if waiters must be granted. An error about one leave
        is the answer in its position, and doesn't affect the others. If an error is raised, the
        result of every leave is unknown.
        """
        ...

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until woken or until ``seconds`` have passed; waking without a reason is allowed.

        ``Granted``: a release made this claim a holder. It doesn't say how long the lease is. It
        counts only if its fence is the ticket of ``waiting``; otherwise it is a late wake-up for an
        earlier ticket of the same id. A lost wake-up costs at most ``seconds``.
        """
        ...

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """Return the lines whose name begins with ``prefix`` (``exact``: equals it), sorted by
        name."""
        ...

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Change the capacity of a line that isn't empty; return the old one, None if it is empty.

        Claims with the old capacity are still accepted, and are granted by the new one. So clients
        can be changed from 4 to 8 permits one after the other. No holder loses its hold.
        """
        ...

    async def changed(self, within: float) -> bool:
        """True if the store has, or can have, lost acknowledged data since the last call.

        If so, all holds must be renewed immediately: a store with a finite ``watch_every`` grants
        nothing for a while, and a ``keep`` restores the claims that it has lost.
        """
        ...

    def unlisten(self, claim: Claim) -> None:
        """End the waiting of a claim: free its resources here. Never fails, never suspends."""
        ...

    async def close(self) -> None:
        """End the connection and this process's session; claims still held end with it."""
        ...

    def forked(self) -> None:
        """Reset in the child of a fork, without using or changing anything of the parent."""
        ...


class Latch(Protocol):
    """An object to wait on that any thread may set."""

    def set(self) -> None:
        """Wake the waiter, now or when it begins to wait."""
        ...

    async def wait(self, seconds: float | None) -> bool:
        """Sleep until set (True, and it is unset again) or until the time has expired (False)."""
        ...


class Guard(Protocol):
    """Cancels one task when its hold is lost; distinguishes this cancellation from others."""

    def lost(self, hold: object, reason: object) -> None:
        """Cancel the task, because its hold is lost."""
        ...

    def caused(self, failure: BaseException | None) -> bool:
        """Return if only this guard ended the body. Called at the end of the body: the cancellation
        by this guard, if any, is withdrawn."""
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
        """Does this come from outside (a cancellation of the task, or Ctrl-C)?

        If not, it comes from the code in which it is raised.
        """
        ...

    def hurried(self) -> bool:
        """May a timer, such as that of ``asyncio.timeout``, end the wait of the current task?"""
        ...

    def latch(self) -> Latch:
        """Return a new latch, for a waiter of this runtime."""
        ...

    def guard(self) -> Guard:
        """Return a guard of the current task; ``NotSupported`` if tasks can't be cancelled."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep for this time."""
        ...

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` to its end, even if the caller is cancelled meanwhile.

        The work starts immediately, before anything else runs. It survives the caller's
        cancellation, a second one, and the end of the event loop's main task.
        """
        ...

    #: Can it await the result of a callback?
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
