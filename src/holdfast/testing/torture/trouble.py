"""Faults of a store, or of the processes that use it, during a run.

A run strikes its workers by itself, and loses messages with ``weather``. Everything else that can
go wrong, a row that is deleted by hand, a clock that steps, a limit that is reached, is a `Trouble`
that is given to it; what needs to know the store is written where the store's servers are started.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ...runtime.blocking import boottime

#: Maximum time for which a process is short of descriptors, seconds.
SHORT_S = 1.0
#: A process that was at work for less may still import modules, which needs descriptors.
NEW_S = 3.0


class Scene(NamedTuple):
    """What a trouble may know and do."""

    #: Draws from the seed of the run.
    dice: random.Random
    #: The names that the workers lock.
    names: Sequence[str]
    #: The workers that run.
    pids: Sequence[int]
    #: To be told of a name before its state is damaged, and afterwards with the moment before: its
    #: holders are no longer counted, nor those that came in between.
    damaged: Callable[[str, float | None], None]
    #: To be told of a name whose last fence may be damaged: those that follow start again.
    forgotten: Callable[[str], None]


class Trouble(Protocol):
    """One kind of trouble."""

    def strike(self, scene: Scene) -> str:
        """Do it once; what it was, in a word or two, for the count of the run."""
        ...

    def calm(self, now: float) -> None:
        """End what has lasted until ``now`` (monotonic seconds; ``inf``: the run has ended)."""
        ...


class Descriptors:
    """Leaves a worker no free descriptor for a while (Linux)."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise OSError("the limits of another process can only be set on Linux")
        self._short: dict[int, tuple[float, tuple[int, int]]] = {}
        self._seen: dict[int, float] = {}

    def strike(self, scene: Scene) -> str:
        """Set the limit of a worker to what it has open just now."""
        now = boottime()
        old = [pid for pid in scene.pids if self._seen.setdefault(pid, now) < now - NEW_S]
        if not old:
            return "no descriptors: too new"
        pid = scene.dice.choice(old)
        with contextlib.suppress(OSError):
            if pid not in self._short:
                limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
                self._short[pid] = now + scene.dice.random() * SHORT_S, limits
            used = max(map(int, os.listdir(f"/proc/{pid}/fd")), default=0) + 1
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, self._short[pid][1][1]))
        return "no descriptors"

    def calm(self, now: float) -> None:
        """Give them back."""
        for pid in [pid for pid, (until, _) in self._short.items() if until <= now]:
            _, limits = self._short.pop(pid)
            with contextlib.suppress(OSError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
