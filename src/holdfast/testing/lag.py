"""The delay of the machine itself, which a bound on time must allow in addition.

A test that says "within 250 ms" says it of the code, not of a machine on which something else runs.
A thread sleeps in short steps and notes by how much each came too late; whatever was stolen from it
was stolen from the code under test too.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from ..runtime.blocking import boottime

#: The length of one step, and by how much it is late on a machine at rest, in seconds.
STEP_S = 0.005
AT_REST_S = 0.001
#: Delays longer than this are told one by one, seconds.
LONG_S = 0.02
#: What is stolen from us is stolen from a server as well, which no thread of ours can see: the
#: factor by which that is allowed in addition, and its maximum, seconds.
OTHERS, OTHERS_S_MAX = 2, 1.0
#: Number of steps that are remembered: the last minute or so.
STEPS = 12_000

_late: deque[tuple[float, float]] = deque(maxlen=STEPS)
#: When the present step should end.
_due: list[float] = []
_start = threading.Lock()
_running: list[threading.Thread] = []


def watch() -> None:
    """Begin to take notes, if that isn't done already."""
    with _start:
        if not _running:
            _running.append(
                threading.Thread(
                    target=_step, args=(_late, _due, boottime), name="holdfast-lag", daemon=True
                )
            )
            _running[0].start()


def since(begun: float) -> float:
    """Seconds that were stolen since then, by the clock ``boottime``, from us and those whom we
    ask; 0 on a machine at rest."""
    ours = stolen(begun)
    return ours + min(OTHERS * ours, OTHERS_S_MAX)


def stolen(begun: float) -> float:
    """The same from us alone, for what is measured and not only bounded."""
    return sum(late for _, late in _noted(begun))


def most(begun: float, span: float) -> float:
    """The most that was stolen since then from anything that took ``span`` seconds otherwise.

    A bound on each of many short things is exceeded by this much, where ``since`` would be the sum
    over all of them.
    """
    noted, first, within, worst = _noted(begun), 0, 0.0, 0.0
    for when, late in noted:
        within += late
        # What was not stolen between the first one's end and this one's beginning is too long.
        while when - noted[first][0] - (within - noted[first][1]) > span:
            within -= noted[first][1]
            first += 1
        worst = max(worst, within)
    return worst


def long(begun: float) -> list[tuple[float, float]]:
    """When something of length was stolen since then: its end, and how much."""
    return [one for one in _noted(begun) if one[1] > LONG_S]


def _noted(begun: float) -> list[tuple[float, float]]:
    """When a step ended since then, and how late; also the one that has not ended yet."""
    now = boottime()
    # In the child of a fork nobody takes notes any more.
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
            due[:] = [woke + STEP_S]  # or it would count twice for a moment
            noted.append((woke, woke - end))
