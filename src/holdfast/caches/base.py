"""The methods that a guard needs from a cache, and the error of a failing cache."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any, Protocol

from ..errors import HoldfastError, StoreUnavailable


class Cache(Protocol):
    """An object for ``cache=``: it has these methods, plain or as coroutine functions.

    ``get(key)`` returns the bytes that were set, or None. ``set(key, data, seconds)`` keeps the
    bytes for about ``seconds`` (a whole number). ``delete(key)`` forgets the bytes, if they exist.
    A key is ASCII without blanks, at most 200 characters. Optional: ``get_all(keys)`` returns a
    mapping of the existing values, so that ``get_many`` of a guard takes one round trip. Under
    asyncio, ``aget``, ``aset``, ``adelete`` and ``aget_all`` are used if they exist.
    """

    def get(self, key: str) -> Any:
        """Return the bytes that were set, or None."""
        ...

    def set(self, key: str, data: bytes, seconds: int) -> Any:
        """Keep the bytes for about ``seconds`` seconds."""
        ...

    def delete(self, key: str) -> Any:
        """Forget the bytes of this key."""
        ...


@contextlib.contextmanager
def told(cache: object) -> Generator[None]:
    """Turn an exception of the cache into ``StoreUnavailable``. An error that shows a wrong use
    stays unchanged."""
    try:
        yield
    except (HoldfastError, TypeError, AttributeError, NotImplementedError):
        raise
    except Exception as failure:
        raise StoreUnavailable(
            f"{_words(cache)} failed: {type(failure).__name__}: {failure}"
        ) from failure


def given(cache: object) -> object:
    """Return the cache under an adapter; return any other cache unchanged."""
    return cache._cache if isinstance(cache, Adapter) else cache


def _words(cache: object) -> str:
    inner = given(cache)
    return f"the cache ({type(inner).__module__}.{type(inner).__qualname__})"


class Adapter:
    """A cache of a known library."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __repr__(self) -> str:
        return f"<{type(self).__name__.strip('_')} over {type(self._cache).__name__}>"
