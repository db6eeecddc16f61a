"""The state that all parts of one client share: store, runtime, renewer, and open holds.

There is one `Context` per client; an asyncio client has one for each event loop. In the child of a
fork it starts again: the epoch changes, so every hold of the parent counts as lost; the renewer and
the records are new; the store drops its connections.
"""

from __future__ import annotations

import contextlib
import logging
import math
import sys
import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from ..errors import NotHeld, StoreUnavailable
from .closing import Closing
from .hold import HoldBase
from .keeper import Keeper
from .lease import Lease
from .model import Leave, Spec
from .policy import REQUEST_S_MIN, UNDO_S
from .ports import Runtime, Store, Undo
from .undos import replaces

if TYPE_CHECKING:
    from .guard.commons import Commons

log = logging.getLogger("holdfast")


class _Nowhere:
    """The place of a context that was not used yet, or that is for threads; see `Context`."""

    _thread_id: int | None = None


NOWHERE: Any = _Nowhere()

#: All contexts of this process.
_all: WeakSet[Context] = WeakSet()

#: The key of an entered hold: the name, the kind, and the thread or task that entered.
Flow = tuple[str, str, Hashable]


class Flows:
    """The holds that each thread or task has entered: for reentrant locks and nested reads.

    The entries are counted here, so a reentry costs no round trip. The key contains the thread or
    task object itself, so a child thread, task or fork never inherits an entry.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        #: Weak references, so that a forgotten hold is garbage-collected.
        self._inside: WeakValueDictionary[Flow, HoldBase] = WeakValueDictionary()

    def find(self, spec: Spec) -> HoldBase | None:
        """Return the hold on this name and kind that the current thread or task has entered."""
        return self._inside.get((spec.name, spec.kind, self._runtime.flow()))

    def enter(self, hold: HoldBase, strict: bool) -> None:
        """Let the current thread or task enter a hold; ``strict``: no other may leave the hold."""
        hold._flow, hold._strict = self._runtime.flow(), strict
        self._inside[_flow(hold)] = hold

    def let_go(self, hold: HoldBase) -> bool:
        """Count one level down; return True if this level was the outermost one."""
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
        """Forget that a thread or task has entered this hold."""
        if self._inside.get(_flow(hold)) is hold:
            del self._inside[_flow(hold)]


def _flow(hold: HoldBase) -> Flow:
    return hold.name, hold._lease.claim.spec.kind, hold._flow


class Owner(Protocol):
    """Makes the owner text of this process, ``host:pid:label``; called again after a fork."""

    label: str

    def __call__(self) -> str:
        """Return the owner for this process."""
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
        #: The URL of the store, or a client object of its driver.
        self.source: object = None
        self.orphans: deque[Lease] = deque()
        self.closed = False
        #: True if the client is closed completely, with its connections.
        self.ended = False
        #: The event loop (or other place) of this context, if the client has one context per place.
        self.place: object = NOWHERE
        #: An object with the `_thread_id` of the thread in which the event loop runs now.
        self.runs: Any = NOWHERE
        #: All contexts of the client, by event loop.
        self.home: Any = None
        #: Ends this context when its event loop ends.
        self.ending: Any = None
        #: Locks and other objects that were made in another event loop, each with its twin: the
        #: same object for this loop.
        self.twins: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self.begin()
        _all.add(self)

    def begin(self) -> None:
        """Start, or start again in the child of a fork."""
        self.epoch = self.runtime.epoch()
        self.owner = self.naming()
        self.keeper = Keeper(self)
        self.flows = Flows(self.runtime)
        self.closing = Closing(self)
        #: The state that all guards of one name share.
        self.commons: WeakValueDictionary[tuple[str, int], Commons] = WeakValueDictionary()
        #: The shared states with counts that were not sent yet, and the time of the last sending.
        self.untold: dict[Commons, None] = {}
        self.told = self.now()
        #: The time of the last request for the holder of a name. A waiter logs this holder.
        self.looked = -math.inf
        #: The holds that the renewer doesn't renew: the close releases them, too.
        self.unrenewed: WeakSet[HoldBase] = WeakSet()
        #: Unanswered requests that can have acquired something, each with its undos. A close sends
        #: the undos: it ends the connections on which the answers to the requests would arrive.
        self.under_way: dict[object, Callable[[], Iterable[Undo]]] = {}
        #: Unanswered requests that settle deliveries: a close waits for them.
        self.settling: set[object] = set()
        self.orphans.clear()

    def others(self) -> list[Context]:
        """Return the contexts of this process with the same store, including this context."""
        while True:
            try:
                return [one for one in _all if one.source == self.source]
            except RuntimeError:
                continue  # another thread makes a client

    def leases(self) -> set[Lease]:
        """Return all leases of this context (holds, deliveries, refreshes); some can have ended."""
        while True:
            try:
                unrenewed = {hold._lease for hold in self.unrenewed}
                return unrenewed.union(self.keeper._asked, self.keeper._schedule)
            except RuntimeError:
                continue  # another thread takes or releases one

    async def close(self) -> None:
        """Release all holds, and end the connections; see ``closing``."""
        await self.closing.run()

    def forked(self) -> None:
        """Clean up in the child of a fork, before anything else runs there."""
        self.store.forked()
        self.runtime.forked()
        self.begin()

    def drain_orphans(self) -> None:
        """Warn of the holds that were forgotten since the last call, and drop their leases.

        The renewer would keep a lease, and with it this client, until its next renewal is due.
        If warnings are errors, only the log reports the forgotten hold: the caller (the renewer, or
        an acquire of another name) must not fail because of it.
        """
        while self.orphans:
            with contextlib.suppress(IndexError, Warning):
                lease = self.orphans.popleft()
                self.keeper.drop(lease)
                _warn_orphan(lease, self.fence_of(lease, " (fence {})"))

    def all_unrenewed(self) -> list[HoldBase]:
        """Return the holds that are not renewed; other threads may make holds at the same time."""
        while True:
            try:
                return list(self.unrenewed)
            except RuntimeError:
                continue

    def fence_of(self, lease: Lease, words: str) -> str:
        """Return the words with the fence of a lease; an empty text if the store has no fences."""
        return words.format(lease.fence) if self.store.capabilities.fences else ""

    async def undo(self, undo: Undo, until: float = math.inf) -> None:
        """Withdraw an abandoned claim while an exception is on its way.

        If the withdrawal fails, the exception stays. If a cancellation or Ctrl-C comes, it replaces
        an exception of another kind, because the error of a store must not hide an interruption.
        """
        ends = not isinstance(sys.exception(), Exception)
        try:
            await self.put_back(undo, until)
        except BaseException as late:
            if replaces(late, ends):
                raise

    async def put_back(self, undo: Undo, until: float = math.inf, longest: float = UNDO_S) -> None:
        """Withdraw an abandoned claim.

        The renewer repeats the withdrawal if the store doesn't answer within ``longest`` seconds or
        by ``until``, or if an interrupt comes.
        """
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
        from .guard import lease as duties  # here, because few programs have guards or queues
        from .guard.model import Abandon
        from .queue import lease as loans

        if isinstance(undo, Abandon):
            await duties.withdraw(self.store, undo, within)
        else:
            await loans.withdraw(self.store, undo, within)

    async def prolong(self, leases: Sequence[Lease], within: float) -> Sequence[object]:
        """Renew leases of one kind (holds, deliveries or refreshes); return one answer for each."""
        if leases[0].kind == "duty":
            from .guard import lease as duties

            return await duties.prolong(self.store, leases, within)
        if leases[0].kind == "delivery":
            from .queue import lease as loans

            return await loans.prolong(self.store, leases, within)
        now = self.now()
        return await self.store.renew([lease.renewal(now) for lease in leases], within)

    def require_open(self) -> None:
        """Raise ``StoreUnavailable`` if the client is closed."""
        if self.closed:
            raise StoreUnavailable(f"the client of {self.store.label} is closed; make a new one")

    def summary(self) -> dict[str, Any]:
        """Return numbers for tests and logs: the leases kept, and the epoch."""
        return {"kept": self.keeper.pending(), "epoch": self.epoch}


def _warn_orphan(lease: Lease, fence: str) -> None:
    """Warn that a hold was forgotten. The hold is no longer renewed and will expire."""
    text = lease.forgotten.format(f"{lease.name!r}{fence}")
    log.warning("%s", text)
    warnings.warn(text, ResourceWarning, stacklevel=2)
