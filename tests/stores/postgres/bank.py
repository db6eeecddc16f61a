"""A record of the work on jobs, which finds wrong orders, overlaps and repeated fences."""

from __future__ import annotations

import threading
from typing import Any


class Bank:
    """Records the accepted and the started jobs of each group, and the errors found."""

    def __init__(self, groups: int) -> None:
        self._lock = threading.Lock()
        names = [f"g{at}" for at in range(groups)]
        #: The accepted jobs and the started jobs of each group; a repetition counts once.
        self.accepted: dict[str, list[int]] = {name: [] for name in names}
        self.seen: dict[str, list[int]] = {name: [] for name in names}
        self._fences = dict.fromkeys(names, 0)
        self._inside = dict.fromkeys(names, 0)
        self.broken: list[str] = []

    def work(self, job: Any) -> None:
        """Do a job, and check its group.

        No other job of the group may run, and the fence must be the highest so far. The number must
        not be lower than the last one.
        """
        group, number = job.group, job.payload
        with self._lock:
            self._inside[group] += 1
            if self._inside[group] > 1:
                self.broken.append(f"two at once in {group}")
            if job.fence <= self._fences[group]:
                self.broken.append(f"a fence fell in {group}")
            self._fences[group] = job.fence
            seen = self.seen[group]
            if not seen or number > seen[-1]:
                seen.append(number)
            elif number < seen[-1]:
                self.broken.append(f"{number} came after {seen[-1]} in {group}")
        with self._lock:
            self._inside[group] -= 1

    def all_done(self) -> bool:
        """Return whether each accepted job was started at least once."""
        return not any(self.lost().values())

    def lost(self) -> dict[str, set[int]]:
        """The jobs that were accepted and never started."""
        return {group: set(some) - set(self.seen[group]) for group, some in self.accepted.items()}
