"""A mapping as a cache: with a lock, and a time of expiry for each value."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import MutableMapping
from typing import Any

from ...runtime.blocking import boottime
from ..base import Adapter

#: One lock for all mappings: each call holds it only for a moment, and two guards can share one.
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # another thread of the parent can have held it


if sys.platform != "win32" and hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Shelf(Adapter):
    """A mapping as a cache: it contains each value with the time at which the value expires."""

    def get(self, key: str) -> Any:
        """Return the bytes that were set, or None."""
        with _lock:
            values: MutableMapping[str, Any] = self._cache
            found = values.get(key)
            if found is None or not isinstance(found, tuple):
                return found
            if boottime() < found[1]:
                return found[0]
            values.pop(key, None)
            return None

    def set(self, key: str, data: bytes, seconds: int) -> None:
        """Keep the bytes for about ``seconds`` seconds."""
        with _lock:
            self._cache[key] = (data, boottime() + seconds)

    def delete(self, key: str) -> None:
        """Forget the bytes of this key."""
        with _lock:
            self._cache.pop(key, None)
