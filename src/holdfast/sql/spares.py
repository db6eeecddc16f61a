"""The separate connections of a process or an event loop, by database, and what they have seen."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from .model import Row

S = TypeVar("S")
#: Databases that separate connections are kept open to.
DATABASES = 32
#: Rows that are taken to be there because they were seen, and for how long, seconds.
SEEN, SEEN_S = 10_000, 600.0


class Spares(Generic[S]):
    """One of something for each key; the one not asked for longest makes room for a new one."""

    def __init__(self, drop: Callable[[S], object]) -> None:
        self._drop = drop
        self._known: OrderedDict[Hashable, S] = OrderedDict()

    def of(self, key: Hashable, make: Callable[[], S]) -> S:
        """That of a key, made if there is none. May be called by many threads at once: then one
        too many may be made, and is used once."""
        found = self._known.pop(key, None)
        if found is None:
            found = make()
        self._known[key] = found
        while len(self._known) > DATABASES:
            _, oldest = self._known.popitem(last=False)
            self._drop(oldest)
        return found

    def clear(self) -> None:
        """Let go of all of them."""
        while self._known:
            _, one = self._known.popitem()
            self._drop(one)


class Seen:
    """Rows that were there not long ago, so that nobody has to look beside for them again.

    It saves a round trip and is believed for nothing else: who finds the row gone all the same has
    it made again, or is told to start a new transaction.
    """

    def __init__(self) -> None:
        self._until: OrderedDict[Row, float] = OrderedDict()

    def has(self, row: Row, now: float) -> bool:
        """Was it there?"""
        return self._until.get(row, 0.0) > now

    def note(self, row: Row, now: float) -> None:
        """It is there now."""
        self._until.pop(row, None)
        self._until[row] = now + SEEN_S
        while len(self._until) > SEEN:
            with contextlib.suppress(KeyError):  # another thread has dropped it
                self._until.popitem(last=False)

    def forget(self, row: Row) -> None:
        """It may be gone."""
        self._until.pop(row, None)
