"""How late the machine itself is: what a bound on time must allow besides what it is about.

A test that says "within 250 ms" says it of the code, not of a machine on which something else runs.
A thread sleeps in short steps and notes by how much each came too late; whatever was stolen from it
was stolen from the code under test too.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from ..runtime.blocking import boottime

#: The length of one step, and by how much it is late on a machine at rest, in seconds.
STEP_S = 0.005
AT_REST_S = 0.001
#: So many steps are remembered: the last minute or so.
STEPS = 12_000

_late: deque[tuple[float, float]] = deque(maxlen=STEPS)
_start = threading.Lock()
_running: list[threading.Thread] = []


def watch() -> None:
    """Begin to take notes, if that isn't done already."""
    with _start:
        if not _running:
            _running.append(threading.Thread(target=_step, name="holdfast-lag", daemon=True))
            _running[0].start()


def since(begun: float) -> float:
    """Seconds that were stolen since then, by the clock ``boottime``; 0 on a machine at rest."""
    return sum(late for when, late in list(_late) if when > begun)


def _step() -> None:
    while True:
        due = boottime() + STEP_S
        time.sleep(STEP_S)
        woke = boottime()
        if woke - due > AT_REST_S:
            _late.append((woke, woke - due))
