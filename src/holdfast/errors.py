"""Every error that holdfast raises on purpose.

One family, each member also a builtin where the language has a word for it, so that
``except TimeoutError`` or ``except ConnectionError`` written years ago still works::

    HoldfastError
      NotAcquired(TimeoutError)         somebody else holds it, and the time to wait is over
      LockLost                          the hold ended without our release
        FenceRejected                   a resource has already seen a later fence
      RefreshTimeout(TimeoutError)      a guard's value was not there in time
      ComputeFailed                     a guard's value could not be computed a moment ago
      NotHeld(RuntimeError)             released, renewed or adopted what isn't ours
      StoreUnavailable(ConnectionError) the store didn't answer: neither "held" nor "busy" is known
      NotSupported(NotImplementedError) this store can't do that (see its Capabilities)
      StaleSnapshot                     your transaction reads what was before the row lock
      Deadlock                          your transaction and another waited for each other
      ConfigError(ValueError)           a wrong name, number, option or URL; also a wrong file
        CapacityMismatch                the name is in use as another kind or with another capacity

"Busy" is no exception from ``acquire``: it answers ``None``. Only where a hold was asked for
without a word about waiting (``with``, or a bare ``acquire()`` of a lock that was made with a
``timeout``) it is ``NotAcquired``. A message says what was
tried, on which name, for how long, who holds it, and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.model import Loss


class HoldfastError(Exception):
    """The base of everything that holdfast raises on purpose."""

    def __reduce__(self) -> Any:
        # Whatever `__init__` takes: an error that can't be unpickled ends a pool of processes.
        return _again, (type(self), self.args, dict(vars(self)))


def _again(cls: type[HoldfastError], args: tuple[Any, ...], state: dict[str, Any]) -> HoldfastError:
    """The same error, in another process or as a copy."""
    made = cls.__new__(cls, *args)
    made.args = args
    vars(made).update(state)
    return made


class NotAcquired(HoldfastError, TimeoutError):
    """A ``with`` statement, or a bare ``acquire()``, could not get its lock in the lock's time.

    ``name`` is the name that was wanted (of several, the one that was busy), ``holder`` the owner
    who holds it (empty where that isn't known), ``waited`` the seconds that it was tried.
    """

    def __init__(
        self, message: str = "", *, name: str = "", holder: str = "", waited: float = 0.0
    ) -> None:
        super().__init__(message)
        self.name = name
        self.holder = holder
        self.waited = waited


class LockLost(HoldfastError):
    """The hold ended without our release; ``reason`` says why (a :class:`holdfast.Loss`)."""

    def __init__(self, message: str, reason: Loss | None = None) -> None:
        super().__init__(message)
        self.reason = reason


class FenceRejected(LockLost):
    """A guarded resource refused a write, because it has accepted one with a later fence.

    ``fence`` is the refused one, ``greatest`` the greatest that the resource has accepted; each
    is None where it isn't known.
    """

    def __init__(
        self,
        message: str,
        reason: Loss | None = None,
        *,
        fence: int | None = None,
        greatest: int | None = None,
    ) -> None:
        super().__init__(message, reason)
        self.fence = fence
        self.greatest = greatest


class RefreshTimeout(HoldfastError, TimeoutError):
    """A guard has no value, another caller computes it, and it was not there in time."""


class ComputeFailed(HoldfastError):
    """A guard has no value, and was told a moment ago that it could not be computed; it is tried
    again in ``retry_in`` seconds."""

    def __init__(self, message: str, retry_in: float = 0.0) -> None:
        super().__init__(message)
        self.retry_in = retry_in


class NotHeld(HoldfastError, RuntimeError):
    """Something was released, extended, detached or adopted that isn't held (any more)."""


class StoreUnavailable(HoldfastError, ConnectionError):
    """The store did not answer in time, so it isn't known whether the lock is free."""


class NotSupported(HoldfastError, NotImplementedError):
    """The store (or the moment) does not allow this operation; the message names the reason."""


class StaleSnapshot(HoldfastError):
    """A row lock would protect nothing: the transaction reads what was before its last holder.

    Roll back, and start a new transaction that takes the row lock first.
    """


class Deadlock(HoldfastError):
    """The database ended a wait for a row lock, because two transactions waited for each other.

    The transaction is over: roll back, and start a new one. It is never repeated for you, because
    what you did in it before is undone as well.
    """


class ConfigError(HoldfastError, ValueError):
    """A name, number, option, URL or file is not usable; the message names it and the remedy."""


class CapacityMismatch(ConfigError):
    """The name is in use as another kind or with another capacity; both are in the message.

    ``kind`` and ``capacity`` are those that the name, ``name``, has in the store.
    """

    def __init__(
        self, message: str = "", *, name: str = "", kind: str = "", capacity: int = 0
    ) -> None:
        super().__init__(message)
        self.name = name
        self.kind = kind
        self.capacity = capacity
