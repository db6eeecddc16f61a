"""Timestamps, which are the values of keys, and the timestamps that our claims have written."""

from __future__ import annotations

import math

from ...core.model import Claim

#: After we took over a stale key, another client's unsuccessful try can replace our time. A time
#: that differs from ours by less than this number of seconds is taken for such a try.
DRIFT_S = 1.0
#: A timestamp is earlier by up to this part of the ttl. The amount differs by claim, so two claims
#: rarely write the same time. With whole seconds, equal times are usual. So a time doesn't prove
#: which claim wrote it.
_SPREAD = 0.005
_DIGITS_MAX = 14


class Stamps:
    """Reads and writes times of expiry, in milliseconds or in seconds."""

    def __init__(self, seconds: bool) -> None:
        self._per_second = 1 if seconds else 1000

    def new(self, claim: Claim, ttl: float, now: float) -> bytes:
        """Return a timestamp ``ttl`` seconds after ``now``.

        Whole seconds are rounded up. Milliseconds are earlier, by up to `_SPREAD` of the ttl."""
        if self._per_second == 1:
            return b"%d" % math.ceil(now + ttl)
        chance = int(claim.id[:6], 16) / 0xFFFFFF
        return b"%d" % math.floor((now + ttl * (1 - _SPREAD * chance)) * 1000)

    def left(self, stamp: bytes, now: float) -> float | None:
        """Return the seconds from ``now`` until ``stamp``; None if it isn't a timestamp."""
        if not stamp.isdigit() or len(stamp) > _DIGITS_MAX:
            return None
        return int(stamp) / self._per_second - now

    def close(self, stamp: bytes, mine: bytes) -> bool:
        """Return True if the timestamps differ by less than `DRIFT_S` seconds."""
        drift = (int(stamp) - int(mine)) / self._per_second
        return abs(drift) < DRIFT_S


class Mine:
    """The timestamps that a claim of ours has written."""

    __slots__ = ("over", "sent", "stamp", "trying")

    def __init__(self) -> None:
        #: The value of the key if the claim holds it: an answer confirmed that we wrote this value.
        self.stamp = b""
        #: The value that the last renewal sent, until its answer arrives.
        self.sent = b""
        #: True while a SETNX has no answer: the SETNX can have taken the key already.
        self.trying = False
        #: True if the claim took over a stale key: see `DRIFT_S`.
        self.over = False

    def took(self, stamp: bytes, over: bool = False) -> None:
        """Record an answer: this timestamp was written while the key was free or stale."""
        self.stamp, self.over, self.trying = stamp, over, False
