"""A wall clock that is wrong, for the process that imports one of the modules beside."""

from __future__ import annotations

import time

_time, _time_ns, _clock_gettime = time.time, time.time_ns, time.clock_gettime


def set_wrong(by_s: int) -> None:
    """From now on the wall clock of this process is wrong by so many seconds."""
    time.time = lambda: _time() + by_s
    time.time_ns = lambda: _time_ns() + by_s * 10**9
    time.clock_gettime = lambda clock: (
        _clock_gettime(clock) + (by_s if clock == time.CLOCK_REALTIME else 0)
    )
