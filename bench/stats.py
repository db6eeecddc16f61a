"""Statistics: medians, quartiles, tails, and an index of fairness."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Spread(NamedTuple):
    """A median, and the lower and upper quartile: half of the values are between these two."""

    median: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """The distance of the quartiles as a part of the median; 0.0 if the median is 0."""
        return abs((self.high - self.low) / self.median) if self.median else 0.0


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return float(statistics.median(values))


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean."""
    return float(statistics.fmean(values))


def quantile(values: Sequence[float], part: float) -> float:
    """Return the smallest value that at least ``part`` of the values don't exceed.

    It is never interpolated, so that a tail isn't reported as too good: the 0.999 quantile of fewer
    than a thousand values is the greatest one.

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
    """Return the median with its quartiles; of a single value, all three are this value."""
    middle = median(values)
    if len(values) == 1:
        return Spread(middle, middle, middle)
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(middle, low, high)


def jain(shares: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1.0 if all shares are equal, 1/n if one got everything.

    >>> jain([5, 5, 5, 5]), jain([8, 0, 0, 0])
    (1.0, 0.25)
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0
