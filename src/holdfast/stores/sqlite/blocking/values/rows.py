"""The rows of an entry in the database."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

from .....core.guard.model import Entry, Value


@dataclass(slots=True)
class DutyRow:
    """The refresh lease of an entry, and its failures; see ``values.sql``."""

    guard: str
    key: str
    id: str = ""
    owner: str = ""
    session: str = ""
    fence: int = 0
    lease: float = 0.0
    failures: int = 0
    pause: float = 0.0
    failed: float = 0.0
    reason: str = ""
    until: float = 0.0

    def tidy(self, now: float) -> None:
        """Remove an expired refresh lease, and expired failures."""
        if self.id and now >= self.lease:
            self.over()
        if now >= self.failed:
            self.failures, self.reason = 0, ""
        # A pause ends at the latest when its failure is forgotten, unless the row was damaged.
        self.pause = min(self.pause, self.failed)

    def over(self) -> None:
        """End the refresh lease."""
        self.id = self.owner = self.session = ""

    def values(self) -> tuple[Any, ...]:
        """The columns of the row, for writing."""
        self.until = max(self.failed if self.failures else 0.0, self.lease if self.id else 0.0)
        return astuple(self)


def value_of(row: tuple[Any, ...] | None, now: float) -> Value | None:
    """Return the value in a row of the statement ``value``; None if it has expired."""
    if row is None or now >= row[2]:
        return None
    fresh, stale, _, cost, version, data = row
    return Value(data, fresh - now, stale - now, cost, version)


def topic(entry: Entry) -> str:
    """Return the topic, as in ``ears.py``, of the waiters for an entry's value."""
    return f"{len(entry.guard)} {entry.guard}{entry.key}"
