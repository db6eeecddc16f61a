"""The time of the next attempt of a claim that stands in no line.

A claim that hears of changes tries at once when there was one, and else so rarely that a lost
message costs little. A claim that hears nothing tries again after a time that doubles, up to a
limit. No claim waits beyond the moment at which the key expires.
"""

from __future__ import annotations

#: Seconds after which a claim that hears of changes tries again all the same.
SURE_S = 1.5
#: Seconds after which a claim that hears nothing tries again, twice as many the next time...
FIRST_S = 0.1
#: ...and never more than these.
LONGEST_S = 1.35
#: Seconds after the expected expiry of a key at which it is gone for sure.
EXPIRED_S = 0.002


class Wait:
    """One claim that waits. It knows no clock: the time that passes is told to it."""

    __slots__ = ("_chance", "_expires", "_turns", "armed", "heard", "left")

    def __init__(self, claim_id: str) -> None:
        #: Seconds until it is to try again.
        self.left = 0.0
        #: Was the server asked to tell of the next change? Has it?
        self.armed = self.heard = False
        #: Seconds until the key expires, as it was when it was last looked at.
        self._expires = 0.0
        self._turns = 0
        #: From 0 to 1, another one for each claim, so that they don't try at the same moments.
        self._chance = int(claim_id[:4], 16) / 0xFFFF

    @property
    def knows(self) -> bool:
        """Has nothing happened that asks for another look at the key?"""
        return self._expires > 0 and not self.heard

    def again(self, taken: float | None, armed: bool) -> float:
        """It tried, and the key is taken for ``taken`` seconds (None: it wasn't looked at): seconds
        until it is to try again. ``armed``: it hears of the next change."""
        self.armed, self.heard = armed, False
        if armed:
            pause = SURE_S
        else:
            pause = min(FIRST_S * 2.0 ** min(self._turns, 12), LONGEST_S)
            pause *= 0.75 + 0.25 * self._chance
            self._turns += 1
        if taken is not None:
            self._expires = taken
        if self._expires > 0:
            pause = min(pause, self._expires + EXPIRED_S)
        self.left = pause
        return pause

    def slept(self, seconds: float, heard: bool) -> None:
        """``seconds`` have passed, and it has heard of a change, or hasn't."""
        self.heard = self.heard or heard
        self._expires -= seconds
        self.left = 0.0 if heard else max(0.0, self.left - seconds)
