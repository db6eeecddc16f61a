"""Estimates the leader's clock from its answers.

The leader made a stamp between the request and its answer, so its time is known to within a round
trip. This estimate decides only when to try; the answer to the try shows whether that was in time.
"""

from __future__ import annotations

#: Maximum age in seconds of an estimate to wait by: after that the leader may have changed.
OLD_S = 5.0


class Clock:
    """Converts our time to bounds of the leader's time, in milliseconds."""

    def __init__(self) -> None:
        self._low = self._high = 0.0
        self._known = False
        self._learnt = 0.0

    def learn(self, stamp: float, sent: float, now: float) -> None:
        """Learn a stamp of the leader, in seconds, made between ``sent`` and ``now``."""
        low, high = stamp - now, stamp + 0.001 - sent
        if self._known and self._low <= high and self._high >= low:
            low, high = max(low, self._low), min(high, self._high)
        self._low, self._high, self._known, self._learnt = low, high, True, now

    def old(self, now: float) -> bool:
        """True if the estimate is missing or too old."""
        return not self._known or now - self._learnt > OLD_S

    def least(self, now: float) -> int:
        """The earliest possible time of the leader now."""
        return int((now + self._low) * 1000)

    def most(self, now: float) -> int:
        """The latest time that the leader probably had now."""
        return int((now + self._high) * 1000) + 1
