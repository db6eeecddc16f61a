"""An alarm for threads: a thread that sleeps until the earliest time that it was given."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from ....runtime.blocking import boottime


class Alarm:
    """Calls somebody at a time. Its thread starts with the first alarm, and ends with `stop`."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._at = math.inf
        self._stopped = False
        self._rung = threading.Lock()
        self._rung.acquire()
        #: Gives True once: whoever gets it starts the thread.
        self._starter = iter((True,))

    def at(self, when: float) -> None:
        """Call then or soon after; a later alarm than the one that is set is forgotten."""
        if when < self._at:
            self._at = when
            if next(self._starter, False):
                threading.Thread(target=self._run, name="holdfast-alarm", daemon=True).start()
            else:
                self._ring()

    def stop(self) -> None:
        """Let the thread end."""
        self._stopped = True
        self._ring()

    def _ring(self) -> None:
        try:
            self._rung.release()
        except RuntimeError:
            return  # it has rung already

    def _run(self) -> None:
        while not self._stopped:
            left = self._at - boottime()
            if left > 0:
                self._rung.acquire(timeout=min(left, threading.TIMEOUT_MAX))
                continue
            self._at = math.inf
            self._call()
