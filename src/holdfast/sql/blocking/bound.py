"""A time limit for a driver's work over a connection: when it expires, the connection is cut.

A driver's own limit doesn't work behind a pooler: there a statement can wait for a session before
the server receives it. So this module shuts the socket down, and the driver gets an error.
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

#: Seconds: the interval at which the thread checks the limits; the idle time after which it ends.
TICK_S, IDLE_S = 0.25, 5.0


class Bound:
    """The time limit of one piece of work over a connection; ``over``: the limit has expired.

    Its owner must call `cut` when the limit expires. For `Watched` a thread does that; for an event
    loop a timer does.
    """

    def __init__(self, connection: Any) -> None:
        self.over = False
        found = drivers.descriptor(connection)
        # Use a duplicate: the driver can close its own descriptor at any moment, and the number of
        # the closed descriptor can then belong to another file.
        try:
            self._descriptor = None if found is None else socket.dup(found)
        except OSError as wrong:
            raise not_opened(wrong) from wrong

    def cut(self) -> None:
        """Shut down the connection."""
        self.over = True
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                twin = socket.socket(fileno=self._descriptor)
                try:
                    twin.shutdown(socket.SHUT_RDWR)
                finally:
                    twin.detach()

    def close(self) -> None:
        """Close the duplicate descriptor; `cut` must not be called after this."""
        if self._descriptor is not None:
            socket.close(self._descriptor)


class Watched(Bound):
    """A limit that a thread watches; one thread watches all limits of the process."""

    def __init__(self, connection: Any, end: float) -> None:
        super().__init__(connection)
        #: The time of the cut, by `boottime`.
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
    """Starts the watching thread, which checks the clock at intervals, so no call wakes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bounds: set[Watched] = set()
        self._running = False
        fork.register(self)

    def begin(self, bound: Watched) -> None:
        """Watch a limit; start the thread if it doesn't run."""
        thread = None
        try:
            with self._lock:
                self._bounds.add(bound)
                if not self._running:
                    thread = DaemonThread(target=self._run, name="holdfast-bound")
                    self._running = True
            if thread is not None:
                thread.start()  # not under the lock, because this can take long
        except BaseException as failure:
            if thread is not None and thread.give_up():
                self._running = False  # so that the next call tries to start a thread
            # If no thread can be started, the work continues without a limit.
            if not isinstance(failure, RuntimeError):
                raise

    def end(self, bound: Watched) -> None:
        """Stop watching a limit; after this returns, the thread doesn't cut its connection."""
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
        """Forget limits and thread in the child of a fork, where the thread doesn't run."""
        self._lock, self._bounds, self._running = threading.Lock(), set(), False


_watch = _Watch()
