"""The size of a run: a whole run, or a quick run that only shows that everything works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Scale:
    """Chooses between two sizes. ``rounds`` overrides the suites' number of rounds; 0 doesn't."""

    quick: bool = False
    rounds: int = 0

    def of(self, whole: T, quick: T) -> T:
        """Return ``quick`` in a quick run, else ``whole``."""
        return quick if self.quick else whole

    def rounds_of(self, whole: int, quick: int) -> int:
        """Return the number of rounds: that of the user, or the one for the size of the run."""
        return self.rounds or self.of(whole, quick)
