"""Holds and locks for asyncio."""

from __future__ import annotations

import functools
import sys
from asyncio import current_task
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from threading import get_ident
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeAlias, TypeVar, overload
from weakref import ref

from ..core.context import Context
from ..core.decorated import require_awaitable, require_coroutine
from ..core.door import Entry
from ..core.election import OBSERVE_S, ElectionBase, Leader
from ..core.hold import HoldBase
from ..core.lock import LockBase
from ..core.model import Loss
from ..core.multi import MultiHoldBase, MultiLockBase
from ..core.rwlock import RWLockBase, RWSideBase
from ..core.semaphore import SemaphoreBase
from ..core.template import filler
from ..runtime.aio import Pending
from .loops import bound, here, leave, leave_held, require_home, twin

P = ParamSpec("P")
R = TypeVar("R")
#: The position of an acquire: see `place.Spot`.
_At: TypeAlias = tuple[Any, ...]


def _task() -> ref[object] | None:
    task = current_task()
    return None if task is None else ref(task)


class AsyncHold(HoldBase):
    """A hold on a name: the result of ``acquire``, and of ``with ... as``.

    A hold belongs to no thread or task. ``release()`` the hold, or use ``with``. A forgotten hold
    warns when it is collected, and expires after its ttl.

    >>> async with AsyncClient("memory://").lock("x") as hold:
    ...     hold.check()
    """

    __slots__ = ()

    async def release(self) -> bool:
        """Release it; return True if it was held until now, False if it had been lost before.

        A second call returns the same result. ``StoreUnavailable``: the result is unknown. Release
        again or let the hold expire: it isn't renewed, and is withdrawn when the store answers.
        """
        ctx = self._ctx
        if ctx.runs._thread_id != get_ident():
            require_home(ctx)
        return await self._release()

    async def extend(self, ttl: float | None = None) -> float:
        """Renew it now, for ``ttl`` seconds from now; return the seconds for which it is valid.

        Raises ``LockLost`` if the hold is lost. You need this call only with ``auto_renew=False``.
        A shorter lease counts from the call, even if the store's reply is lost.
        """
        require_home(self._ctx)
        return await self._extend(ttl)

    async def downgrade(self) -> None:
        """Turn a write hold into a read hold; no writer can be granted in between."""
        require_home(self._ctx)
        return await self._downgrade()

    async def detach(self, ttl: float | None = None) -> str:
        """Detach it from this process; return a token for ``client.adopt`` in another one.

        Until adopted, it isn't renewed: it lasts ``ttl`` seconds from now (None: its own ttl), or
        until its lease ends if later. Its owner shows that it is detached. ``holdfast renew``,
        ``check`` and ``release`` accept the token. The token is a secret and can be adopted once.
        """
        require_home(self._ctx)
        return await self._detach(ttl)

    async def wait_lost(self, timeout: float | None = None) -> Loss | None:
        """Wait until it is lost or released, at most ``timeout`` seconds; return the loss, or
        None."""
        require_home(self._ctx)
        return await self._wait_lost(timeout)

    async def __aenter__(self) -> Self:
        frame = sys._getframe(1)
        self._at = frame.f_code, frame.f_lasti, _task(), id(frame)
        self.check()  # the body of a hold that was released or lost never runs
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        ctx = self._ctx
        if ctx.runs._thread_id != get_ident():
            await leave_held(ctx, self, failure)
        else:
            await self._exit(failure)


#: Called once, with the hold and the reason, when a hold is lost.
OnLost: TypeAlias = "Callable[[AsyncHold, Loss], object]"


class AsyncMultiHold(MultiHoldBase):
    """Holds on several names; all of them are held, and released together."""

    __slots__ = ()

    @property
    def holds(self) -> tuple[AsyncHold, ...]:
        """The single holds, in the order in which they were acquired."""
        return tuple(self._holds)

    async def release(self) -> bool:
        """Release all of them, the last one first; return True if none had been lost before."""
        if self._holds:
            require_home(self._holds[0]._ctx)
        return await self._release()

    async def __aenter__(self) -> Self:
        frame = sys._getframe(1)
        self._taken((frame.f_code, frame.f_lasti, _task(), id(frame)))
        try:
            self.check()
        except BaseException:
            await self._release()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._holds:
            await leave_held(self._holds[0]._ctx, self, failure)


class AsyncLock(LockBase):
    """A lock on a name: one holder at a time, first come, first served.

    Use it as ``asyncio.Lock``, in ``with``, or as a decorator.
    """

    __slots__ = ()

    @overload
    def acquire(
        self, blocking: Literal[True] = ..., timeout: Literal[-1] | None = ...
    ) -> Pending[AsyncHold]: ...
    @overload
    def acquire(
        self, blocking: bool = ..., timeout: float | None = ...
    ) -> Pending[AsyncHold | None]: ...
    def acquire(self, blocking: bool = True, timeout: float | None = None) -> Pending[Any]:
        """Return a hold, or None if the name stays busy until the time-out (a bare ``acquire()`` of
        a lock that was made with ``timeout=`` raises ``NotAcquired``).

        ``blocking=False`` is one try, ``timeout`` is in seconds, -1: no limit. Without arguments
        the lock's own ``timeout`` counts; a lock made without one waits without a limit.
        ``StoreUnavailable``: the store didn't answer, so it is unknown whether the name is free.
        """
        frame = sys._getframe(1)
        if self._ctx.runs._thread_id == get_ident():
            at = frame.f_code, frame.f_lasti, _task()
            return _Acquiring(self, blocking, timeout, at)
        at = frame.f_code, frame.f_lasti, None
        return Pending(self._acquire_here(blocking, timeout, at), "acquire()")

    async def _acquire_here(self, blocking: bool, timeout: float | None, at: _At) -> Any:
        return await bound(self)._acquire(blocking, timeout, (*at[:2], _task()))

    async def release(self) -> bool:
        """Release the hold that this lock object returned last, in any thread or task.

        ``NotHeld`` (a ``RuntimeError``) if there is no such hold. Prefer ``hold.release()``.
        """
        return await here(self)._release_one()

    def locked(self) -> Pending[bool]:
        """True if any process holds it; this can be outdated immediately."""
        return Pending(self._locked_here(), "locked()")

    async def _locked_here(self) -> bool:
        return await here(self)._locked()

    def __aenter__(self) -> Coroutine[Any, Any, AsyncHold]:
        entry = Entry(sys._getframe(1))
        if self._ctx.runs._thread_id == get_ident():
            return self._enter(entry)  # type: ignore[return-value]
        return self._enter_here(entry)

    async def _enter_here(self, entry: Entry) -> AsyncHold:
        return await bound(self)._enter(entry)  # type: ignore[return-value]

    def __aexit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> Coroutine[Any, Any, None]:
        if self._ctx.runs._thread_id == get_ident():
            return self._door.leave(self, failure, sys._getframe(1))
        return leave(self, failure, sys._getframe(1))

    def __call__(self, function: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        """Decorate a function: each call holds the lock; ``{fields}`` of the name are filled
        from the call's arguments. Without fields, all calls use one lock."""
        fill = filler(self.name, function)
        require_coroutine(function)

        @functools.wraps(function)
        async def locked(*args: P.args, **kwargs: P.kwargs) -> R:
            async with here(self)._renamed(fill(*args, **kwargs)):
                made = function(*args, **kwargs)
                require_awaitable(made, function)
                return await made

        return locked


class _Acquiring(Pending[HoldBase | None]):
    """An acquire that was called in the loop of its lock, and can be awaited in another loop."""

    __slots__ = ("_at", "_blocking", "_lock", "_timeout")

    def __init__(self, lock: AsyncLock, blocking: bool, timeout: float | None, at: _At) -> None:
        self._work = lock._acquire(blocking, timeout, at)
        self._what = "acquire()"
        self._lock: AsyncLock | None = lock
        self._blocking, self._timeout, self._at = blocking, timeout, at

    def __await__(self) -> Generator[Any, None, HoldBase | None]:
        if (lock := self._lock) is not None and lock._ctx.runs._thread_id != get_ident():
            self._begin(lock)
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        """See ``Coroutine``."""
        lock, self._lock = self._lock, None
        if lock is not None and lock._ctx.runs._thread_id != get_ident():
            self._begin(lock)
        return self._work.send(value)

    def _begin(self, lock: AsyncLock) -> None:
        """Make the acquire again for the loop that awaits it. No part of it has run yet."""
        self._work.close()
        self._work = lock._acquire_here(self._blocking, self._timeout, self._at)


class AsyncSemaphore(SemaphoreBase, AsyncLock):
    """At most ``permits`` holders at a time; a claim may take several permits (``weight``)."""

    __slots__ = ()

    async def resize(self, permits: int) -> int | None:
        """Change the number of permits while it is in use; return the former number, None if
        unused.

        No holder loses a permit; waiting claims are granted as soon as they fit. Claims with the
        former number are still accepted, so that a roll-out can proceed.
        """
        return await here(self)._resize(permits)

    async def available(self) -> int:
        """The number of free permits; this can be outdated immediately."""
        return await here(self)._available()


class AsyncRWSide(RWSideBase, AsyncLock):
    """The read side or the write side of a read-write lock: a separate lock object."""

    __slots__ = ()


class AsyncRWLock(RWLockBase):
    """Many readers or one writer, in one line, so that neither starves.

    Nested reads of one thread or task are counted; a write inside a read is refused.
    """

    __slots__ = ()

    @property
    def read(self) -> AsyncRWSide:
        """The shared side."""
        side: AsyncRWSide = self._read
        return side

    @property
    def write(self) -> AsyncRWSide:
        """The exclusive side; its hold can ``downgrade()``."""
        side: AsyncRWSide = self._write
        return side


class AsyncMultiLock(MultiLockBase):
    """Several names as one lock: all held or none, without dead-lock."""

    __slots__ = ()
    _hold_class = AsyncMultiHold

    @overload
    def acquire(self) -> Pending[AsyncMultiHold]: ...
    @overload
    def acquire(
        self, blocking: bool = ..., timeout: float | None = ...
    ) -> Pending[AsyncMultiHold | None]: ...
    def acquire(self, blocking: bool = True, timeout: float | None = None) -> Pending[Any]:
        """Return holds on all names, or None after the time-out; then no name is held."""
        frame = sys._getframe(1)
        at = frame.f_code, frame.f_lasti, None
        return Pending(self._acquire_here(blocking, timeout, at), "acquire()")

    async def _acquire_here(self, blocking: bool, timeout: float | None, at: _At) -> Any:
        return await bound(self)._acquire(blocking, timeout, (*at[:2], _task()))

    def _moved(self, ctx: Context) -> Self:
        """Return the same lock for another loop."""
        return type(self)(ctx, [twin(one, ctx) for one in self._locks], self._timeout)

    async def __aenter__(self) -> AsyncMultiHold:
        entry, ours = Entry(sys._getframe(1)), bound(self)
        try:
            return await ours._enter(entry)  # type: ignore[return-value]
        except BaseException:
            await ours._unenter(entry)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await leave(self, failure, sys._getframe(1))


class AsyncElection(ElectionBase, AsyncLock):
    """One leader among many. Also a lock: the body of ``with election as hold`` runs as leader."""

    __slots__ = ()

    @overload
    def campaign(self) -> Pending[AsyncHold]: ...
    @overload
    def campaign(self, timeout: float | None) -> Pending[AsyncHold | None]: ...
    def campaign(self, timeout: float | None = None) -> Pending[Any]:
        """Campaign until elected, at most ``timeout`` seconds; return the hold of the term."""
        frame = sys._getframe(1)
        at = frame.f_code, frame.f_lasti, None
        return Pending(self._acquire_here(True, timeout, at), "campaign()")

    async def resign(self) -> bool:
        """Release the term that was won through this object."""
        return await here(self)._resign()

    async def run(self, main: Callable[[AsyncHold], Awaitable[R]]) -> R:
        """Campaign, call ``main(hold)`` as the leader, then resign; return the result of ``main``.

        ``LockLost`` if the term was lost while ``main`` ran: ``main`` should call ``hold.check()``.
        """
        self._require_main(main, awaits=True)
        async with self as hold:
            return await main(hold)

    async def leader(self) -> Leader | None:
        """Return the current leader, as ``Leader(owner, fence)``, or None."""
        return await here(self)._leader()

    async def observe(self, every: float = OBSERVE_S) -> AsyncIterator[Leader | None]:
        """Yield the current leader, then each new one, without a limit. The store is asked every
        ``every`` seconds."""
        here_ = here(self)
        seen = await here_._leader()
        while True:
            yield seen
            seen = await here_._changed(seen, every)
