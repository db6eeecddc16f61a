"""The state that all parts of one client share: store, runtime, renewer, and open holds.

One context per client. In the child of a fork it starts afresh: the epoch moves, so that every
hold of the parent is seen as lost, the renewer and the registry are new, the store lets go.
"""

from __future__ import annotations

import contextlib
import logging
import math
import sys
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from ..errors import NotHeld, StoreUnavailable
from .closing import Closing
from .hold import HoldBase
from .keeper import Keeper
from .lease import Lease
from .model import Leave, Spec
from .policy import REQUEST_S, REQUEST_S_MIN, UNDO_S, back_off
from .ports import DiskFailed, Runtime, Store, Undo
from .undos import replaces

if TYPE_CHECKING:
    from .guard.commons import Commons

log = logging.getLogger("holdfast")

T = TypeVar("T")


class _Nowhere:
    """The place of a context that was not used yet, or whose face has no places."""

    _thread_id: int | None = None


NOWHERE: Any = _Nowhere()

#: All contexts of this process.
_all: WeakSet[Context] = WeakSet()

#: Who is inside what: name, kind, and the thread or task.
Flow = tuple[str, str, Hashable]


class Flows:
    """Which thread or task is inside which name: for reentrant locks and nested reads.

    Counted here, so re-entry costs no round trip. The key holds the thread object and the task
    object themselves, so a child thread, task or fork never inherits anything.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        #: Weakly, so that a forgotten hold is collected here too.
        self._inside: WeakValueDictionary[Flow, HoldBase] = WeakValueDictionary()

    def find(self, spec: Spec) -> HoldBase | None:
        """The hold on this name, as what it is wanted, that the current thread or task is in."""
        return self._inside.get((spec.name, spec.kind, self._runtime.flow()))

    def enter(self, hold: HoldBase, strict: bool) -> None:
        """The current thread or task is inside this hold now; ``strict``: only it may leave."""
        hold._flow, hold._strict = self._runtime.flow(), strict
        self._inside[_flow(hold)] = hold

    def let_go(self, hold: HoldBase) -> bool:
        """Count one level down; True if it was the outermost one."""
        if self._inside.get(_flow(hold)) is not hold:
            return True
        if hold._strict and hold._flow != self._runtime.flow():
            raise NotHeld(
                f"{hold.name!r} is reentrant and held by another thread or task; "
                "only that one can release it"
            )
        hold._count -= 1
        if hold._count > 0:
            return False
        self.forget(hold)
        return True

    def forget(self, hold: HoldBase) -> None:
        """Nobody is inside this hold any more."""
        if self._inside.get(_flow(hold)) is hold:
            del self._inside[_flow(hold)]


def _flow(hold: HoldBase) -> Flow:
    return hold.name, hold._lease.claim.spec.kind, hold._flow


class Owner(Protocol):
    """Says who we are, ``host:pid:label``; called again after a fork."""

    label: str

    def __call__(self) -> str:
        """The owner, for this process."""
        ...


class Context:
    """The shared parts of one client."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        owner: Owner,
        hold_class: type[HoldBase],
    ) -> None:
        self.store = store
        self.runtime = runtime
        self.now = runtime.now
        self.hold_class = hold_class
        self.naming = owner
        self.label = owner.label
        #: What names the store: a URL, or a client of its driver.
        self.source: object = None
        self.orphans: deque[Lease] = deque()
        self.closed = False
        #: Closed to the end, connections included?
        self.ended = False
        #: Set by a face whose parts belong to a place each, such as an event loop: the place, all
        #: contexts of the client, what ends this one with its place, and objects of other places.
        self.place: object = NOWHERE
        #: Its `_thread_id` is that of the thread in which the place is at work just now.
        self.runs: Any = NOWHERE
        self.home: Any = None
        self.ending: Any = None
        self.twins: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self.begin()
        _all.add(self)

    def begin(self) -> None:
        """Start, or start afresh in the child of a fork."""
        self.epoch = self.runtime.epoch()
        self.owner = self.naming()
        self.keeper = Keeper(self)
        self.flows = Flows(self.runtime)
        self.closing = Closing(self)
        #: What guards of one name share; those with numbers to tell; when that was done last.
        self.commons: WeakValueDictionary[tuple[str, int], Commons] = WeakValueDictionary()
        self.untold: dict[Commons, None] = {}
        self.told = self.now()
        #: When the store was asked last who holds what is waited for.
        self.looked = -math.inf
        #: The holds that the renewer doesn't renew, so that closing finds them too.
        self.unrenewed: WeakSet[HoldBase] = WeakSet()
        #: Requests that aren't answered yet and may have got something, each with its undos. Only
        #: the close can send these, because it ends the connections.
        self.under_way: dict[object, Callable[[], Iterable[Undo]]] = {}
        #: Requests that settle deliveries and aren't answered: a close waits for them.
        self.settling: set[object] = set()
        self.orphans.clear()

    def others(self) -> list[Context]:
        """The contexts of this process at the same store, this one among them."""
        while True:
            try:
                return [one for one in _all if one.source == self.source]
            except RuntimeError:
                continue  # another thread makes a client

    def leases(self) -> set[Lease]:
        """The leases of what is held, on loan, or computed here, of some that has ended as well."""
        while True:
            try:
                unrenewed = {hold._lease for hold in self.unrenewed}
                return unrenewed.union(self.keeper._asked, self.keeper._schedule)
            except RuntimeError:
                continue  # another thread takes or releases one

    async def close(self) -> None:
        """Release what is held, and end the connection; see ``closing``."""
        await self.closing.run()

    def forked(self) -> None:
        """Called in the child of a fork, before anything else runs there."""
        self.store.forked()
        self.runtime.forked()
        self.begin()

    def drain_orphans(self) -> None:
        """Warn of the holds that were forgotten since the last time; the renewer has no use for
        their leases, which would keep it and this client until their next renewal was due.

        Where warnings are errors the log alone says it: whoever comes by here, the renewer or the
        acquire of another name, must not fail for it.
        """
        while self.orphans:
            with contextlib.suppress(IndexError, Warning):
                lease = self.orphans.popleft()
                self.keeper.drop(lease)
                _warn_orphan(lease, self.fence_of(lease, " (fence {})"))

    def all_unrenewed(self) -> list[HoldBase]:
        """The holds that nobody renews, though other threads make some meanwhile."""
        while True:
            try:
                return list(self.unrenewed)
            except RuntimeError:
                continue

    def fence_of(self, lease: Lease, words: str) -> str:
        """These words with the fence of a lease; nothing on a store that gives none."""
        return words.format(lease.fence) if self.store.capabilities.fences else ""

    async def insist(
        self, call: Callable[[float], Awaitable[T]], until: float, attempt: int = 0
    ) -> tuple[T, bool]:
        """Ask the store until it answers or the time has expired; also says if it took more than
        one attempt. Safe because every verb is idempotent by the claim's id."""
        while True:
            within = min(REQUEST_S, max(until - self.now(), 0.05))
            try:
                return await call(within), attempt > 0
            except StoreUnavailable as failure:
                attempt += 1
                await self._pause(attempt, until, failure)
                self.require_open()

    async def _pause(self, attempt: int, until: float, failure: StoreUnavailable) -> None:
        """Sleep before the next attempt; raise the failure if there is no time for one, or no use
        in it."""
        if isinstance(failure, DiskFailed):
            raise failure
        pause = back_off(attempt, self.runtime.jitter(), 1.0)
        if self.now() + pause >= until:
            raise failure
        await self.runtime.sleep(pause)

    async def leave_again(
        self, leave: Leave, deadline: float, until: float, failure: BaseException
    ) -> bool:
        """Give a held claim back by ``until``, though the first leave failed: was it there?

        A repeated leave whose first reply was lost finds nothing; before our deadline that means
        that the first one did it. Whatever interrupts us, the claim is withdrawn.
        """
        try:
            if not isinstance(failure, StoreUnavailable):
                raise failure
            await self._pause(1, until, failure)
            there, _ = await self.insist(lambda w: self.store.leave(leave, w), until, attempt=1)
        except StoreUnavailable:
            self.keeper.later(leave, deadline + leave.ttl)
            raise
        except GeneratorExit:  # the coroutine is being closed: nothing may be awaited
            self.keeper.later(leave, deadline + leave.ttl)
            raise
        except BaseException:
            await self.undo(leave)
            raise
        finally:
            del failure  # it would keep itself, and what was lent to the caller that raised it
        return there or self.now() < deadline

    async def undo(self, undo: Undo, until: float = math.inf) -> None:
        """Withdraw an abandoned claim while an exception is on its way.

        A failure of this replaces nothing. A cancellation or Ctrl-C that comes meanwhile replaces
        an exception of another kind: nobody who cancels may be told of a store in its place.
        """
        ends = not isinstance(sys.exception(), Exception)
        try:
            await self.put_back(undo, until)
        except BaseException as late:
            if replaces(late, ends):
                raise

    async def put_back(self, undo: Undo, until: float = math.inf, longest: float = UNDO_S) -> None:
        """Withdraw what nobody wants; the renewer continues with it if the store doesn't answer at
        once, or by ``until``, or if we are interrupted."""
        within = max(REQUEST_S_MIN, min(longest, until - self.now()))
        self.under_way[undo] = lambda: (undo,)
        try:
            await self.runtime.finish(self.withdraw(undo, within))
        except BaseException as failure:
            self.keeper.later(undo, self.now() + undo.ttl)
            if not isinstance(failure, Exception):
                raise
        finally:
            self.under_way.pop(undo, None)

    async def withdraw(self, undo: Undo, within: float) -> None:
        """Carry out an undo."""
        if isinstance(undo, Leave):
            await self.store.leave(undo, within)
            return
        from .guard import lease as duties  # because few programs have guards or queues
        from .guard.model import Abandon
        from .queue import lease as loans

        if isinstance(undo, Abandon):
            await duties.withdraw(self.store, undo, within)
        else:
            await loans.withdraw(self.store, undo, within)

    async def prolong(self, leases: Sequence[Lease], within: float) -> Sequence[object]:
        """Renew leases of one kind, of holds, deliveries or refresh leases; an answer each."""
        now = self.now()
        if leases[0].kind == "duty":
            from .guard import lease as duties

            return await duties.prolong(self.store, leases, within)
        if leases[0].kind == "delivery":
            from .queue import lease as loans

            return await loans.prolong(self.store, leases, now, within)
        return await self.store.keep([lease.keep(now) for lease in leases], within)

    def require_open(self) -> None:
        """Refuse to work for a client that was closed."""
        if self.closed:
            raise StoreUnavailable(f"the client of {self.store.label} is closed; make a new one")

    def summary(self) -> dict[str, Any]:
        """Numbers for tests and for people: what this client keeps."""
        return {"kept": self.keeper.pending(), "epoch": self.epoch}


def _warn_orphan(lease: Lease, fence: str) -> None:
    """A hold was forgotten: say so. It is renewed no more and will expire."""
    text = lease.forgotten.format(f"{lease.name!r}{fence}")
    log.warning("%s", text)
    warnings.warn(text, ResourceWarning, stacklevel=2)
