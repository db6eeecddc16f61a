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
    """A daemon thread. ``start`` raises ``RuntimeError`` if the thread doesn't begin in time.

    A new thread that finds no memory ends before it reports its start. CPython (up to 3.14) waits
    for this report without a time limit, so a verb or a whole event loop would hang.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(daemon=True, **options)
        self._started = _Bounded()
        #: The call that takes this lock first decides: after `run`, the thread begins; after
        #: `give_up`, the thread counts as not started.
        self._decided = threading.Lock()
        self._given_up = False

    def start(self) -> None:
        """Start the thread, and wait until it has begun.

        If an interrupt comes in or after this call, call `give_up` to find out if the thread runs.
        """
        super().start()
        if not self._started.is_set() and self.give_up():
            raise RuntimeError("can't start new thread: it ended before it began")

    def give_up(self) -> bool:
        """Prevent the thread's work; return False if the work has begun, and so continues."""
        if self._decided.acquire(blocking=False):
            self._given_up = True
        return self._given_up

    def run(self) -> None:
        """Do the thread's work, unless it was given up."""
        if self._decided.acquire(blocking=False):
            super().run()
