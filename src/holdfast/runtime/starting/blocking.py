"""Threads whose start has a time limit."""

from __future__ import annotations

import threading
from typing import Any

#: A thread begins within this time, in seconds, or counts as one that can't be started.
START_S = 5.0


class _Bounded(threading.Event):
    """What ``Thread.start`` waits for, without a separate bound."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the thread has begun, or no longer than a start may take."""
        return super().wait(START_S if timeout is None else timeout)


class DaemonThread(threading.Thread):
    """A daemon thread. ``start`` raises ``RuntimeError`` if it doesn't begin in time.

    A new thread that finds no memory ends before it has told that it began, and CPython (up to
    3.14) waits for that without a bound: a verb would hang, or all of an event loop.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(daemon=True, **options)
        self._started = _Bounded()
        #: Whoever gets it decides: the thread begins, or it counts as not started.
        self._decided = threading.Lock()
        self._given_up = False

    def start(self) -> None:
        """Start it, and wait until it has begun.

        A caller that is interrupted in it, or after it, asks `give_up` whether the thread runs.
        """
        super().start()
        if not self._started.is_set() and self.give_up():
            raise RuntimeError("can't start new thread: it ended before it began")

    def give_up(self) -> bool:
        """Have it do nothing, now or later. False: it has begun, and does what it is for."""
        if self._decided.acquire(blocking=False):
            self._given_up = True
        return self._given_up

    def run(self) -> None:
        """Do what it is for, unless that has been given up."""
        if self._decided.acquire(blocking=False):
            super().run()
