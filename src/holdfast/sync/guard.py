"""Refresh guards for threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, overload

from ..core import checks, functions
from ..core.guard.codec import Damaged
from ..core.guard.function import CachedBase, CachedMethodBase
from ..core.guard.guard import DEFAULT, GuardBase
from ..core.guard.model import EntryRecord, GuardCounts
from ..core.guard.refresh import Compute
from ..errors import ConfigError
from ..runtime.blocking import outside, run_sync

P = ParamSpec("P")
Q = ParamSpec("Q")
S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


def _calling(compute: Callable[[], object]) -> Compute:
    checks.function("compute", compute)
    if functions.awaited(compute):
        raise ConfigError(f"{checks.shown(compute)} is a coroutine function; use AsyncClient")

    async def call() -> object:
        return outside(compute)

    return call


class Guard(GuardBase):
    """When a value expires, one caller computes it; the others wait for it, or get the old one."""

    def get(self, compute: Callable[[], R], *, key: str = "", timeout: float | None = DEFAULT) -> R:
        """Return the value of ``key``: the stored one, or the result of ``compute()``.

        An exception of ``compute`` is raised for the caller that computes. If there is no value to
        serve, this raises ``RefreshTimeout`` if another caller's value didn't come within
        ``timeout`` seconds (None: no limit), and ``ComputeFailed`` if a failure is remembered. A
        value must come back equal and of the same type; any other value raises ``ConfigError``.
        """
        near = self._nearby(key)
        if near is not None:
            try:
                found: R = self._opened(near)
                return found
            except Damaged:
                pass  # the value is requested again
        return cast(R, run_sync(self._get(key, _calling(compute), timeout)))

    def get_many(
        self,
        keys: Iterable[str],
        compute: Callable[[str], R],
        *,
        timeout: float | None = DEFAULT,
    ) -> dict[str, R]:
        """Return the values of several keys, in this order: one round trip for all fresh values;
        ``compute(key)`` is called for the other keys, as in ``get``, one after the other."""
        checks.function("compute", compute, " of a key")

        def calling(key: str) -> Compute:
            return _calling(lambda: compute(key))

        return run_sync(self._get_many(keys, calling, timeout))

    def invalidate(self, *keys: str) -> int:
        """Forget the values of these keys (default: the key ``""``); return how many there were.

        After this returns, every caller in every client gets a value whose computation began after
        this call. (With ``local_ttl``, other clients can serve the old value for that time.) The
        value of a computation that is under way is refused.
        """
        return run_sync(self._invalidate(keys or ("",)))

    def inspect(self, key: str = "") -> EntryRecord:
        """Inspect one key: its value, the caller that computes the next value, and the failures so
        far."""
        return run_sync(self._inspect(key))

    def stats(self) -> GuardCounts:
        """Return the counts of this guard over all its clients; other clients add theirs every 5
        seconds."""
        return run_sync(self._stats())


class Cached(CachedBase, Generic[P, R_co]):
    """A function behind a guard: call it as before."""

    guard: Guard

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Return the value for these arguments, from the guard or computed."""
        function = self._function
        found: R_co = self.guard.get(
            lambda: function(*args, **kwargs), key=self._fill(*args, **kwargs)
        )
        return found

    def invalidate(self, /, *args: P.args, **kwargs: P.kwargs) -> int:
        """Forget the value for these arguments. For a method that is called on its class, the first
        argument is the object."""
        return self.guard.invalidate(self._key(args, kwargs))

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self: Cached[Concatenate[S, Q], T], instance: S, owner: type | None = None
    ) -> CachedMethod[Q, T]: ...
    @overload  # a static method
    def __get__(self, instance: object, owner: type | None = None) -> Self: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the method of an object or a class; its ``invalidate`` is bound as well."""
        to = self._bound_to(instance, owner)
        if to is None:
            return self
        method: CachedMethod[..., Any] = CachedMethod(self, to)
        return method


class CachedMethod(CachedMethodBase, Generic[P, R_co]):
    """A cached function as the method of an object."""

    __slots__ = ()

    @property
    def guard(self) -> Guard:
        """The guard that keeps the values of the method."""
        found: Guard = self.__func__.guard
        return found

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Return the value for the object and these arguments, from the guard or computed."""
        found: R_co = self.__func__(self.__self__, *args, **kwargs)
        return found

    def invalidate(self, /, *args: P.args, **kwargs: P.kwargs) -> int:
        """Forget the value for the object and these arguments."""
        found: int = self.__func__.invalidate(self.__self__, *args, **kwargs)
        return found


class Caching:
    """The decorator that ``cached()`` makes."""

    def __init__(self, guard: Guard, template: str, vary: Iterable[str] | None) -> None:
        self._guard = guard
        self._template = template
        self._vary = vary

    def __call__(self, function: Callable[P, R]) -> Cached[P, R]:
        """Return the function, behind the guard."""
        found: Cached[P, R] = Cached(self._guard, self._template, function, self._vary, False)
        found.guard = self._guard
        return found
