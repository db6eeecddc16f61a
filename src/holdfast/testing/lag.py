"""The delay of the machine itself, which a bound on time must allow in addition.

A bound such as "within 250 ms" is about the code, not about a machine that also runs something
else. A thread sleeps in short steps and notes how late each step ends. The time that was stolen
from this thread was also stolen from the code under test.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from ..runtime.blocking import boottime

#: The length of one step, and its delay on an idle machine, in seconds.
STEP_S = 0.005
AT_REST_S = 0.001
#: Delays longer than this are listed one by one, seconds.
LONG_S = 0.02
#: Time stolen from us is also stolen from a server, and no thread of ours can see that: the factor
#: by which a bound allows for it in addition, and the maximum of this part, seconds.
OTHERS, OTHERS_S_MAX = 2, 1.0
#: Maximum number of late steps that are remembered; at least the last minute.
STEPS = 12_000

_late: deque[tuple[float, float]] = deque(maxlen=STEPS)
#: The time at which the current step should end.
_due: list[float] = []
_start = threading.Lock()
_running: list[threading.Thread] = []


def watch() -> None:
    """Start the thread that notes delays, unless it runs already."""
    with _start:
        if not _running:
            _running.append(
                threading.Thread(
                    target=_step, args=(_late, _due, boottime), name="holdfast-lag", daemon=True
                )
            )
            _running[0].start()


def since(begun: float) -> float:
    """Seconds that were stolen since ``begun`` (of the clock ``boottime``), from us and from the
    servers that we ask; 0 on an idle machine."""
    ours = stolen(begun)
    return ours + min(OTHERS * ours, OTHERS_S_MAX)


def stolen(begun: float) -> float:
    """The same from us alone, for a time that is measured and not only bounded."""
    return sum(late for _, late in _noted(begun))


def most(begun: float, span: float) -> float:
    """The most that was stolen since ``begun`` from an action that else takes ``span`` seconds.

    For a bound on each of many short actions: ``since`` would be the sum over all of them.
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
    """The long delays since ``begun``: the end of each, and its length."""
    return [one for one in _noted(begun) if one[1] > LONG_S]


def _noted(begun: float) -> list[tuple[float, float]]:
    """The end and the delay of each late step since ``begun``, the unfinished step included."""
    now = boottime()
    # In the child of a fork this thread no longer runs.
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
