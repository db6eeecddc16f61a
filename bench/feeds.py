"""Ways to put and to execute jobs, with the same interface.

A *feed* is the object by which one process uses one queue. A peer is imported when its feed is
opened.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

#: The payload of a job; the number of groups, if jobs have groups.
BODY = "x" * 100
GROUPS = 100
#: Number of jobs in one request, if a request can contain several.
BATCH = 100


class Feed(Protocol):
    """The object by which one process uses one queue."""

    def put(self, jobs: int) -> object:
        """Put this number of jobs; return when the queue has accepted them."""
        ...

    def work(self, jobs: int) -> object:
        """Take this number of jobs that are due, do nothing, and acknowledge them."""
        ...

    def take(self) -> Callable[[], object]:
        """Wait for one job and take it; return a function that acknowledges it."""
        ...

    def close(self) -> object:
        """Close the client and its connections."""
        ...


@dataclass(frozen=True)
class Feeder:
    """A way to queue jobs. ``open`` returns a feed of the one queue that belongs to a folder."""

    label: str
    open: Callable[[Path], Feed]
    package: str = ""
    #: True if it can wait for one job, so that the wait can be measured.
    waits: bool = False
    #: For slow contenders: the number of jobs is divided by this.
    slow: int = 1

    @property
    def missing(self) -> str:
        """The reason why the contender can't take part; empty if it can."""
        if self.package and importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed (pip install --group bench)"
        return ""
