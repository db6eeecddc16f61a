"""A time limit for a driver's work over a connection: when it expires, the connection is cut.

No driver has a limit that holds behind a pooler, where a statement waits for a session before any
server sees it. So the socket is shut down, and the driver finds its connection lost.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Any, Self

from ...runtime import fork
from ...runtime.blocking import boottime
from ...runtime.starting.blocking import DaemonThread
from .. import drivers
from ..words import not_opened

#: How often the thread looks whether a limit has expired, and how long it stays when there is none.
TICK_S, IDLE_S = 0.25, 5.0


class Bound:
    """Around what is done over a connection; ``over`` says that the time was over meanwhile.

    Whoever enters it has its `cut` called when the time has expired: `Watched` has a thread do so.
    """

    def __init__(self, connection: Any) -> None:
        self.over = False
        found = drivers.descriptor(connection)
        # One of our own: the driver may close its own at any moment, and the number may then
        # belong to something else.
        try:
            self._descriptor = None if found is None else socket.dup(found)
        except OSError as wrong:
            raise not_opened(wrong) from wrong

    def cut(self) -> None:
        """End all that goes over the connection."""
        self.over = True
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                twin = socket.socket(fileno=self._descriptor)
                try:
                    twin.shutdown(socket.SHUT_RDWR)
                finally:
                    twin.detach()

    def close(self) -> None:
        """Let go of it; `cut` must not be called any more."""
        if self._descriptor is not None:
            socket.close(self._descriptor)


class Watched(Bound):
    """A `Bound` that a thread watches, one for all of them."""

    def __init__(self, connection: Any, end: float) -> None:
        super().__init__(connection)
        #: By `boottime`.
        self.end = end

    def __enter__(self) -> Self:
        try:
            _watch.begin(self)
        except BaseException:
            _watch.end(self)
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _watch.end(self)
        self.close()


class _Watch:
    """The thread. It looks at the clock now and then, so that nobody has to wake it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bounds: set[Watched] = set()
        self._running = False
        fork.register(self)

    def begin(self, bound: Watched) -> None:
        """From now on it is watched."""
        thread = None
        try:
            with self._lock:
                self._bounds.add(bound)
                if not self._running:
                    thread = DaemonThread(target=self._run, name="holdfast-bound")
                    self._running = True
            if thread is not None:
                thread.start()  # not under the lock, as it may take its time
        except BaseException as failure:
            if thread is not None and thread.give_up():
                self._running = False  # the next call tries again
            # Without a thread there is no limit, as before; the lock is worth more.
            if not isinstance(failure, RuntimeError):
                raise

    def end(self, bound: Watched) -> None:
        """It isn't cut any more when this returns."""
        with self._lock:
            self._bounds.discard(bound)

    def _run(self) -> None:
        idle = 0.0
        while idle < IDLE_S:
            time.sleep(TICK_S)
            with self._lock:
                now = boottime()
                idle = 0.0 if self._bounds else idle + TICK_S
                for bound in [one for one in self._bounds if one.end <= now]:
                    self._bounds.discard(bound)
                    bound.cut()
                if idle >= IDLE_S:
                    self._running = False

    def forked(self) -> None:
        """We are the child of a fork, where the thread doesn't run."""
        self._lock, self._bounds, self._running = threading.Lock(), set(), False


_watch = _Watch()
