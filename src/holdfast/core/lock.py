"""The lock, and the common part of all primitives: acquire, enter, leave, inspect.

A lock object is a request with its terms; it holds nothing itself. Each acquire makes a new claim
and returns a separate hold. As in ``threading``, ``release()`` and ``with`` need no hold object:
for them a lock also remembers the holds that it returned and that have not ended.
"""

from __future__ import annotations

from collections.abc import Awaitable
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import ref

from ..errors import ConfigError, HoldfastError, NotAcquired, NotHeld
from . import checks, claims, itself
from .door import Door, Entry
from .hold import HoldBase
from .lease import Lease, Terms
from .model import DETACHED, Kind, Spec
from .plain import visible
from .policy import deadline
from .refused_with import OneWith

if TYPE_CHECKING:
    from .context import Context

L = TypeVar("L", bound="LockBase")

#: Longest wait in seconds for the store to name the holder, for an error.
WHO_S = 0.1
#: The value of `Capabilities.reentry` if a reentry extends a hold that isn't renewed.
PROLONGS = "prolongs"
#: Number of holds at which a lock object drops ended holds.
MANY = 16


class LockBase(OneWith):
    """The logic of a lock, without its methods for threads or asyncio."""

    __slots__ = (
        "__weakref__",
        "_ctx",
        "_door",
        "_given",
        "_many",
        "_reentrant",
        "_spec",
        "_terms",
        "_timeout",
    )

    def __init__(
        self,
        ctx: Context,
        spec: Spec,
        terms: Terms,
        timeout: float | None,
        reentrant: bool = False,
    ) -> None:
        self._ctx = ctx
        self._spec = spec
        self._terms = terms
        self._timeout = timeout
        self._reentrant = reentrant is not False and checks.flag("reentrant", reentrant)
        #: The returned holds, in order. Threads share this dict, so each operation on it is atomic.
        self._given: dict[HoldBase, None] = {}
        self._many = MANY
        self._door = Door(ctx.runtime)

    @property
    def name(self) -> str:
        """The name that is locked."""
        return self._spec.name

    @property
    def ttl(self) -> float:
        """The length of the lease in seconds."""
        return self._spec.ttl

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} at {self._ctx.store.label}>"

    def __reduce__(self) -> Any:
        raise checks.unpicklable(self)

    def _renamed(self, name: str) -> Self:
        """Return a lock with another name and the same options, for a decorator's template."""
        twin = object.__new__(type(self))
        for cls in type(self).__mro__:
            for slot in getattr(cls, "__slots__", ()):
                if slot != "__weakref__":
                    setattr(twin, slot, getattr(self, slot))
        twin._spec = self._spec._replace(name=checks.name(name))
        twin._given, twin._door = {}, Door(self._ctx.runtime)
        return twin

    def _moved(self, ctx: Context) -> Self:
        """Return the same lock in another context of the client."""
        twin = self._renamed(self.name)
        twin._ctx = ctx
        twin._door = Door(ctx.runtime)
        return twin

    # -- acquire -----------------------------------------------------------------------------

    async def _acquire(
        self, blocking: bool = True, timeout: Any = None, at: tuple[Any, ...] | None = None
    ) -> HoldBase | None:
        """Acquire a hold; ``at``: the position of the caller, see ``place.Spot``."""
        wait = checks.wait(blocking, timeout)
        if wait is None and timeout is None and self._timeout is not None:
            hold: HoldBase | None = await self._insist()
        else:
            hold, _ = await self._try(wait)
        if hold is not None and at is not None:
            hold._at = at
        return hold

    def _try(
        self, wait: float | None, begun: float | None = None
    ) -> Awaitable[tuple[HoldBase | None, str]]:
        """Acquire once; the time-out counts from ``begun`` (default: now).

        Return the hold or None, and the holder, if the store named it.
        """
        ctx = self._ctx
        begun = ctx.now() if begun is None else begun
        if ctx.closed:
            ctx.require_open()
        if self._spec.owner is not ctx.owner:  # this is the child of a fork
            self._spec = self._spec._replace(owner=ctx.owner)
        if self._reentrant:
            inside = ctx.flows.find(self._spec)
            if inside is not None:
                return self._again(inside)
        return claims.acquire(self, wait, begun)

    async def _again(self, inside: HoldBase) -> tuple[HoldBase, str]:
        """Count a reentry, without a round trip; raise if the hold is lost.

        At a store with `PROLONGS`, a hold that isn't renewed is extended to this lock's ttl from
        now, and never shortened.
        """
        inside.check()
        if not inside._lease.renewing and self._ctx.store.capabilities.reentry == PROLONGS:
            ttl = self._spec.ttl
            if deadline(self._ctx.now(), ttl) > inside._lease.deadline:
                await inside._extend(ttl)
            inside.check()  # it can have been released during the request
        inside._count += 1
        return inside, ""

    def _make(self, lease: Lease) -> HoldBase:
        hold = self._ctx.hold_class(self._ctx, lease, ref(self))
        terms = self._terms
        if terms.on_lost is not None:
            lease.callbacks.append(terms.on_lost)
        if lease.callbacks:
            self._ctx.keeper.watch(lease)
        self._given[hold] = None
        if len(self._given) >= self._many:
            self._shed()
        if self._reentrant:
            self._ctx.flows.enter(hold, strict=True)
        return hold

    def _shed(self) -> None:
        """Drop holds that are lost and were never released; done rarely, because it checks all
        holds."""
        for hold in list(self._given):
            if hold.lost is not None:
                self._given.pop(hold, None)
        self._many = max(MANY, 2 * len(self._given))

    async def _insist(self) -> HoldBase:
        """Return a hold within the lock's own time-out, or raise ``NotAcquired``."""
        begun = self._ctx.now()
        hold, holder = await self._try(self._timeout, begun)
        if hold is None:
            raise await self._busy(holder, self._ctx.now() - begun)
        return hold

    async def _busy(self, holder: str, waited: float) -> NotAcquired:
        """Return the error that names the holder, the time of the hold, and a remedy."""
        name = self._spec.name
        holder, who = await self._blocker(holder)
        tried = f"tried {waited:.2f} s" if self._timeout else "tried once"
        remedy = "Wait longer (timeout=), come back later, or see `holdfast show`"
        if self._is_own(holder) and self._spec.kind == Kind.LOCK:
            remedy += ". With reentrant=True the thread or task that holds it may acquire it again"
        return NotAcquired(
            f"{self._spec.kind} {name!r} not acquired: {tried}, {who or 'busy'}. {remedy}",
            name=name,
            holder=holder.removesuffix(DETACHED),
            waited=waited,
        )

    async def _blocker(self, holder: str) -> tuple[str, str]:
        """Ask the store for the holder; return the holder and a text about the holder (empty if
        unknown)."""
        store = self._ctx.store
        who = f"held by {visible(holder)}" if holder else ""
        try:
            lines = await store.inspect(self._spec.name, WHO_S, exact=True)
        except HoldfastError:
            lines = []
        if lines and lines[0].holders:
            first = lines[0].holders[0]
            since = f" for {first.age:.1f} s" if first.age >= 0 else ""
            fence = f" (fence {first.fence})" if store.capabilities.fences else ""
            holder = first.owner
            who = f"held by {visible(holder)}{since}{fence}"
            if len(lines[0].waiters) > 0:
                who += f", {len(lines[0].waiters)} waiting"
        own = itself.words(self._ctx, self._spec)
        if self._is_own(holder):
            who += "; that is this process itself"
        return holder, f"{who or 'busy'}; {own}" if own else who

    def _is_own(self, holder: str) -> bool:
        """Return True if the holder is this process, and the lock isn't reentrant."""
        return holder == self._ctx.owner and not self._reentrant

    # -- with --------------------------------------------------------------------------------

    async def _enter(self, entry: Entry) -> HoldBase:
        ctx = self._ctx
        scope = ctx.runtime.cancel_scope() if self._terms.cancel_on_lost else None
        begun = ctx.now()
        hold, holder = await self._try(self._timeout, begun)  # `_insist`, without its coroutine
        if hold is None:
            raise await self._busy(holder, ctx.now() - begun)
        try:
            if scope is not None:
                hold.on_lost(scope.lost)
            self._door.enter(entry, hold, scope)
        except BaseException:
            hold._abandon()
            self._door.forget(entry)
            raise
        return hold

    async def _unenter(self, entry: Entry) -> None:
        """Release the hold after an exception between the grant and the body."""
        await self._door.undo(entry)

    def _elsewhere(self, failure: BaseException | None, frame: FrameType) -> bool:
        """Return True if this statement entered the lock in another loop: that loop releases it."""
        home = self._ctx.home
        return home is not None and home.left(self, failure, frame)

    def _what(self) -> str:
        """Return the name for an error."""
        return f"{self._spec.kind} {self._spec.name!r}"

    # -- as in threading ---------------------------------------------------------------------

    async def _release_one(self) -> bool:
        """Release the hold that this lock object returned last and that has not ended."""
        while self._given:
            try:
                hold = next(reversed(self._given))
            except (StopIteration, RuntimeError):
                continue  # another thread changed it at the same time
            level = hold._count
            try:
                taken = self._given.pop(hold, hold) is hold  # True: another thread took it
                if not taken and (hold._lease.end is None or level > 1):
                    return await self._release_this(hold)
            except Exception:
                raise
            except BaseException:
                hold._cut(level)
                raise
        raise NotHeld(
            f"{self.name!r} is not held through this lock object; "
            "release the hold that acquire() returned"
        )

    async def _release_this(self, hold: HoldBase) -> bool:
        try:
            return await hold._release()
        finally:
            if hold._lease.end is None:  # entered more than once, or it failed
                self._given[hold] = None

    async def _locked(self) -> bool:
        """Return True if any process holds it."""
        self._ctx.require_open()
        lines = await self._ctx.store.inspect(self.name, 5.0, exact=True)
        return bool(lines and lines[0].holders)


def terms(
    awaits: bool,
    auto_renew: bool,
    max_hold: Any,
    min_hold: Any,
    on_lost: Any,
    cancel_on_lost: bool = False,
) -> Terms:
    """Check the options of a lock, and return its terms."""
    if auto_renew is True and max_hold is None and min_hold == 0.0 and on_lost is None:
        if cancel_on_lost is False:
            return PLAIN
        return _CANCELLING if checks.flag("cancel_on_lost", cancel_on_lost) else PLAIN
    cancels = checks.flag("cancel_on_lost", cancel_on_lost)
    renews = checks.flag("auto_renew", auto_renew)
    if on_lost is not None:
        checks.callback(on_lost, awaits)
    longest = checks.seconds("max_hold", max_hold, 0.01, 1e9) if max_hold is not None else 0.0
    least = checks.seconds("min_hold", 0.0 if min_hold is None else min_hold, 0.0, 86_400.0)
    if longest and least > longest:
        raise ConfigError(f"min_hold={least:g} s is longer than max_hold={longest:g} s")
    return Terms(renews, longest or float("inf"), least, on_lost, cancels)


#: The terms of nearly every lock.
PLAIN = Terms()
_CANCELLING = Terms(cancel_on_lost=True)
