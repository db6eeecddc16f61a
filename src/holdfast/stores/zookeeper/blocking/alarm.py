"""An alarm for threads: its thread sleeps until the earliest time that was set.

The alarm has only a weak reference to the object that it calls, so that an unused client is
collected.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from weakref import WeakMethod

from ....runtime.blocking import boottime
from ....runtime.starting.blocking import DaemonThread

#: Seconds until a failed call is repeated.
AGAIN_S = 0.25


class Alarm:
    """Calls a method at a given time. Its thread starts at the first `at`, and ends at `stop`."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = WeakMethod(call, lambda _: self.stop())
        self._at = math.inf
        self._stopped = False
        self._rung = threading.Lock()
        self._rung.acquire()
        #: The alarm's thread, at key 0. If two callers begin at once, `setdefault` keeps one
        #: thread.
        self._threads: dict[int, DaemonThread] = {}

    def at(self, when: float) -> None:
        """Call at this time or soon after; ignored if an earlier alarm is set."""
        if when < self._at:
            self._at = when
            if self._threads:
                self._ring()
            else:
                self._begin()

    def _begin(self) -> None:
        thread = DaemonThread(target=self._run, name="holdfast-alarm")
        try:
            if self._threads.setdefault(0, thread) is thread:
                thread.start()
            else:
                self._ring()
        except BaseException:
            if self._threads.get(0) is thread and thread.give_up():  # the next alarm retries this
                self._at = math.inf
                del self._threads[0]
            raise

    def stop(self) -> None:
        """Make the thread end soon."""
        self._stopped = True
        self._ring()

    def _ring(self) -> None:
        try:
            self._rung.release()
        except RuntimeError:
            return  # it is already released

    def _run(self) -> None:
        try:
            while not self._stopped:
                left = self._at - boottime()
                if left > 0:
                    self._rung.acquire(timeout=min(left, threading.TIMEOUT_MAX))
                else:
                    self._call_now()
        finally:
            self._threads.clear()
            if not self._stopped and self._at < math.inf:  # something killed the thread
                self._begin()

    def _call_now(self) -> None:
        due, self._at = self._at, math.inf
        call = self._call()
        try:
            if call is not None:
                call()
        except BaseException:
            self._at = min(self._at, due + AGAIN_S)
            raise
