"""The contract. Read this file first: everything else is policy above it or a store below it.

A **store** keeps lines of claims and answers five verbs, two of them for several names at once,
too. A **runtime** gives time, identity and a way to wait. The core is written once, as
``async def``, over these two; blocking ports never suspend, so the sync face runs the same
coroutine to its end with one ``send(None)``.

Every verb is idempotent by the claim's id: sent twice, because the reply was lost, it changes
nothing the second time and gives the answer of the first. Every verb returns, or raises
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
    """The store answered a join: it grants nothing for about ``retry_in`` seconds more."""

    def __init__(self, message: str, retry_in: float) -> None:
        super().__init__(message)
        self.retry_in = retry_in


class DiskFailed(StoreUnavailable):
    """The store answered that its disk takes nothing: it is full, broken or read-only.

    Asking again changes nothing of that, so it is told at once, whatever time there is.
    """


class Unreached(StoreUnavailable):
    """No connection could be made, so nothing of this request was sent."""


class Undo(Protocol):
    """A request that gives something back, now or later: a `Leave`, or one about a queue."""

    @property
    def name(self) -> str:
        """What it is about, in a message."""
        ...

    @property
    def ttl(self) -> float:
        """Length of the lease that it releases, in seconds."""
        ...

    @property
    def suspect(self) -> bool:
        """May a copy of the request that it undoes be still under way?"""
        ...


class Store(Protocol):
    """Where lines are kept."""

    capabilities: Capabilities
    #: Seconds that a waiting claim lives without being kept. A dead waiter costs this much.
    patience: float
    #: The most claims in one ``keep``.
    keep_batch: int
    #: What people see in messages; never with a password.
    label: str
    #: Seconds between two looks at the store while holds are kept (see `changed`); ``inf``: none.
    watch_every: float
    #: No lease is longer. A longer ttl is kept as renewed leases of this length.
    lease_max: float

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Enter the line, atomically.

        With ``wait`` False only if it is held at once, else ``Refused``. The ticket is greater
        than every ticket that this name ever gave. A claim whose id is in the line already is
        not entered twice: the answer is its standing. An id with a tombstone is ``Gone``.
        Another kind or capacity than the line's is ``Mismatch``, a line of 10,000 waiters
        ``Full``. A grant by join carries the whole ttl. May also raise `NotYet`.
        """
        ...

    async def keep(self, keeps: Sequence[Keep], within: float) -> list[Standing | Exception]:
        """Renew a batch, at most ``keep_batch``; one answer per claim, in order.

        What is held lives ``ttl`` from now, what waits ``patience`` from now; what has expired
        is ``Gone`` and never comes back. A waiter whose turn it is becomes a holder here. May
        also shrink the weight, exchange the id or detach; a new id that a suspect ``leave`` has
        withdrawn is answered by ``Gone``, and nothing is changed. An error about one claim stands
        in its place and leaves the others alone. A ``Renewal`` comes again as the same object: the
        store may leave on it what it has prepared.
        """
        ...

    async def leave(self, leave: Leave, within: float) -> bool:
        """Withdraw or release, and wake exactly those who now fit; was the claim there?

        By id, or by ticket alone when ``id`` is empty (break). With ``after`` the claim stays
        that many seconds more and nobody can keep it. A wrong id changes nothing.
        """
        ...

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Let all of them in at once, atomically, if every line of theirs is empty; else None.

        At most ``keep_batch``, of different names. A line is empty if nobody holds or waits there,
        and no tombstone of this id is in force. None: no claim was left anywhere, and a join of
        each says more. It may be the answer wherever a store can't tell at once, or can't let them
        in together, so nobody who waits is ever overtaken. A copy that arrives when the first has
        let them in finds lines that aren't empty: None is the answer to *this* request only.
        """
        ...

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Many leaves together, each as if it were alone; one answer each, in order.

        At most ``keep_batch``, of different names. One round trip, and another one where somebody
        has to be served. An error about one stands in its place and leaves the others alone; one
        that is raised says nothing about any of them.
        """
        ...

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until woken or until ``seconds`` have passed; waking for nothing is allowed.

        ``Granted`` says that the one who left made this claim a holder; it never says for how
        long, and counts only if its fence is the ticket of ``waiting``: a wake-up for an earlier
        ticket of the same id is late. Losing a wake-up costs no more than ``seconds``.
        """
        ...

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """The lines whose name begins with ``prefix`` (or is it), sorted by name."""
        ...

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Change the capacity of a line that isn't empty; the former one, None if it is empty.

        Claims that come with the former capacity are still taken in, and follow the new one, so
        that a roll-out from 4 to 8 permits can pass through a fleet. Nobody who holds loses it.
        """
        ...

    async def changed(self, within: float) -> bool:
        """Since the last look, has the store lost what it had acknowledged, or may it have?

        If so, all that is held must be renewed at once: a store that ``watch_every`` is finite of
        grants nothing for a while, and puts back in a ``keep`` what it has forgotten.
        """
        ...

    def unlisten(self, claim: Claim) -> None:
        """The claim waits no more: free what its waiting used here. Never fails, never suspends."""
        ...

    async def close(self) -> None:
        """End the connection and this process's session; claims still held end with it."""
        ...

    def forked(self) -> None:
        """We are the child of a fork: believe nothing, touch nothing of the parent's."""
        ...


class Latch(Protocol):
    """Something to wait on that anybody may set, from any thread."""

    def set(self) -> None:
        """Wake the waiter, now or when it comes."""
        ...

    async def wait(self, seconds: float | None) -> bool:
        """Sleep until set (True, and it is unset again) or until the time has expired (False)."""
        ...


class Guard(Protocol):
    """Cancels the guarded task when its hold is lost, and knows afterwards that it did."""

    def lost(self, hold: object, reason: object) -> None:
        """The hold is lost: cancel the task that is inside."""
        ...

    def caused(self, failure: BaseException | None) -> bool:
        """The body has ended: was its end our doing? The cancellation is taken back if so."""
        ...


class Runtime(Protocol):
    """Time, identity and concurrency, as the core may use them."""

    def bind(self) -> None:
        """Called at the start of an acquire: refuse to serve a second event loop."""
        ...

    def forked(self) -> None:
        """We are the child of a fork: forget the parent's loop and tasks."""
        ...

    def now(self) -> float:
        """Seconds that never jump and continue while the machine sleeps (CLOCK_BOOTTIME)."""
        ...

    def new_id(self) -> str:
        """A new secret: 128 random bits as 32 hexadecimal digits."""
        ...

    def flow(self) -> Hashable:
        """Who is running: the thread object and, under asyncio, the task object. Not inherited."""
        ...

    def jitter(self) -> float:
        """A random number from 0 to 1, so that many clients don't move in step."""
        ...

    def epoch(self) -> int:
        """A number that changes in the child of a fork."""
        ...

    def interrupts(self, failure: BaseException) -> bool:
        """Does this come from outside (somebody cancels the task, or Ctrl-C), and not from the
        code in which it is raised?"""
        ...

    def hurried(self) -> bool:
        """May a timer end what waits here, such as that of ``asyncio.timeout``?"""
        ...

    def latch(self) -> Latch:
        """A new latch, for a waiter of this runtime."""
        ...

    def guard(self) -> Guard:
        """A guard over the current task; ``NotSupported`` where nothing can be cancelled."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        ...

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to its end what must not be left half done, whatever is cancelled meanwhile.

        The work is started at once, before anything else runs, and survives the caller's
        cancellation, a second one, and the end of the event loop's main task.
        """
        ...

    #: Can it await what a callback of the caller returns?
    awaits: bool

    def follow(self, made: object, what: str) -> None:
        """Have what a callback returned awaited, if it is a coroutine; what it raises is logged,
        as the failure of ``what``. ``ConfigError`` where nothing can be awaited."""
        ...

    def background(
        self, main: Callable[[], Coroutine[Any, Any, None]], over: Callable[[], None], name: str
    ) -> Callable[[], object]:
        """Start a thread or a task: the renewer, one per client, or a loop of a worker.

        ``over`` is called when it has ended, or was cancelled before it began. What comes back
        cancels it, where it can be cancelled.
        """
        ...
