"""What is seen where the work is done: who works on what, in which order, and whether twice."""

from __future__ import annotations

import threading
from typing import Any


class Bank:
    """Notes what is put into each group and what is done there; says what went wrong."""

    def __init__(self, groups: int) -> None:
        self._lock = threading.Lock()
        names = [f"g{at}" for at in range(groups)]
        #: What was accepted, and what was begun, in each group; a repetition counts once.
        self.accepted: dict[str, list[int]] = {name: [] for name in names}
        self.seen: dict[str, list[int]] = {name: [] for name in names}
        self._fences = dict.fromkeys(names, 0)
        self._inside = dict.fromkeys(names, 0)
        self.broken: list[str] = []

    def work(self, job: Any) -> None:
        """Do it: nobody else may be in its group, its fence must be the highest, and it must be
        the last one again or a later one."""
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
        """Was all that was accepted begun at least?"""
        return not any(self.lost().values())

    def lost(self) -> dict[str, set[int]]:
        """What was accepted and never begun."""
        return {group: set(some) - set(self.seen[group]) for group, some in self.accepted.items()}
