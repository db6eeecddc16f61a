"""The local cache: values that this client read a moment ago, served without a round trip.

A value is served from here for at most ``local`` seconds from the *sending* of the request that
brought it, and no longer than it is fresh: that is the bound on how much older an answer may be
than the store's. An invalidation by this client (an `AsyncClient`: in the same event loop) empties
it at once; other clients, also those of this process, and other loops have one each.
"""

from __future__ import annotations

import contextlib

from .model import Value


class Near:
    """Values that were read a moment ago."""

    __slots__ = ("_held", "era")

    def __init__(self) -> None:
        #: The value, when its request was sent, and until when it is fresh.
        self._held: dict[str, tuple[bytes, float, float]] = {}
        #: Counts the invalidations by this client (an `AsyncClient`: in the same event loop): what
        #: was asked for before one isn't put in.
        self.era = 0

    def get(self, key: str, now: float, span: float) -> bytes | None:
        """The value, if it is there, fresh, and was asked for within so many seconds."""
        found = self._held.get(key)
        if found is None or now >= found[2] or now >= found[1] + span:
            return None
        return found[0]

    def put(self, key: str, value: Value, sent: float, era: int, size: int) -> None:
        """Keep what a request brought that was sent then, in that era, among so many."""
        if value.fresh_in <= 0 or era != self.era:
            return
        self._held.pop(key, None)  # so that the oldest stand in front
        self._held[key] = (value.data, sent, sent + value.fresh_in)
        if len(self._held) > size:
            # Another thread may change it just now, and then drops one, too.
            with contextlib.suppress(RuntimeError, StopIteration):
                self._held.pop(next(iter(self._held)), None)

    def forget(self, *keys: str) -> None:
        """Another era: these are not valid any more."""
        self.era += 1
        for key in keys:
            self._held.pop(key, None)
