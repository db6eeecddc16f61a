"""Caches for threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.checks import shown
from ..core.guard.elsewhere import CachePort
from ..errors import ConfigError
from ..runtime.blocking import walltime
from .adapters import adapted
from .base import given, told


class Port:
    """A cache whose calls block."""

    wall = staticmethod(walltime)

    def __init__(self, cache: Any) -> None:
        import inspect  # here, because it is slow to import and only this needs it

        self._cache = adapted(cache)
        self.given = given(self._cache)
        self._all = getattr(self._cache, "get_all", None)
        for call in (self._cache.get, self._cache.set, self._cache.delete):
            if inspect.iscoroutinefunction(call):
                raise ConfigError(
                    f"cache={shown(cache)} is for asyncio; use it with AsyncClient, or another "
                    "cache here"
                )

    async def read(self, keys: Sequence[str], within: float) -> Mapping[str, object]:
        """See ``core.guard.elsewhere.CachePort``."""
        with told(self._cache):
            if len(keys) > 1 and self._all is not None:
                found: Mapping[str, object] = self._all(keys)
                return found
            return {key: _there(self._cache.get(key)) for key in keys}

    async def write(self, key: str, data: bytes, seconds: int, within: float) -> None:
        """See ``core.guard.elsewhere.CachePort``."""
        with told(self._cache):
            _there(self._cache.set(key, data, seconds))

    async def drop(self, key: str, within: float) -> None:
        """See ``core.guard.elsewhere.CachePort``."""
        with told(self._cache):
            _there(self._cache.delete(key))


def _there(answer: object) -> object:
    if hasattr(answer, "__await__"):
        raise ConfigError("this cache is for asyncio: its replies must be awaited")
    return answer


def port(cache: object) -> CachePort | None:
    """Return the port of a cache that was given to a guard, for threads."""
    return None if cache is None else Port(cache)
