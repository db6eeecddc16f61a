"""Every error that holdfast raises on purpose.

All of them derive from ``HoldfastError``. Most derive from a builtin error as well, so that an
existing ``except TimeoutError`` or ``except ConnectionError`` catches them too::

    HoldfastError
      NotAcquired(TimeoutError)         another owner holds it, and the time-out has expired
      LockLost                          the hold ended before it was released
        FenceRejected                   a resource has already seen a later fence
      RefreshTimeout(TimeoutError)      a guard's value was not ready in time
      ComputeFailed                     a guard has no value, and its last computation failed
      NotHeld(RuntimeError)             this client doesn't hold what the call needs
      StoreUnavailable(ConnectionError) the store didn't answer: the name can be free or busy
      NotSupported(NotImplementedError) this store can't do that (see its Capabilities)
      StaleSnapshot                     your transaction reads data from before its row lock
      Deadlock                          your transaction and another waited for each other
      ConfigError(ValueError)           a wrong name, number, option or URL; also a wrong file
        CapacityMismatch                the name is in use as another kind or with another capacity

If the name stays busy, ``acquire(timeout=...)`` raises nothing: it returns ``None``. Only ``with``
raises ``NotAcquired``, and so does a bare ``acquire()`` of a lock that was made with a ``timeout``.
A message names the operation, the name, the time waited, the holder, and the remedy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.model import Loss


class HoldfastError(Exception):
    """The base of all errors that holdfast raises on purpose."""

    def __reduce__(self) -> Any:
        # Unpickling must not call `__init__`, because its parameters differ from `args`. An error
        # that can't be unpickled would end a pool of processes.
        return _again, (type(self), self.args, dict(vars(self)))


def _again(cls: type[HoldfastError], args: tuple[Any, ...], state: dict[str, Any]) -> HoldfastError:
    """Return the pickled or copied error, made again from its parts."""
    made = cls.__new__(cls, *args)
    made.args = args
    vars(made).update(state)
    return made


class NotAcquired(HoldfastError, TimeoutError):
    """A ``with`` statement or a bare ``acquire()`` did not get its lock within its time-out.

    ``name`` is the requested name, or the busy one of several names. ``holder`` is the owner of the
    claim that holds this name (empty if unknown). ``waited``: the seconds spent waiting.
    """

    def __init__(
        self, message: str = "", *, name: str = "", holder: str = "", waited: float = 0.0
    ) -> None:
        super().__init__(message)
        self.name = name
        self.holder = holder
        self.waited = waited


class LockLost(HoldfastError):
    """The hold ended before it was released; ``reason`` is the cause (a :class:`holdfast.Loss`)."""

    def __init__(self, message: str, reason: Loss | None = None) -> None:
        super().__init__(message)
        self.reason = reason


class FenceRejected(LockLost):
    """A fenced resource refused a write, because it has accepted one with a later fence.

    ``fence`` is the refused fence, ``greatest`` the greatest fence that the resource has accepted.
    Each of them is None if unknown.
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
    """A guard has no value; another caller computes it, and it was not ready in time."""


class ComputeFailed(HoldfastError):
    """A guard has no value and the last computation failed. The next attempt starts in ``retry_in``
    seconds."""

    def __init__(self, message: str, retry_in: float = 0.0) -> None:
        super().__init__(message)
        self.retry_in = retry_in


class NotHeld(HoldfastError, RuntimeError):
    """A release, extension, detach or adoption of something that is not, or no longer, held."""


class StoreUnavailable(HoldfastError, ConnectionError):
    """The store did not answer in time, so it is unknown whether the lock is free."""


class NotSupported(HoldfastError, NotImplementedError):
    """The store (or the moment) does not allow this operation; the message names the reason."""


class StaleSnapshot(HoldfastError):
    """A row lock would protect nothing: the transaction reads data from before the last holder.

    Roll back, and start a new transaction that takes the row lock first.
    """


class Deadlock(HoldfastError):
    """The database ended a wait for a row lock, because two transactions waited for each other.

    The transaction has ended: roll back, and start a new one. holdfast doesn't repeat the request,
    because the database also undoes your earlier statements in the transaction.
    """


class ConfigError(HoldfastError, ValueError):
    """A name, number, option, URL or file is not usable; the message names it and the remedy."""


class CapacityMismatch(ConfigError):
    """The name is in use as another kind or with another capacity; both are in the message.

    ``kind`` and ``capacity`` describe ``name`` in the store.
    """

    def __init__(
        self, message: str = "", *, name: str = "", kind: str = "", capacity: int = 0
    ) -> None:
        super().__init__(message)
        self.name = name
        self.kind = kind
        self.capacity = capacity
