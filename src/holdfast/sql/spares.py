"""Stores side connections by database, and remembers which rows exist.

There is one `Spares` for the threads of a process, and one for each event loop."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from .model import Row

S = TypeVar("S")
#: Maximum number of databases with open side connections.
DATABASES = 32
#: Maximum number of remembered rows, and the seconds for which a row is remembered.
SEEN, SEEN_S = 10_000, 600.0


class Spares(Generic[S]):
    """At most `DATABASES` objects by key; beyond that, the least recently used one is dropped."""

    def __init__(self, drop: Callable[[S], object]) -> None:
        self._drop = drop
        self._known: OrderedDict[Hashable, S] = OrderedDict()

    def of(self, key: Hashable, make: Callable[[], S]) -> S:
        """Return the object of a key; make one if there is none.

        If two threads call this at the same time, each can make an object. Only one is stored."""
        found = self._known.pop(key, None)
        if found is None:
            found = make()
        self._known[key] = found
        while len(self._known) > DATABASES:
            _, oldest = self._known.popitem(last=False)
            self._drop(oldest)
        return found

    def clear(self) -> None:
        """Drop all objects."""
        while self._known:
            _, one = self._known.popitem()
            self._drop(one)


class Seen:
    """Rows that existed a short time ago, so that no side connection has to check them again.

    These records save a round trip. If a row has been removed since, `take` creates it again, or
    raises an error after which the caller must start a new transaction.
    """

    def __init__(self) -> None:
        self._until: OrderedDict[Row, float] = OrderedDict()

    def has(self, row: Row, now: float) -> bool:
        """Return True if the row existed a short time ago."""
        return self._until.get(row, 0.0) > now

    def note(self, row: Row, now: float) -> None:
        """Record that the row exists now."""
        self._until.pop(row, None)
        self._until[row] = now + SEEN_S
        while len(self._until) > SEEN:
            with contextlib.suppress(KeyError):  # another thread has dropped it
                self._until.popitem(last=False)

    def forget(self, row: Row) -> None:
        """Forget the row, because it can have been removed."""
        self._until.pop(row, None)
