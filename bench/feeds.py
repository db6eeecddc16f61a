"""Ways to put jobs and to work them off, in the same clothes.

A feed is what one process has of one queue. As with locks, peers are imported when theirs is
opened.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

#: What a job carries, and how many groups there are where jobs have some.
BODY = "x" * 100
GROUPS = 100
#: So many jobs go in one request where many do.
BATCH = 100


class Feed(Protocol):
    """One process's way to one queue."""

    def put(self, jobs: int) -> object:
        """Have so many jobs accepted; they are when this returns."""
        ...

    def work(self, jobs: int) -> object:
        """Take so many, which are there, do nothing, and have them done for good."""
        ...

    def take(self) -> Callable[[], object]:
        """Wait for one job, which may begin when this returns; call what it gives when it ends."""
        ...

    def close(self) -> object:
        """End what was opened for it."""
        ...


@dataclass(frozen=True)
class Feeder:
    """A way to queue jobs. ``open`` gives this process's feed of the one queue of a folder."""

    label: str
    open: Callable[[Path], Feed]
    package: str = ""
    #: Can it wait for one job, so that the wait can be measured?
    waits: bool = False
    #: So many times fewer jobs are measured, as it is slow.
    slow: int = 1

    @property
    def missing(self) -> str:
        """Why it can't take part; empty if it can."""
        if self.package and importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed (pip install --group bench)"
        return ""
