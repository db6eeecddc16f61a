"""Estimates the leader's clock from its answers.

An answer contains the leader's time at a moment between our request and the arrival of the answer.
So the leader's time is known with an error of at most a round trip. This estimate decides only when
a client tries to take a job; the answer then shows whether the job was due.
"""

from __future__ import annotations

#: Maximum age of an estimate in seconds: later, another server may be the leader.
OLD_S = 5.0


class Clock:
    """Converts a time of the local clock to bounds of the leader's time, in milliseconds."""

    def __init__(self) -> None:
        self._low = self._high = 0.0
        self._known = False
        self._learnt = 0.0

    def learn(self, stamp: float, sent: float, now: float) -> None:
        """Use a stamp of the leader, in seconds, that was made between ``sent`` and ``now``."""
        low, high = stamp - now, stamp + 0.001 - sent
        if self._known and self._low <= high and self._high >= low:
            low, high = max(low, self._low), min(high, self._high)
        self._low, self._high, self._known, self._learnt = low, high, True, now

    def old(self, now: float) -> bool:
        """True if the estimate is missing or too old."""
        return not self._known or now - self._learnt > OLD_S

    def least(self, now: float) -> int:
        """Return the earliest time that the leader's clock can show now."""
        return int((now + self._low) * 1000)

    def most(self, now: float) -> int:
        """Return the latest time that the leader's clock probably shows now."""
        return int((now + self._high) * 1000) + 1
