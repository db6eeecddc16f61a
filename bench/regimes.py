"""The states that a machine is measured in; every table says in which it was.

A virtual core that goes idle costs tens of microseconds to wake. So the same work takes other
times when it is pinned to one core, when it is spread and the cores doze off between, and when
they are kept awake.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator

from . import crew

ALONE = "pinned"
SPREAD = "spread"
WARM = "warm"


@contextlib.contextmanager
def entered(name: str) -> Generator[str]:
    """Bring this process, and those that it forks, into a regime; yields it in words."""
    with _REGIMES[name]() as words:
        yield words


@contextlib.contextmanager
def _pinned() -> Generator[str]:
    if not hasattr(os, "sched_setaffinity"):
        yield "not pinned to a core, as this system can't"
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield "everything pinned to one core"
    finally:
        os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def _spread() -> Generator[str]:
    yield "all cores, which may go idle"


@contextlib.contextmanager
def _warm() -> Generator[str]:
    if not hasattr(os, "SCHED_IDLE"):
        yield "all cores, which may go idle, as this system can't be kept awake"
        return
    with crew.spinners(sorted(os.sched_getaffinity(0))):
        yield "all cores, kept awake by idle-priority spinners"


_REGIMES = {ALONE: _pinned, SPREAD: _spread, WARM: _warm}
