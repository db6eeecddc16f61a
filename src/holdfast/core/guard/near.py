"""The local cache: values that this client read a moment ago, served without a round trip.

A value is served from here for at most ``local_ttl`` seconds, and only while it is fresh. The time
counts from the *sending* of the request that read the value. So this cache is behind the store by
at most ``local_ttl`` seconds. An invalidation by this client (an `AsyncClient`: in the same event
loop) removes the values at once. Other clients, even in this process, and other event loops have
separate caches.
"""

from __future__ import annotations

import contextlib

from .model import Value


class Near:
    """The local cache of the guards of one name."""

    __slots__ = ("_held", "era")

    def __init__(self) -> None:
        #: The value, the time when the request for it was sent, and the time until which the value
        #: is fresh.
        self._held: dict[str, tuple[bytes, float, float]] = {}
        #: Counts the invalidations by this client (an `AsyncClient`: in the same event loop): a
        #: value that was requested before an invalidation is not added.
        self.era = 0

    def get(self, key: str, now: float, span: float) -> bytes | None:
        """Return the value, if it is in this cache, is fresh, and was requested within ``span``
        seconds."""
        found = self._held.get(key)
        if found is None or now >= found[2] or now >= found[1] + span:
            return None
        return found[0]

    def put(self, key: str, value: Value, sent: float, era: int, size: int) -> None:
        """Keep a value whose request was sent at ``sent`` in ``era``; keep at most ``size``."""
        if value.fresh_in <= 0 or era != self.era:
            return
        self._held.pop(key, None)  # so that the oldest are in front
        self._held[key] = (value.data, sent, sent + value.fresh_in)
        if len(self._held) > size:
            # Another thread can change the dict at the same time; then that thread drops a value,
            # too.
            with contextlib.suppress(RuntimeError, StopIteration):
                self._held.pop(next(iter(self._held)), None)

    def forget(self, *keys: str) -> None:
        """Begin a new era, and forget the values of these keys."""
        self.era += 1
        for key in keys:
            self._held.pop(key, None)
