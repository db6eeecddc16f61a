"""Several names as one: all of them held, or none.

If no claim is in the line of any name, the store grants all names in one step (``together.py``).
Otherwise they are acquired strictly one after the other, in the order of their encoded bytes; each
is held before the next is joined. So two callers with overlapping names can't deadlock, in whatever
order each caller lists its names. (With a batch of separate joins, two callers could each hold a
name for which the other caller waits.) If one name can't be acquired in time, the names before it
are released.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from types import FrameType
from typing import Any
from weakref import ref

from ..errors import ConfigError, LockLost, NotAcquired, StoreUnavailable
from . import checks, together
from .context import Context
from .door import Door, Entry, give_back
from .hold import HoldBase
from .lock import LockBase
from .model import DETACHED, Loss
from .place import Spot
from .refused_with import OneWith


class MultiHoldBase(OneWith):
    """Holds on several names, in the order in which they were acquired."""

    __slots__ = ("__weakref__", "_before", "_holds", "_levels")
    #: The level of reentry: holds on several names are entered only once.
    _count = 1

    def __init__(self, holds: list[Any]) -> None:
        self._holds = holds
        #: The entry count of each hold at this entry; a reentrant hold can be entered again later.
        self._levels = [hold._count for hold in holds]
        #: The reason of a loss that came before the release began.
        self._before: Loss | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are held, in the order of acquiring."""
        return tuple(h.name for h in self._holds)

    @property
    def fences(self) -> dict[str, int]:
        """The fencing token of each name."""
        return {h.name: h.fence for h in self._holds}

    @property
    def lost(self) -> Loss | None:
        """The reason of the first loss among them, or None."""
        return next((h.lost for h in self._holds if h.lost is not None), None)

    def remaining(self) -> float:
        """Return the seconds for which all of them are valid."""
        return min((float(h.remaining()) for h in self._holds), default=0.0)

    def check(self) -> None:
        """Raise ``LockLost`` if any of them is lost."""
        for hold in self._holds:
            hold.check()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(map(repr, self.names))}>"

    def __bool__(self) -> bool:
        return True

    async def _exit(self, failure: BaseException | None) -> None:
        """Release the holds after the body of a ``with`` over them."""
        try:
            await give_back(self, self._what, failure)
        except Exception:
            raise
        except BaseException:
            self._abandon()
            raise

    def _taken(self, at: tuple[Any, ...]) -> None:
        """Note the position of the acquire, or the ``with`` that releases the holds; see
        ``place.Spot``."""
        here = Spot(*at)._replace(several=ref(self))
        for hold in self._holds:
            hold._at = here

    def _what(self) -> str:
        """Return the names for an error."""
        return f"all of {', '.join(map(repr, self.names))}"

    def _cut(self, level: int) -> None:
        """Finish the release after an interrupt at any point. There is only one level of
        reentry."""
        self._abandon()

    def _abandon(self) -> None:
        """Release the holds without awaiting anything: the renewer sends the releases."""
        for hold, level in zip(self._holds, self._levels, strict=True):
            hold._cut(level)

    async def _release(self) -> bool:
        """Release all holds; return True if none of them had been lost."""
        if not self._holds:
            return True
        self._before = self.lost
        return await together.release(self._holds[0]._ctx, self._holds, self._levels)


class MultiLockBase(OneWith):
    """The logic of a multi-lock, without its methods for threads or asyncio."""

    __slots__ = ("__weakref__", "_ctx", "_door", "_locks", "_timeout")

    #: The class of the result of acquire; set by the subclass.
    _hold_class: type[MultiHoldBase] = MultiHoldBase

    def __init__(self, ctx: Context, locks: Sequence[Any], timeout: Any = None) -> None:
        if not locks:
            raise ConfigError("all() needs at least one name")
        odd = [one for one in locks if not isinstance(one, LockBase)]
        if odd:
            raise ConfigError(
                f"all() takes names and locks, not {checks.shown(odd[0])} (write all(*names))"
            )
        ordered = sorted(locks, key=lambda lock: lock.name.encode())
        for one, other in itertools.pairwise(ordered):
            if one.name == other.name:
                raise ConfigError(f"{one.name!r} is named twice in all(); it would wait for itself")
        foreign = next((lock for lock in ordered if lock._ctx is not ctx), None)
        if foreign is not None:
            raise ConfigError(f"{foreign!r} belongs to another client; use one client for all()")
        self._ctx = ctx
        self._locks = ordered
        self._timeout = checks.wait(True, timeout)
        self._door = Door(ctx.runtime)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order in which they are acquired."""
        return tuple(lock.name for lock in self._locks)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(map(repr, self.names))}>"

    def __reduce__(self) -> Any:
        raise checks.unpicklable(self)

    async def _acquire(
        self, blocking: bool = True, timeout: Any = None, at: tuple[Any, ...] | None = None
    ) -> MultiHoldBase | None:
        """Acquire all names; ``at``: the position of the caller, see ``place.Spot``."""
        wait = checks.wait(blocking, timeout)
        if wait is None and timeout is None and self._timeout is not None:
            found: MultiHoldBase | None = await self._insist()
        else:
            found = (await self._try(wait))[0]
        if found is not None and at is not None:
            found._taken(at)
        return found

    async def _try(self, wait: float | None) -> tuple[MultiHoldBase | None, LockBase, str]:
        """Return the holds. If a lock is busy: None, that lock, and its holder if the store named
        it."""
        begun = self._ctx.now()
        holds: list[HoldBase] = []
        try:
            at_once = await together.acquire(self._ctx, self._locks, wait, begun)
            if at_once is not None:
                holds = at_once
                return self._hold_class(holds), self._locks[0], ""
            for lock in self._locks:
                hold, holder = await lock._try(wait, begun)
                if hold is None:
                    await MultiHoldBase(holds)._release()
                    return None, lock, holder
                holds.append(hold)
            lost = next((h for h in holds if h.lost is not None), None)
            if lost is not None:
                raise LockLost(f"{lost.name!r} was lost while the others were acquired", lost.lost)
            return self._hold_class(holds), self._locks[0], ""
        except GeneratorExit:  # the coroutine is being closed: nothing may be awaited
            MultiHoldBase(holds)._abandon()
            raise
        except BaseException:
            with contextlib.suppress(StoreUnavailable):  # then the renewer repeats the releases
                await MultiHoldBase(holds)._release()
            raise

    async def _insist(self) -> MultiHoldBase:
        begun = self._ctx.now()
        hold, busy, holder = await self._try(self._timeout)
        if hold is None:
            spent = self._ctx.now() - begun
            holder, who = await busy._blocker(holder)
            waited = "once" if not self._timeout else f"{self._timeout:g} s"
            names = ", ".join(map(repr, self.names))
            raise NotAcquired(
                f"all of {names} not acquired: tried {waited}, {busy.name!r} "
                f"{who or 'held by another client'}; none is held now. Wait longer (timeout=) or "
                "try again later",
                name=busy.name,
                holder=holder.removesuffix(DETACHED),
                waited=spent,
            )
        return hold

    async def _enter(self, entry: Entry) -> MultiHoldBase:
        cancels = any(lock._terms.cancel_on_lost for lock in self._locks)
        scope = self._ctx.runtime.cancel_scope() if cancels else None
        hold = await self._insist()
        try:
            if scope is not None:
                for lock, one in zip(self._locks, hold._holds, strict=True):
                    if lock._terms.cancel_on_lost:
                        one.on_lost(scope.lost)
            self._door.enter(entry, hold, scope)
            flow: Any = entry.flow
            hold._taken(entry.spot(ref(flow[0] if isinstance(flow, tuple) else flow)))
        except BaseException:
            hold._abandon()
            self._door.forget(entry)
            raise
        return hold

    async def _unenter(self, entry: Entry) -> None:
        await self._door.undo(entry)

    def _elsewhere(self, failure: BaseException | None, frame: FrameType) -> bool:
        """Return True if this statement entered the lock in another loop: that loop releases it."""
        home = self._ctx.home
        return home is not None and home.left(self, failure, frame)

    def _what(self) -> str:
        """Return the names for an error."""
        return f"all of {', '.join(map(repr, self.names))}"
