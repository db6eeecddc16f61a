"""The side connections of a process or an event loop, by database, and the rows they have seen."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from .model import Row

S = TypeVar("S")
#: Maximum number of databases with open side connections.
DATABASES = 32
#: Maximum number of remembered rows, and the seconds for which one is expected to exist.
SEEN, SEEN_S = 10_000, 600.0


class Spares(Generic[S]):
    """One object for each key; a new one replaces the one that was unused for the longest time."""

    def __init__(self, drop: Callable[[S], object]) -> None:
        self._drop = drop
        self._known: OrderedDict[Hashable, S] = OrderedDict()

    def of(self, key: Hashable, make: Callable[[], S]) -> S:
        """Return the object of a key; make one if there is none.

        Threads can call it at the same time: then an extra object is made, and used once."""
        found = self._known.pop(key, None)
        if found is None:
            found = make()
        self._known[key] = found
        while len(self._known) > DATABASES:
            _, oldest = self._known.popitem(last=False)
            self._drop(oldest)
        return found

    def clear(self) -> None:
        """Drop all of them."""
        while self._known:
            _, one = self._known.popitem()
            self._drop(one)


class Seen:
    """Rows that existed not long ago, so that no side connection has to check them again.

    This only saves a round trip. A caller that finds the row gone creates it again, or gets an
    error and must start a new transaction.
    """

    def __init__(self) -> None:
        self._until: OrderedDict[Row, float] = OrderedDict()

    def has(self, row: Row, now: float) -> bool:
        """True if the row existed not long ago."""
        return self._until.get(row, 0.0) > now

    def note(self, row: Row, now: float) -> None:
        """Note that the row exists now."""
        self._until.pop(row, None)
        self._until[row] = now + SEEN_S
        while len(self._until) > SEEN:
            with contextlib.suppress(KeyError):  # another thread has dropped it
                self._until.popitem(last=False)

    def forget(self, row: Row) -> None:
        """Forget the row, which can be gone."""
        self._until.pop(row, None)
