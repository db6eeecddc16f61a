"""How much is measured: a whole run, or a quick one that only shows that everything works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Scale:
    """Chooses the amounts. ``rounds`` overrides what the suites would take; 0 leaves it."""

    quick: bool = False
    rounds: int = 0

    def of(self, whole: T, quick: T) -> T:
        """One of the two."""
        return quick if self.quick else whole

    def rounds_of(self, whole: int, quick: int) -> int:
        """So many rounds, unless the caller wanted another number."""
        return self.rounds or self.of(whole, quick)
