"""A wrong wall clock, for a process that imports ``an_hour_ahead`` or ``an_hour_behind``."""

from __future__ import annotations

import time

_time, _time_ns, _clock_gettime = time.time, time.time_ns, time.clock_gettime


def set_wrong(by_s: int) -> None:
    """Make the wall clock of this process wrong by ``by_s`` seconds."""
    time.time = lambda: _time() + by_s
    time.time_ns = lambda: _time_ns() + by_s * 10**9
    time.clock_gettime = lambda clock: (
        _clock_gettime(clock) + (by_s if clock == time.CLOCK_REALTIME else 0)
    )
