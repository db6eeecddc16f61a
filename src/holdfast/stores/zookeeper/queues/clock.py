"""The leader's clock, as far as its answers show it.

A stamp was made between the sending of a request and its answer, so the time of the leader is known
within a round trip. Nothing is decided by that: it says when something is worth a try, and the
answer to the try says whether it was in time.
"""

from __future__ import annotations

#: Seconds after which what was learnt is too old to be waited by, as the leader may have changed.
OLD_S = 5.0


class Clock:
    """Milliseconds of the leader, from those of our own."""

    def __init__(self) -> None:
        self._low = self._high = 0.0
        self._known = False
        self._learnt = 0.0

    def learn(self, stamp: float, sent: float, now: float) -> None:
        """The leader had this time, in seconds, after we sent and before now."""
        low, high = stamp - now, stamp + 0.001 - sent
        if self._known and self._low <= high and self._high >= low:
            low, high = max(low, self._low), min(high, self._high)
        self._low, self._high, self._known, self._learnt = low, high, True, now

    def old(self, now: float) -> bool:
        """Has it learnt nothing for long?"""
        return not self._known or now - self._learnt > OLD_S

    def least(self, now: float) -> int:
        """It is at least so late there."""
        return int((now + self._low) * 1000)

    def most(self, now: float) -> int:
        """It was hardly later than that when something was sent now."""
        return int((now + self._high) * 1000) + 1
