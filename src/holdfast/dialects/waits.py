"""Computes when a waiter of a dialect without a line tries again.

A waiter that receives notifications tries immediately after a change. It also tries at fixed
intervals, so that a lost message costs little. A waiter without notifications pauses between two
tries; the pause doubles each time, up to a limit. No pause ends later than the key expires.
"""

from __future__ import annotations

#: Maximum seconds between two tries of a waiter with notifications, if none arrives.
SURE_S = 1.5
#: The first pause, in seconds, of a waiter without notifications. It doubles with each try.
FIRST_S = 0.1
#: The maximum pause, in seconds, of a waiter without notifications.
LONGEST_S = 1.35
#: Seconds after the expected expiry of a key until it is certainly gone.
EXPIRED_S = 0.002


class Wait:
    """The state of one waiter. It has no clock: the caller reports the time that has passed."""

    __slots__ = ("_chance", "_expires", "_turns", "armed", "heard", "left")

    def __init__(self, claim_id: str) -> None:
        #: Seconds until the waiter's next try.
        self.left = 0.0
        #: ``armed``: a notification of the next change is requested. ``heard``: it was received.
        self.armed = self.heard = False
        #: Seconds until the key expires, from the last read of the key.
        self._expires = 0.0
        self._turns = 0
        #: A number from 0 to 1 for each claim, so that claims don't try at the same moments.
        self._chance = int(claim_id[:4], 16) / 0xFFFF

    @property
    def knows(self) -> bool:
        """True if the last known expiry is still valid, so that the key needs no new read."""
        return self._expires > 0 and not self.heard

    def again(self, taken: float | None, armed: bool) -> float:
        """Note a try without success; return the seconds until the next try.

        ``taken``: seconds until the key expires; None if this try didn't read the expiry.
        ``armed``: a notification of the next change is requested."""
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
        """Note that ``seconds`` have passed; ``heard``: a notification of a change has arrived."""
        self.heard = self.heard or heard
        self._expires -= seconds
        self.left = 0.0 if heard else max(0.0, self.left - seconds)
