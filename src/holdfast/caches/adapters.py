"""Adapters that give the caches of other libraries the methods of `Cache`."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from ..core.checks import shown
from ..errors import ConfigError
from .base import Adapter, Cache

#: The module with Django's caches; imported when one is used.
_DJANGO = "django.core.cache"


def adapted(cache: Any) -> Any:
    """Return the given cache with the methods of `Cache`; ``ConfigError`` if that is impossible."""
    if isinstance(cache, Adapter):
        return cache
    packages = {one.__module__.partition(".")[0] for one in type(cache).__mro__}
    for package, adapter in (("django", django), ("aiocache", aiocache), ("cashews", cashews)):
        if package in packages:
            return adapter(cache)
    if isinstance(cache, MutableMapping):
        return mapping(cache)
    if isinstance(cache, type) or not all(hasattr(cache, w) for w in ("get", "set", "delete")):
        raise ConfigError(
            f"cache={shown(cache)} can't keep values: it needs get(key), set(key, data, seconds) "
            "and delete(key); see holdfast.caches"
        )
    return cache


# -- Django ----------------------------------------------------------------------------------------


class _Django(Adapter):
    """A cache of Django. A cache given by its alias is looked up for each call, because Django has
    a separate connection for each thread."""

    def _found(self) -> Any:
        if not isinstance(self._cache, str):
            return self._cache
        return importlib.import_module(_DJANGO).caches[self._cache]

    def get(self, key: str) -> Any:
        return self._found().get(key)

    def set(self, key: str, data: bytes, seconds: int) -> None:
        self._found().set(key, data, timeout=seconds)

    def delete(self, key: str) -> None:
        self._found().delete(key)

    def get_all(self, keys: Sequence[str]) -> Any:
        return self._found().get_many(keys)

    async def aget(self, key: str) -> Any:
        return await self._found().aget(key)

    async def aset(self, key: str, data: bytes, seconds: int) -> None:
        await self._found().aset(key, data, timeout=seconds)

    async def adelete(self, key: str) -> None:
        await self._found().adelete(key)

    async def aget_all(self, keys: Sequence[str]) -> Any:
        return await self._found().aget_many(keys)


def django(cache: Any = "default") -> Cache:
    """One of Django's caches, by its alias in ``CACHES`` or as an object.

    Under asyncio, Django's asynchronous methods are called, which use a thread.
    """
    try:
        importlib.import_module(_DJANGO)
    except ImportError as missing:
        raise ConfigError(f"caches.django() needs Django ({missing})") from missing
    if not isinstance(cache, str):
        _check("caches.django()", cache, "get", "set", "delete", "get_many", "aget")
    return _Django(cache)


# -- for asyncio -----------------------------------------------------------------------------------


class _Aiocache(Adapter):
    """A cache of aiocache; values are stored as text, which each of its serializers preserves."""

    async def get(self, key: str) -> Any:
        return await self._cache.get(key)

    async def set(self, key: str, data: bytes, seconds: int) -> None:
        await self._cache.set(key, base64.b64encode(data).decode(), ttl=seconds)

    async def delete(self, key: str) -> None:
        await self._cache.delete(key)

    async def get_all(self, keys: Sequence[str]) -> Mapping[str, Any]:
        return dict(zip(keys, await self._cache.multi_get(list(keys)), strict=True))


def aiocache(cache: Any) -> Cache:
    """A cache of aiocache, with any serializer; for ``AsyncClient``."""
    _check("caches.aiocache()", cache, "get", "set", "delete", "multi_get")
    return _Aiocache(cache)


class _Cashews(Adapter):
    """A cache of cashews."""

    async def get(self, key: str) -> Any:
        return await self._cache.get(key)

    async def set(self, key: str, data: bytes, seconds: int) -> None:
        await self._cache.set(key, data, expire=seconds)

    async def delete(self, key: str) -> None:
        await self._cache.delete(key)

    async def get_all(self, keys: Sequence[str]) -> Mapping[str, Any]:
        return dict(zip(keys, await self._cache.get_many(*keys), strict=True))


def cashews(cache: Any) -> Cache:
    """A cache of cashews, configured by its ``setup()``; for ``AsyncClient``."""
    _check("caches.cashews()", cache, "get", "set", "delete", "get_many", "get_or_set")
    return _Cashews(cache)


# -- mappings --------------------------------------------------------------------------------------


def mapping(values: MutableMapping[str, Any]) -> Cache:
    """A mapping in this process, such as ``cachetools.TTLCache``: locked while it is used.

    Other processes don't see the mapping. So each process computes its own values (one process
    after the other), and an invalidation reaches only the process that makes it. Use a bounded
    mapping: a plain ``dict`` drops a value only if the value is requested after its expiry.
    """
    from .shelf.blocking import Shelf

    if not isinstance(values, MutableMapping):
        raise ConfigError(f"caches.mapping() takes a mapping; {shown(values)} isn't one")
    return Shelf(values)


def _check(what: str, cache: object, *needed: str) -> None:
    lacking = [one for one in needed if not hasattr(cache, one)]
    if isinstance(cache, type):
        raise ConfigError(f"{what} takes a cache, not the class {shown(cache)}")
    if lacking:
        raise ConfigError(f"{what} can't use {shown(cache)}: it has no {lacking[0]}()")
