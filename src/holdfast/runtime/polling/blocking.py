"""A wait for descriptors: ``select.poll``, or a replacement where the system has none."""

from __future__ import annotations

import select
import sys
import time
from typing import Any

READ: int = getattr(select, "POLLIN", 1)
WRITE: int = getattr(select, "POLLOUT", 4)


class _Selecting:
    """The methods of ``select.poll`` that are used here, for sockets."""

    def __init__(self) -> None:
        self._events: dict[int, int] = {}

    def register(self, one: Any, events: int) -> None:
        """Wait for these events of a socket."""
        self._events[one if isinstance(one, int) else one.fileno()] = events

    def unregister(self, fd: int) -> None:
        """Stop waiting for this descriptor."""
        del self._events[fd]

    def poll(self, milliseconds: float | None = None) -> list[tuple[int, int]]:
        """Return the descriptors that are ready, with their events; none after the time-out."""
        if milliseconds == 0 and (real := _unpatched()) is not None:
            for fd, events in self._events.items():
                real.register(fd, events)
            return list(real.poll(0))
        reading = [fd for fd, events in self._events.items() if events & READ]
        writing = [fd for fd, events in self._events.items() if events & WRITE]
        failing = list(self._events)
        seconds = None if milliseconds is None else milliseconds / 1e3
        if not failing and seconds is not None:
            time.sleep(seconds)  # because `select` of nothing fails on Windows
            return []
        while True:
            readable, writable, failed = select.select(reading, writing, failing, seconds)
            ready = {*readable, *writable, *failed}
            found = [(fd, self._events[fd]) for fd in self._events if fd in ready]
            # With eventlet, a wait can get the result of an earlier wait if both waits were ready
            # at once. That result is of no use here, so wait again.
            if found or not ready:
                return found


def _unpatched() -> Any:
    """Return a poll object of the kind that eventlet has replaced; None if there is none.

    Use it for a check that doesn't wait. (With eventlet, only one greenlet at a time can wait for a
    descriptor.)
    """
    patcher = sys.modules.get("eventlet.patcher")
    make = getattr(patcher.original("select"), "poll", None) if patcher is not None else None
    return make() if make is not None else None


#: Makes a poll object.
poller: Any = getattr(select, "poll", _Selecting)
