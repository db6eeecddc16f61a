"""Imported first, it makes the wall clock of its process wrong by ``$WRONG_BY_S`` seconds."""

from __future__ import annotations

import os
import time

WRONG_BY_S = int(os.environ["WRONG_BY_S"])
_time, _time_ns, _clock_gettime = time.time, time.time_ns, time.clock_gettime
time.time = lambda: _time() + WRONG_BY_S
time.time_ns = lambda: _time_ns() + WRONG_BY_S * 10**9
time.clock_gettime = lambda clock: (
    _clock_gettime(clock) + (WRONG_BY_S if clock == time.CLOCK_REALTIME else 0)
)
