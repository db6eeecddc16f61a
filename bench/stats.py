"""The arithmetic: medians, quartiles, tails, and how evenly something was shared."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Spread(NamedTuple):
    """A median, and the quartiles around it: half of the rounds lay between those."""

    median: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """The distance of the quartiles as a part of the median; 0.0 where that is 0."""
        return abs((self.high - self.low) / self.median) if self.median else 0.0


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return float(statistics.median(values))


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return float(statistics.fmean(values))


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest value seen that at least ``part`` of the values don't exceed.

    Never interpolated, so that a tail isn't told better than it was: of fewer than a thousand
    values the 0.999 quantile is the greatest.

    >>> quantile([4.0, 1.0, 3.0, 2.0], 0.5)
    2.0
    >>> quantile(range(100), 0.999)
    99.0
    """
    if not 0.0 < part <= 1.0:
        raise ValueError(f"a part is above 0 and at most 1, not {part}")
    ordered = sorted(values)
    return float(ordered[math.ceil(part * len(ordered) - 1e-9) - 1])


def spread(values: Sequence[float]) -> Spread:
    """The median with its quartiles; one value is its own."""
    middle = median(values)
    if len(values) == 1:
        return Spread(middle, middle, middle)
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(middle, low, high)


def jain(shares: Sequence[float]) -> float:
    """Jain's index of fairness: 1.0 if all got the same, 1/n if one got everything.

    >>> jain([5, 5, 5, 5]), jain([8, 0, 0, 0])
    (1.0, 0.25)
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0
