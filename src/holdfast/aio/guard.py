"""Refresh guards for asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from ..core.guard.guard import DEFAULT, GuardBase
from ..core.guard.model import EntryRecord, Tally
from ..core.guard.refresh import Compute
from ..core.template import filler
from ..errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


def _calling(compute: Callable[[], object]) -> Compute:
    async def call() -> object:
        made = compute()
        if not isinstance(made, Awaitable):
            raise ConfigError(
                f"{compute!r:.80} gave {type(made).__name__}, which can't be awaited; take a "
                "coroutine function under asyncio, or Client for functions that block"
            )
        return await made

    return call


class AsyncGuard(GuardBase):
    """One caller computes a value when it expires; the others wait for it, or take the old one."""

    async def get(
        self,
        compute: Callable[[], Awaitable[R]],
        *,
        key: str = "",
        timeout: float | None = DEFAULT,
    ) -> R:
        """The value of ``key``: as it is kept, or what ``compute()`` gives.

        Whatever ``compute`` raises comes out at the one caller who computes. With nothing to serve:
        ``RefreshTimeout`` if another's value wasn't there within ``timeout`` seconds (None: wait
        without end), ``ComputeFailed`` if a failure is remembered. A value comes back as JSON has
        it, also to who computed it: a tuple as a list.
        """
        near = self._nearby(key)
        if near is not None:
            return cast(R, self._opened(near))
        return cast(R, await self._get(key, _calling(compute), timeout))

    async def get_many(
        self,
        keys: Iterable[str],
        compute: Callable[[str], Awaitable[R]],
        *,
        timeout: float | None = DEFAULT,
    ) -> dict[str, R]:
        """The values of several keys, in this order: one round trip for those that are fresh;
        ``compute(key)`` is called for others, as in ``get``, one after the other."""

        def calling(key: str) -> Compute:
            return _calling(lambda: compute(key))

        return await self._get_many(keys, calling, timeout)

    async def invalidate(self, *keys: str) -> int:
        """Forget the values of these keys (none named: of the key ``""``); how many there were.

        Whoever asks after this returned gets a value that was computed from after it was called,
        in every process (but for what ``local`` allows there): what is being computed is refused.
        """
        return await self._invalidate(keys or ("",))

    async def look(self, key: str = "") -> EntryRecord:
        """How the value of a key stands, who computes the next, and how often that failed."""
        return await self._look(key)

    async def stats(self) -> Tally:
        """What was counted of this guard, by all its clients: others tell it every 5 seconds."""
        return await self._stats()


class AsyncCached(Protocol[P, R_co]):
    """A function behind a guard: call it as before."""

    guard: AsyncGuard

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Its value for these arguments, from the guard or computed."""
        ...

    async def invalidate(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """Forget its value for these arguments."""
        ...


class AsyncCaching:
    """The decorator that ``cached()`` makes."""

    def __init__(self, guard: AsyncGuard, template: str) -> None:
        self._guard = guard
        self._template = template

    def __call__(self, function: Callable[P, Awaitable[R]]) -> AsyncCached[P, R]:
        """The function, behind the guard."""
        fill, guard = filler(self._template, function, "a guard"), self._guard

        @wraps(function)
        async def ask(*args: P.args, **kwargs: P.kwargs) -> R:
            return await guard.get(lambda: function(*args, **kwargs), key=fill(*args, **kwargs))

        async def invalidate(*args: P.args, **kwargs: P.kwargs) -> int:
            return await guard.invalidate(fill(*args, **kwargs))

        found = cast(Any, ask)
        found.guard, found.invalidate = guard, invalidate
        return cast("AsyncCached[P, R]", found)
