"""Caches for one event loop."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.guard.elsewhere import CachePort
from ..errors import StoreUnavailable
from ..runtime.blocking import walltime
from ..runtime.timers.aio import time_limit
from .adapters import adapted
from .base import given, told


class Port:
    """A cache for asyncio. The result of a call is awaited if it can be; a blocking call blocks the
    loop."""

    wall = staticmethod(walltime)

    def __init__(self, cache: Any) -> None:
        self._cache = adapted(cache)
        self.given = given(self._cache)

        def call(name: str) -> Any:
            return getattr(self._cache, "a" + name, None) or getattr(self._cache, name, None)

        self._get, self._set, self._delete = call("get"), call("set"), call("delete")
        self._all = call("get_all")

    async def _asked(self, within: float, call: Callable[..., Any], *given: Any) -> Any:
        try:
            async with time_limit(within):
                with told(self._cache):
                    answer = call(*given)
                    return await answer if inspect.isawaitable(answer) else answer
        except TimeoutError as late:
            raise StoreUnavailable(f"the cache did not answer within {within:g} s") from late

    async def read(self, keys: Sequence[str], within: float) -> Mapping[str, object]:
        """See ``core.guard.elsewhere.CachePort``."""
        if len(keys) > 1 and self._all is not None:
            found: Mapping[str, object] = await self._asked(within, self._all, keys)
            return found
        return {key: await self._asked(within, self._get, key) for key in keys}

    async def write(self, key: str, data: bytes, seconds: int, within: float) -> None:
        """See ``core.guard.elsewhere.CachePort``."""
        await self._asked(within, self._set, key, data, seconds)

    async def drop(self, key: str, within: float) -> None:
        """See ``core.guard.elsewhere.CachePort``."""
        await self._asked(within, self._delete, key)


def port(cache: object) -> CachePort | None:
    """Return the port of a cache that was given to a guard, for asyncio."""
    return None if cache is None else Port(cache)
