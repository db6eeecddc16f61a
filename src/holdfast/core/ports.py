"""The contract. Read this file first: everything else is policy above it or a store below it.

A **store** keeps lines of claims and answers five verbs; two of them also exist for several names
at once. A **runtime** gives time, identity and a way to wait. The core is written once, as ``async
def``, over these two; blocking ports never suspend, so the sync face runs the same coroutine to its
end with one ``send(None)``.

Every verb is idempotent by the claim's id: if it is sent twice, because the reply was lost, the
second one changes nothing and gives the answer of the first. Every verb returns, or raises
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

    Asking again doesn't help, so it is raised immediately, whatever time is left.
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
    #: Seconds between two calls of `changed` while holds are kept; ``inf``: none.
    watch_every: float
    #: The longest lease. A longer ttl is kept as renewed leases of this length.
    lease_max: float

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Enter the line, atomically.

        With ``wait`` False it enters only if it is held at once, else ``Refused``. The ticket is
        greater than every ticket that this name ever gave. A claim whose id is in the line already
        is not entered twice: the answer is its standing. An id with a tombstone is ``Gone``.
        Another kind or capacity than the line's is ``Mismatch``, a line of 10,000 waiters
        ``Full``. A grant by join has the whole ttl. May also raise `NotYet`.
        """
        ...

    async def keep(self, keeps: Sequence[Keep], within: float) -> list[Standing | Exception]:
        """Renew a batch, at most ``keep_batch``; one answer per claim, in order.

        A held claim lives ``ttl`` from now, a waiting one ``patience`` from now; an expired one is
        ``Gone`` and never comes back. A waiter that is next becomes a holder here. May also shrink
        the weight, exchange the id or detach; a new id that a suspect ``leave`` has withdrawn is
        answered by ``Gone``, and nothing is changed. An error about one claim is the answer in its
        position, and doesn't affect the others. A ``Renewal`` comes again as the same object: the
        store may attach prepared data to it.
        """
        ...

    async def leave(self, leave: Leave, within: float) -> bool:
        """Withdraw or release, and wake exactly the claims that now fit; was the claim there?

        By id, or by ticket alone when ``id`` is empty (break). With ``after`` the claim stays
        that many seconds more and can't be renewed. A wrong id changes nothing.
        """
        ...

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Grant all of them at once, atomically, if each of their lines is empty; else None.

        At most ``keep_batch``, of different names. A line is empty if it has no holder or waiter,
        and no tombstone of this id is in force. None: no claim was left in any line, and a join of
        each gives the details. None is also allowed if a store can't decide at once, or can't grant
        them together, so no waiter is ever overtaken. A copy that arrives after the first was
        granted finds lines that aren't empty: None is the answer to *this* request only.
        """
        ...

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Send many leaves together, each as if it were alone; one answer each, in order.

        At most ``keep_batch``, of different names. One round trip, and another one if waiters have
        to be granted. An error about one leave is the answer in its position, and doesn't affect
        the others; after an error that is raised, the result of all of them is unknown.
        """
        ...

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until woken or until ``seconds`` have passed; waking without a reason is allowed.

        ``Granted``: a release made this claim a holder. It gives no length of a lease, and counts
        only if its fence is the ticket of ``waiting``: a wake-up for an earlier ticket of the same
        id is late. A lost wake-up costs at most ``seconds``.
        """
        ...

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """Return the lines whose name begins with ``prefix`` (or is it), sorted by name."""
        ...

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Change the capacity of a line that isn't empty; return the old one, None if it is empty.

        Claims with the old capacity are still accepted, and follow the new one, so that a roll-out
        from 4 to 8 permits can pass through a fleet. No holder loses its hold.
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
        """Reset in the child of a fork: use and change nothing of the parent's."""
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
    """Cancels the guarded task when its hold is lost, and knows afterwards that it did."""

    def lost(self, hold: object, reason: object) -> None:
        """Cancel the task that is inside, as the hold is lost."""
        ...

    def caused(self, failure: BaseException | None) -> bool:
        """The body has ended: did this guard cause it? If so, the cancellation is withdrawn."""
        ...


class Runtime(Protocol):
    """Time, identity and concurrency, as the core may use them."""

    def bind(self) -> None:
        """Bind to the event loop at the start of an acquire: refuse to serve a second one."""
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
        """Return the running thread object and, under asyncio, task object; never inherited."""
        ...

    def jitter(self) -> float:
        """Return a random number from 0 to 1, so that many clients don't move in step."""
        ...

    def epoch(self) -> int:
        """Return a number that changes in the child of a fork."""
        ...

    def interrupts(self, failure: BaseException) -> bool:
        """Does this come from outside (a cancellation of the task, or Ctrl-C)?

        Else it comes from the code in which it is raised.
        """
        ...

    def hurried(self) -> bool:
        """May a timer, such as that of ``asyncio.timeout``, end the wait of the current task?"""
        ...

    def latch(self) -> Latch:
        """Return a new latch, for a waiter of this runtime."""
        ...

    def guard(self) -> Guard:
        """Return a guard over the current task; ``NotSupported`` if tasks can't be cancelled."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep for this time."""
        ...

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work to its end that must not be left half done, even if the caller is cancelled.

        The work starts immediately, before anything else runs. It survives the caller's
        cancellation, a second one, and the end of the event loop's main task.
        """
        ...

    #: Can it await the result of a callback?
    awaits: bool

    def follow(self, made: object, what: str) -> None:
        """Have the result of a callback awaited, if it is a coroutine.

        Its exception is logged, as the failure of ``what``. ``ConfigError`` if coroutines can't be
        awaited.
        """
        ...

    def background(
        self, main: Callable[[], Coroutine[Any, Any, None]], over: Callable[[], None], name: str
    ) -> Callable[[], object]:
        """Start a thread or a task: the renewer, one per client, or a loop of a worker.

        ``over`` is called when it has ended, or was cancelled before it began. The result cancels
        it, if it can be cancelled.
        """
        ...
