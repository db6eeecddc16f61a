"""Faults of a store, or of the processes that use it, during a run.

A run itself kills, stops and forks its workers, and with ``weather`` it loses messages. Every other
fault is a `Trouble` that the caller passes to the run: a row that is deleted by hand, a clock that
steps, a limit that is reached. The troubles of one store are defined next to the code that starts
the servers of that store.
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

#: Maximum seconds for which a process has no free descriptors.
SHORT_S = 1.0
#: Minimum age of a victim, seconds: a newer process can still need descriptors for its imports.
NEW_S = 3.0


class Scene(NamedTuple):
    """The data and functions that a trouble may use."""

    #: Draws from the seed of the run.
    dice: random.Random
    #: The names that the workers lock.
    names: Sequence[str]
    #: The processes of the workers that run.
    pids: Sequence[int]
    #: Call this twice: before the damage with a name and None, and after the damage with the name
    #: and a time before the damage. The judge ignores claims of the name that existed in this span
    #: of time.
    damaged: Callable[[str, float | None], None]
    #: Call this with a name whose last fence can be damaged: its later fences may be lower.
    forgotten: Callable[[str], None]


class Trouble(Protocol):
    """One kind of trouble."""

    def strike(self, scene: Scene) -> str:
        """Inject the trouble once; return its name, one or two words, for the counts of the run."""
        ...

    def calm(self, now: float) -> None:
        """End the trouble if its time ends by ``now``, a time of ``boottime``.

        ``now`` is ``inf`` if the run has ended.
        """
        ...


class Descriptors:
    """A trouble: for a while, a worker has no free file descriptor (Linux)."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise OSError("the limits of another process can only be set on Linux")
        self._short: dict[int, tuple[float, tuple[int, int]]] = {}
        self._seen: dict[int, float] = {}

    def strike(self, scene: Scene) -> str:
        """Set the limit of a worker to the descriptors that it has open now."""
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
        """Restore the limits whose time has passed."""
        for pid in [pid for pid, (until, _) in self._short.items() if until <= now]:
            _, limits = self._short.pop(pid)
            with contextlib.suppress(OSError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
