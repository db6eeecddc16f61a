"""Regimes: the states of the machine for a measurement; every table names its regime.

It takes tens of microseconds to wake an idle virtual core. So the time of the same work differs
between three regimes: pinned to one core, spread over cores that can go idle, and spread over cores
that are kept awake.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

from . import crew, machine

ALONE = "pinned"
SPREAD = "spread"
WARM = "warm"


@contextlib.contextmanager
def entered(name: str) -> Generator[str]:
    """Apply a regime to this process, its later children and its companions; yield its text."""
    with _REGIMES[name]() as words:
        yield words


@contextlib.contextmanager
def _pinned() -> Generator[str]:
    if not hasattr(os, "sched_setaffinity"):
        yield "not pinned to a core, as this system can't"
        return
    cores = os.sched_getaffinity(0)
    _bind({max(cores)})
    try:
        yield "everything pinned to one core"
    finally:
        _bind(cores)


def _bind(cores: set[int]) -> None:
    """Let this process and all threads of its companions run only on these cores."""
    os.sched_setaffinity(0, cores)
    for pid in machine.companions:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), cores)


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
