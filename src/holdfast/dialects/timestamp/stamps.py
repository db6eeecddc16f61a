"""Timestamps: the values of keys, and the state of our claims."""

from __future__ import annotations

import math

from ...core.model import Claim

#: After a take-over of a stale key: if the key's time differs from the one that we wrote by less
#: than this number of seconds, another client wrote it just after us, and lost.
DRIFT_S = 1.0
#: This part of a ttl is random, so that two claims rarely write the same time. They still can (with
#: whole seconds all claims of one second do), so an equal time never proves whose it is.
_SPREAD = 0.005
_DIGITS_MAX = 14


class Stamps:
    """Reads and writes times of expiry, in milliseconds or in seconds."""

    def __init__(self, seconds: bool) -> None:
        self._per_second = 1 if seconds else 1000

    def new(self, claim: Claim, ttl: float, now: float) -> bytes:
        """Return the timestamp for a ttl of ``ttl`` seconds from now."""
        if self._per_second == 1:
            return b"%d" % math.ceil(now + ttl)
        chance = int(claim.id[:6], 16) / 0xFFFFFF
        return b"%d" % math.floor((now + ttl * (1 - _SPREAD * chance)) * 1000)

    def left(self, stamp: bytes, now: float) -> float | None:
        """Return the seconds until a timestamp; None if it isn't one."""
        if not stamp.isdigit() or len(stamp) > _DIGITS_MAX:
            return None
        return int(stamp) / self._per_second - now

    def close(self, stamp: bytes, mine: bytes) -> bool:
        """True if both timestamps are nearly the same."""
        drift = (int(stamp) - int(mine)) / self._per_second
        return abs(drift) < DRIFT_S


class Mine:
    """The timestamps that a claim of ours has written."""

    __slots__ = ("over", "sent", "stamp", "trying")

    def __init__(self) -> None:
        #: The value of the key if we hold it: an answer confirmed that we wrote it.
        self.stamp = b""
        #: The value of a renewal without an answer.
        self.sent = b""
        #: True while a request that can have taken the key is under way; only its answer shows it.
        self.trying = False
        #: True if a stale key was taken over: other clients can have tried the same a moment later.
        self.over = False

    def took(self, stamp: bytes, over: bool = False) -> None:
        """Record an answer: this timestamp was written while the key was free or stale."""
        self.stamp, self.over, self.trying = stamp, over, False
