"""Measures the delay of the machine itself, which a test adds to its bounds on time.

A bound such as "within 250 ms" is about the code, not about a machine that also runs something
else. A thread sleeps in short steps and records how late each step ends. The machine steals this
time from the thread, and so from the code under test as well.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from ..runtime.blocking import boottime

#: The length of one step, and the maximum delay of a step that isn't late, in seconds.
STEP_S = 0.005
AT_REST_S = 0.001
#: Delays longer than this are listed one by one, seconds.
LONG_S = 0.02
#: Time is also stolen from servers, and this process can't measure that time. For the servers a
#: bound adds ``OTHERS`` times the seconds stolen here, but at most ``OTHERS_S_MAX``.
OTHERS, OTHERS_S_MAX = 2, 1.0
#: Maximum number of late steps that are remembered; at least the last minute.
STEPS = 12_000

_late: deque[tuple[float, float]] = deque(maxlen=STEPS)
#: The time at which the current step should end.
_due: list[float] = []
_start = threading.Lock()
_running: list[threading.Thread] = []


def watch() -> None:
    """Start the thread that records delays, unless it runs already."""
    with _start:
        if not _running:
            _running.append(
                threading.Thread(
                    target=_step, args=(_late, _due, boottime), name="holdfast-lag", daemon=True
                )
            )
            _running[0].start()


def since(begun: float) -> float:
    """Return the seconds stolen since ``begun`` (a time of ``boottime``) from this process, and an
    allowance for its servers; 0 on an idle machine. Add this to a bound on time."""
    ours = stolen(begun)
    return ours + min(OTHERS * ours, OTHERS_S_MAX)


def stolen(begun: float) -> float:
    """Return the seconds stolen since ``begun`` from this process alone, without servers.

    Use this to correct a measured time."""
    return sum(late for _, late in _noted(begun))


def most(begun: float, span: float) -> float:
    """Return the maximum seconds stolen since ``begun`` from one action of ``span`` seconds.

    Use this for a bound on each of many short actions; ``since`` is the sum over all of them.
    """
    noted, first, within, worst = _noted(begun), 0, 0.0, 0.0
    for when, late in noted:
        within += late
        # The time between the first delay and this one, without the stolen time, exceeds span.
        while when - noted[first][0] - (within - noted[first][1]) > span:
            within -= noted[first][1]
            first += 1
        worst = max(worst, within)
    return worst


def long(begun: float) -> list[tuple[float, float]]:
    """Return the end and the length of each long delay since ``begun``."""
    return [one for one in _noted(begun) if one[1] > LONG_S]


def _noted(begun: float) -> list[tuple[float, float]]:
    """Return the end and the delay of each late step since ``begun``, and of the current step."""
    now = boottime()
    # In the child of a fork the thread that records delays no longer runs.
    steps = any(one.is_alive() for one in _running)
    late = min(now - _due[0], now - begun) if steps and _due else 0.0
    open_end = [(now, late)] if late > AT_REST_S else []
    return [one for one in list(_late) if one[0] > begun] + open_end


def _step(noted: deque[tuple[float, float]], due: list[float], clock: Callable[[], float]) -> None:
    while True:
        end = clock() + STEP_S
        due[:] = [end]
        time.sleep(STEP_S)
        woke = clock()
        if woke - end > AT_REST_S:
            due[:] = [woke + STEP_S]  # or this delay would count twice for a moment
            noted.append((woke, woke - end))
