"""Torture with two releases on one store: workers are upgraded one by one, then rolled back."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.testing.faults import Subject, SubjectGone
from holdfast.testing.torture.guards import GuardRun
from holdfast.testing.torture.locks import LockRun
from holdfast.testing.torture.queues import QueueRun
from holdfast.testing.torture.run import Run
from tests.torture import previous

#: Maximum seconds by which a slow machine may lengthen the run.
LATE_S = 60.0
#: The names of the two replacements in the counts of a run.
UPGRADE, BACK = "upgrade", "roll-back"


class Mixed(Run if TYPE_CHECKING else object):
    """A run in which each worker is replaced by one of this tree, and later back again.

    The first workers run the previous release. One after the other is asked to end, and a worker of
    this tree starts in its place. In the second half of the run the previous release comes back in
    the same way. A killed worker is replaced by one of the missing release.
    """

    #: The environment of the newer workers; empty: they run this tree.
    tree: Mapping[str, str] = {}

    def __init__(self, *args: Any) -> None:
        #: Whether a worker runs this tree, for each worker that was started.
        self.newer: dict[str, bool] = {}
        #: The number of workers that run this tree, after each replacement.
        self._plan = [0]
        self._begun = 0.0
        #: The worker that has replaced another one latest.
        self._latest = ""
        super().__init__(*args)
        many = self.options.processes
        self._plan = [*range(many + 1), *reversed(range(many))]
        self._steps = len(self._plan)

    def subject(self, act: str, number: int) -> Subject:
        """Start a worker of the release that is lacking, or a putter: odd ones run this tree."""
        newer = bool(number % 2)
        if act == self.act:
            newer = self._newer() < self._plan[0]
            self.newer[f"worker-{number}"] = newer
        face = "aio" if number // 2 % 2 else "sync"
        environment = self.tree if newer else previous.environment()
        return Subject(act, number, face, self.task(), environment=environment)

    def _newer(self) -> int:
        return sum(self.newer[who] for who in self.workers)

    def passed(self, now: float, end: float) -> float:
        """Return the part of the run that has passed."""
        return (now - self._begun) / (end - self._begun)

    def over(self, now: float, end: float) -> bool:
        """Return True if the run has ended; until then replace the workers whose turn has come."""
        self._begun = self._begun or now
        over = super().over(now, end)
        if len(self._plan) == 1 or now > end + LATE_S:
            return over
        done = self._steps - len(self._plan)
        if over or self.passed(now, end) * self._steps > done + 1:
            self._replace()
        return False

    def _replace(self) -> None:
        """Replace a worker that is ready and not stopped, if there is one."""
        self._new = {who for who in self._new if not self._ready(who)}
        if self._latest in self._new:
            return
        up = self._plan[1] > self._plan[0]
        able = self.workers.keys() - self.stopped.keys() - self._new
        able = {who for who in able if self.newer[who] is not up}
        if not able:
            return
        who = self.dice.choice(sorted(able))
        del self._plan[0]
        self.strikes[UPGRADE if up else BACK] += 1
        self.others[who] = self.workers.pop(who)
        with contextlib.suppress(SubjectGone):  # the end of the run reports it
            self.others[who].say("end")
        self._start()
        self._latest = f"worker-{self._count}"


class MixedLocks(Mixed, LockRun):
    """A mixed run of workers that lock."""


class MixedGuards(Mixed, GuardRun):
    """A mixed run of workers that read through guards."""


class MixedQueues(Mixed, QueueRun):
    """A mixed run of workers that take jobs, and of putters of both releases."""

    def passed(self, now: float, end: float) -> float:
        """Return the part of the jobs that are done."""
        return self._stands.done / self.options.jobs if self._stands else 0.0
