"""Refresh guards for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from threading import get_ident
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, overload

from ..core import checks
from ..core.context import Context
from ..core.guard.codec import Damaged
from ..core.guard.function import CachedBase, CachedMethodBase
from ..core.guard.guard import DEFAULT, GuardBase
from ..core.guard.model import EntryRecord, GuardCounts
from ..core.guard.refresh import Compute
from ..errors import ConfigError
from .loops import bound, here

P = ParamSpec("P")
Q = ParamSpec("Q")
S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


def _calling(compute: Callable[[], object]) -> Compute:
    checks.function("compute", compute)

    async def call() -> object:
        made = compute()
        if not isinstance(made, Awaitable):
            raise ConfigError(
                f"{checks.shown(compute)} returned {type(made).__name__}, which can't be awaited; "
                "use a coroutine function under asyncio, or Client for blocking functions"
            )
        return await made

    return call


class AsyncGuard(GuardBase):
    """When a value expires, one caller computes it; the others wait for it, or get the old one."""

    def _moved(self, ctx: Context) -> AsyncGuard:
        """Return the same guard for another loop."""
        return AsyncGuard(ctx, self._name, self._options)

    async def get(
        self,
        compute: Callable[[], Awaitable[R]],
        *,
        key: str = "",
        timeout: float | None = DEFAULT,
    ) -> R:
        """Return the value of ``key``: the stored one, or the result of ``compute()``.

        An exception of ``compute`` is raised for the caller that computes. If there is no value to
        serve, this raises ``RefreshTimeout`` if another caller's value didn't come within
        ``timeout`` seconds (None: no limit), and ``ComputeFailed`` if a failure is remembered. A
        value must come back equal and of the same type; any other value raises ``ConfigError``.
        """
        ours = self
        if self._ctx.runs._thread_id != get_ident():
            ours = bound(self)
        near = ours._nearby(key)
        if near is not None:
            try:
                found: R = ours._opened(near)
                return found
            except Damaged:
                pass  # the value is requested again
        return cast(R, await ours._get(key, _calling(compute), timeout))

    async def get_many(
        self,
        keys: Iterable[str],
        compute: Callable[[str], Awaitable[R]],
        *,
        timeout: float | None = DEFAULT,
    ) -> dict[str, R]:
        """Return the values of several keys, in this order: one round trip for all fresh values;
        ``compute(key)`` is called for the other keys, as in ``get``, one after the other."""
        checks.function("compute", compute, " of a key")

        def calling(key: str) -> Compute:
            return _calling(lambda: compute(key))

        return await here(self)._get_many(keys, calling, timeout)

    async def invalidate(self, *keys: str) -> int:
        """Forget the values of these keys (default: the key ``""``); return how many there were.

        After this returns, every caller in every client gets a value whose computation began after
        this call. (With ``local_ttl``, other clients can serve the old value for that time.) The
        value of a computation that is under way is refused.
        """
        return await here(self)._invalidate(keys or ("",))

    async def inspect(self, key: str = "") -> EntryRecord:
        """Inspect one key: its value, the caller that computes the next value, and the failures so
        far."""
        return await here(self)._inspect(key)

    async def stats(self) -> GuardCounts:
        """Return the counts of this guard over all its clients; other clients add theirs every 5
        seconds."""
        return await here(self)._stats()


class AsyncCached(CachedBase, Generic[P, R_co]):
    """A function behind a guard: call it as before."""

    guard: AsyncGuard

    async def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Return the value for these arguments, from the guard or computed."""
        function = self._function
        found: R_co = await self.guard.get(
            lambda: function(*args, **kwargs), key=self._fill(*args, **kwargs)
        )
        return found

    async def invalidate(self, /, *args: P.args, **kwargs: P.kwargs) -> int:
        """Forget the value for these arguments. For a method that is called on its class, the first
        argument is the object."""
        return await self.guard.invalidate(self._key(args, kwargs))

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self: AsyncCached[Concatenate[S, Q], T], instance: S, owner: type | None = None
    ) -> AsyncCachedMethod[Q, T]: ...
    @overload  # a static method
    def __get__(self, instance: object, owner: type | None = None) -> Self: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the method of an object or a class; its ``invalidate`` is bound as well."""
        to = self._bound_to(instance, owner)
        if to is None:
            return self
        method: AsyncCachedMethod[..., Any] = AsyncCachedMethod(self, to)
        return method


class AsyncCachedMethod(CachedMethodBase, Generic[P, R_co]):
    """A cached function as the method of an object."""

    __slots__ = ()

    @property
    def guard(self) -> AsyncGuard:
        """The guard that keeps the values of the method."""
        found: AsyncGuard = self.__func__.guard
        return found

    async def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Return the value for the object and these arguments, from the guard or computed."""
        found: R_co = await self.__func__(self.__self__, *args, **kwargs)
        return found

    async def invalidate(self, /, *args: P.args, **kwargs: P.kwargs) -> int:
        """Forget the value for the object and these arguments."""
        found: int = await self.__func__.invalidate(self.__self__, *args, **kwargs)
        return found


class AsyncCaching:
    """The decorator that ``cached()`` makes."""

    def __init__(self, guard: AsyncGuard, template: str, vary: Iterable[str] | None) -> None:
        self._guard = guard
        self._template = template
        self._vary = vary

    def __call__(self, function: Callable[P, Awaitable[R]]) -> AsyncCached[P, R]:
        """Return the function, behind the guard."""
        found: AsyncCached[P, R] = AsyncCached(self._guard, self._template, function, self._vary)
        found.guard = self._guard
        _mark(found)
        return found


def _mark(function: Any) -> None:
    """Mark the object as a coroutine function, for code that checks this."""
    mark = getattr(inspect, "markcoroutinefunction", None)
    if mark is not None:
        mark(function)
    elif (old := getattr(asyncio.coroutines, "_is_coroutine", None)) is not None:
        function._is_coroutine = old
