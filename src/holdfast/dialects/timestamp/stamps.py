"""Timestamps: what stands at a key, and what is known of it."""

from __future__ import annotations

import math

from ...core.model import Claim

#: A time of expiry that differs by so little from the one that was written, seconds, after a stale
#: key was taken over, was written by somebody who came second, and lost.
DRIFT_S = 1.0
#: This part of a lifetime is random, so that two claims rarely write the same time. They still may
#: (in seconds all claims of one second do), so an equal time never proves whose it is.
_SPREAD = 0.005
_DIGITS_MAX = 14


class Stamps:
    """Reads and writes times of expiry, in milliseconds or in seconds."""

    def __init__(self, seconds: bool) -> None:
        self._per_second = 1 if seconds else 1000

    def new(self, claim: Claim, ttl: float, now: float) -> bytes:
        """What to write for a life of ``ttl`` seconds from now."""
        if self._per_second == 1:
            return b"%d" % math.ceil(now + ttl)
        chance = int(claim.id[:6], 16) / 0xFFFFFF
        return b"%d" % math.floor((now + ttl * (1 - _SPREAD * chance)) * 1000)

    def left(self, stamp: bytes, now: float) -> float | None:
        """Seconds until the time that stands there; None if that is no time."""
        if not stamp.isdigit() or len(stamp) > _DIGITS_MAX:
            return None
        return int(stamp) / self._per_second - now

    def close(self, stamp: bytes, mine: bytes) -> bool:
        """Are both nearly the same time?"""
        drift = (int(stamp) - int(mine)) / self._per_second
        return abs(drift) < DRIFT_S


class Mine:
    """What a claim of ours has written."""

    __slots__ = ("over", "sent", "stamp", "trying")

    def __init__(self) -> None:
        #: What stands there if we hold: an answer has said that it was written.
        self.stamp = b""
        #: What a renewal was to write whose answer never came.
        self.sent = b""
        #: Is a request under way that may have taken the key? Its answer alone can say so.
        self.trying = False
        #: Was a stale key taken over? Then others may have tried so, too, a moment later.
        self.over = False

    def took(self, stamp: bytes, over: bool = False) -> None:
        """An answer said that this time was written while the key was free or stale."""
        self.stamp, self.over, self.trying = stamp, over, False
