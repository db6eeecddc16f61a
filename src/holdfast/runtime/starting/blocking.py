"""Threads whose start has a time limit."""

from __future__ import annotations

import threading
from typing import Any

#: A thread that has not begun after this many seconds counts as one that can't be started.
START_S = 5.0


class _Bounded(threading.Event):
    """The event that ``Thread.start`` waits for, with a time limit."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the thread has begun, at most for `START_S`."""
        return super().wait(START_S if timeout is None else timeout)


class DaemonThread(threading.Thread):
    """A daemon thread. ``start`` raises ``RuntimeError`` if it doesn't begin in time.

    A new thread that finds no memory ends before it reports its start, and CPython (up to 3.14)
    waits for that without a limit: a verb would hang, or a whole event loop.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(daemon=True, **options)
        self._started = _Bounded()
        #: Its first taker decides: the thread begins, or it counts as not started.
        self._decided = threading.Lock()
        self._given_up = False

    def start(self) -> None:
        """Start it, and wait until it has begun.

        After an interrupt in or after this call, ask `give_up` if the thread runs.
        """
        super().start()
        if not self._started.is_set() and self.give_up():
            raise RuntimeError("can't start new thread: it ended before it began")

    def give_up(self) -> bool:
        """Prevent its work, now or later. False: the work has begun, and continues."""
        if self._decided.acquire(blocking=False):
            self._given_up = True
        return self._given_up

    def run(self) -> None:
        """Do its work, unless that was given up."""
        if self._decided.acquire(blocking=False):
            super().run()
