"""Holds and locks for threads."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Literal, ParamSpec, Self, TypeAlias, TypeVar, overload
from weakref import ref

from ..core.decorated import require_done
from ..core.door import Entry
from ..core.election import OBSERVE_S, ElectionBase, Leader
from ..core.hold import HoldBase
from ..core.lock import LockBase
from ..core.model import Loss
from ..core.multi import MultiHoldBase, MultiLockBase
from ..core.rwlock import RWLockBase, RWSideBase
from ..core.semaphore import SemaphoreBase
from ..core.template import filler
from ..runtime.blocking import current_thread, nested, run_sync

P = ParamSpec("P")
R = TypeVar("R")


class Hold(HoldBase):
    """A hold on a name: the result of ``acquire``, and of ``with ... as``.

    A hold belongs to no thread or task. ``release()`` the hold, or use ``with``. A forgotten hold
    warns when it is collected, and expires after its ttl.

    >>> with Client("memory://").lock("x") as hold:
    ...     hold.check()
    """

    __slots__ = ()

    def release(self) -> bool:
        """Release it; return True if it was held until now, False if it had been lost before.

        A second call returns the same result. ``StoreUnavailable``: the result is unknown. Release
        again or let the hold expire: it isn't renewed, and is withdrawn when the store answers.
        """
        return run_sync(self._release())

    def extend(self, ttl: float | None = None) -> float:
        """Renew it now, for ``ttl`` seconds from now; return the seconds for which it is valid.

        Raises ``LockLost`` if the hold is lost. You need this call only with ``auto_renew=False``.
        A shorter lease counts from the call, even if the store's reply is lost.
        """
        return run_sync(self._extend(ttl))

    def downgrade(self) -> None:
        """Turn a write hold into a read hold; no writer can be granted in between."""
        return run_sync(self._downgrade())

    def detach(self, ttl: float | None = None) -> str:
        """Detach it from this process; return a token for ``client.adopt`` in another one.

        Until adopted, it isn't renewed: it lasts ``ttl`` seconds from now (None: its own ttl), or
        until its lease ends if later. Its owner shows that it is detached. ``holdfast renew``,
        ``check`` and ``release`` accept the token. The token is a secret and can be adopted once.
        """
        return run_sync(self._detach(ttl))

    def wait_lost(self, timeout: float | None = None) -> Loss | None:
        """Wait until it is lost or released, at most ``timeout`` seconds; return the loss, or
        None."""
        return run_sync(self._wait_lost(timeout))

    def __enter__(self) -> Self:
        try:
            frame = sys._getframe(1)
            self._at = frame.f_code, frame.f_lasti, ref(current_thread()), id(frame)
            self.check()  # the body of a hold that was released or lost never runs
            return self
        except BaseException:  # also Ctrl-C: there is no `with` yet that would release it
            run_sync(self._release())
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is GeneratorExit and nested(sys._getframe(1)):
            self._abandon()
        else:
            run_sync(self._exit(failure))


#: Called once, with the hold and the reason, when a hold is lost.
OnLost: TypeAlias = "Callable[[Hold, Loss], object]"


class MultiHold(MultiHoldBase):
    """Holds on several names; all of them are held, and released together."""

    __slots__ = ()

    @property
    def holds(self) -> tuple[Hold, ...]:
        """The single holds, in the order in which they were acquired."""
        return tuple(self._holds)

    def release(self) -> bool:
        """Release all of them, the last one first; return True if none had been lost before."""
        return run_sync(self._release())

    def __enter__(self) -> Self:
        try:
            frame = sys._getframe(1)
            self._taken((frame.f_code, frame.f_lasti, ref(current_thread()), id(frame)))
            self.check()
            return self
        except BaseException:  # also Ctrl-C: there is no `with` yet that would release them
            run_sync(self._release())
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is GeneratorExit and nested(sys._getframe(1)):
            self._abandon()
        else:
            run_sync(self._exit(failure))


class Lock(LockBase):
    """A lock on a name: one holder at a time, first come, first served.

    Use it as ``threading.Lock``, in ``with``, or as a decorator.
    """

    __slots__ = ()

    @overload
    def acquire(self, blocking: Literal[True] = ..., timeout: Literal[-1] | None = ...) -> Hold: ...
    @overload
    def acquire(self, blocking: bool = ..., timeout: float | None = ...) -> Hold | None: ...
    def acquire(self, blocking: bool = True, timeout: float | None = None) -> Hold | None:
        """Return a hold, or None if the name stays busy until the time-out (a bare ``acquire()`` of
        a lock that was made with ``timeout=`` raises ``NotAcquired``).

        ``blocking=False`` is one try, ``timeout`` is in seconds, -1: no limit. Without arguments
        the lock's own ``timeout`` counts; a lock made without one waits without a limit.
        ``StoreUnavailable``: the store didn't answer, so it is unknown whether the name is free.
        """
        frame = sys._getframe(1)
        at = frame.f_code, frame.f_lasti, ref(current_thread())
        return run_sync(self._acquire(blocking, timeout, at))  # type: ignore[return-value]

    def release(self) -> bool:
        """Release the hold that this lock object returned last, in any thread or task.

        ``NotHeld`` (a ``RuntimeError``) if there is no such hold. Prefer ``hold.release()``.
        """
        return run_sync(self._release_one())

    def locked(self) -> bool:
        """True if any process holds it; this can be outdated immediately."""
        return run_sync(self._locked())

    def __enter__(self) -> Hold:
        entry = Entry(sys._getframe(1))
        try:
            return run_sync(self._enter(entry))  # type: ignore[return-value]
        except BaseException:
            run_sync(self._unenter(entry))
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        frame = sys._getframe(1)
        if kind is GeneratorExit and nested(frame):
            self._door.abandon(frame)
        else:
            run_sync(self._door.leave(self, failure, frame))

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function: each call holds the lock; ``{fields}`` of the name are filled
        from the call's arguments. Without fields, all calls use one lock."""
        fill = filler(self.name, function, awaits=False)

        @functools.wraps(function)
        def locked(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._renamed(fill(*args, **kwargs)):
                made = function(*args, **kwargs)
                require_done(made, function)
                return made

        return locked


class Semaphore(SemaphoreBase, Lock):
    """At most ``permits`` holders at a time; a claim may take several permits (``weight``)."""

    __slots__ = ()

    def resize(self, permits: int) -> int | None:
        """Change the number of permits while it is in use; return the former number, None if
        unused.

        No holder loses a permit; waiting claims are granted as soon as they fit. Claims with the
        former number are still accepted, so that a roll-out can proceed.
        """
        return run_sync(self._resize(permits))

    def available(self) -> int:
        """The number of free permits; this can be outdated immediately."""
        return run_sync(self._available())


class RWSide(RWSideBase, Lock):
    """The read side or the write side of a read-write lock: a separate lock object."""

    __slots__ = ()


class RWLock(RWLockBase):
    """Many readers or one writer, in one line, so that neither starves.

    Nested reads of one thread or task are counted; a write inside a read is refused.
    """

    __slots__ = ()

    @property
    def read(self) -> RWSide:
        """The shared side."""
        side: RWSide = self._read
        return side

    @property
    def write(self) -> RWSide:
        """The exclusive side; its hold can ``downgrade()``."""
        side: RWSide = self._write
        return side


class MultiLock(MultiLockBase):
    """Several names as one lock: all held or none, without dead-lock."""

    __slots__ = ()
    _hold_class = MultiHold

    @overload
    def acquire(self) -> MultiHold: ...
    @overload
    def acquire(self, blocking: bool = ..., timeout: float | None = ...) -> MultiHold | None: ...
    def acquire(self, blocking: bool = True, timeout: float | None = None) -> MultiHold | None:
        """Return holds on all names, or None after the time-out; then no name is held."""
        frame = sys._getframe(1)
        at = frame.f_code, frame.f_lasti, ref(current_thread())
        return run_sync(self._acquire(blocking, timeout, at))  # type: ignore[return-value]

    def __enter__(self) -> MultiHold:
        entry = Entry(sys._getframe(1))
        try:
            return run_sync(self._enter(entry))  # type: ignore[return-value]
        except BaseException:
            run_sync(self._unenter(entry))
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        frame = sys._getframe(1)
        if kind is GeneratorExit and nested(frame):
            self._door.abandon(frame)
        else:
            run_sync(self._door.leave(self, failure, frame))


class Election(ElectionBase, Lock):
    """One leader among many. Also a lock: the body of ``with election as hold`` runs as leader."""

    __slots__ = ()

    @overload
    def campaign(self) -> Hold: ...
    @overload
    def campaign(self, timeout: float | None) -> Hold | None: ...
    def campaign(self, timeout: float | None = None) -> Hold | None:
        """Campaign until elected, at most ``timeout`` seconds; return the hold of the term."""
        frame = sys._getframe(1)
        at = frame.f_code, frame.f_lasti, ref(current_thread())
        return run_sync(self._acquire(True, timeout, at))  # type: ignore[return-value]

    def resign(self) -> bool:
        """Release the term that was won through this object."""
        return run_sync(self._resign())

    def run(self, main: Callable[[Hold], R]) -> R:
        """Campaign, call ``main(hold)`` as the leader, then resign; return the result of ``main``.

        ``LockLost`` if the term was lost while ``main`` ran: ``main`` should call ``hold.check()``.
        """
        self._require_main(main, awaits=False)
        with self as hold:
            return main(hold)

    def leader(self) -> Leader | None:
        """Return the current leader, as ``Leader(owner, fence)``, or None."""
        return run_sync(self._leader())

    def observe(self, every: float = OBSERVE_S) -> Iterator[Leader | None]:
        """Yield the current leader, then each new one, without a limit. The store is asked every
        ``every`` seconds."""
        seen = self.leader()
        while True:
            yield seen
            seen = run_sync(self._changed(seen, every))
