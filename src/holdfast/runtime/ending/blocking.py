"""Detection of a session's end, by its socket; and the ending sessions of a client for threads."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from ..blocking import boottime

#: Maximum seconds for which an ended session counts: the server may never close the session.
ENDS_S = 2.0
_PIECE = 1 << 16


def twin_of(fd: int) -> socket.socket | None:
    """Return the same socket under another descriptor; None if it is already closed."""
    try:
        return socket.socket(fileno=socket.dup(fd))
    except (OSError, ValueError):
        return None


class Ending:
    """Detects the end of a session whose connection the client has ended.

    ``twin``: the socket of the connection, which now belongs to this object; None if the socket was
    closed. ``then``: called when the session no longer counts.
    """

    _twin: socket.socket | None = None  # also for an object whose constructor failed

    def __init__(self, twin: socket.socket | None, then: Callable[[], None] | None = None) -> None:
        self._twin = twin
        self._then = then
        #: The time until which the session counts at most.
        self.until = boottime() + ENDS_S
        if twin is not None:
            twin.setblocking(False)
            with contextlib.suppress(OSError):  # the last data may not have been sent
                twin.shutdown(socket.SHUT_WR)

    @property
    def fd(self) -> int:
        """The descriptor to watch: if it is readable, check ``over``. -1 after `end`."""
        return -1 if self._twin is None else self._twin.fileno()

    @property
    def over(self) -> bool:
        """True if the server has ended the session, or `ENDS_S` have passed."""
        if self._twin is None:
            return True
        try:
            while self._twin.recv(_PIECE):
                pass
        except BlockingIOError:
            return boottime() >= self.until
        except OSError:
            pass
        return True

    def end(self) -> None:
        """Stop counting the session."""
        if self._twin is not None:
            self._twin.close()
        if self._then is not None:
            self._then()

    def __del__(self) -> None:
        if self._twin is not None:
            self._twin.close()


class Endings:
    """The ending sessions of one client. ``over`` is called when a session no longer counts."""

    def __init__(self, over: Callable[[], None]) -> None:
        self._over = over
        self._there: list[Ending] = []
        self._closed = False

    def __len__(self) -> int:
        return len(self._there)

    def add(self, ending: Ending) -> None:
        """Count this session."""
        self._there.append(ending)
        self.sweep()  # after the append, because another thread can close

    def sweep(self) -> None:
        """Forget the sessions that the server has ended."""
        for ending in list(self._there):
            if self._closed or ending.over:
                with contextlib.suppress(ValueError):  # another thread was first
                    self._there.remove(ending)
                    ending.end()
                    self._over()

    def close(self) -> None:
        """Count no session, now or later."""
        self._closed = True
        self.sweep()
