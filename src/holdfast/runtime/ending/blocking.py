"""Detection of ended sessions, by the socket; and the sessions of one client, for threads."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from ..blocking import boottime

#: Seconds that an ended session counts at most, because its server may never say that it has ended.
ENDS_S = 2.0
_PIECE = 1 << 16


def twin_of(fd: int) -> socket.socket | None:
    """The same socket under another descriptor; None if it is closed already."""
    try:
        return socket.socket(fileno=socket.dup(fd))
    except (OSError, ValueError):
        return None


class Ending:
    """Says whether the session of a connection that we have ended has ended, too. ``twin``: its
    socket, which is ours now; None if that was closed. ``then`` is called when it counts no more.
    """

    _twin: socket.socket | None = None  # of one whose constructor failed, too

    def __init__(self, twin: socket.socket | None, then: Callable[[], None] | None = None) -> None:
        self._twin = twin
        self._then = then
        #: Until when it counts.
        self.until = boottime() + ENDS_S
        if twin is not None:
            twin.setblocking(False)
            with contextlib.suppress(OSError):  # what we said may not have been sent
                twin.shutdown(socket.SHUT_WR)

    @property
    def fd(self) -> int:
        """What to watch: it can be read when ``over`` is worth a look. -1 if it has been ended."""
        return -1 if self._twin is None else self._twin.fileno()

    @property
    def over(self) -> bool:
        """Has the server ended the session, or are we not to wait for that any longer?"""
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
        """It counts no more."""
        if self._twin is not None:
            self._twin.close()
        if self._then is not None:
            self._then()

    def __del__(self) -> None:
        if self._twin is not None:
            self._twin.close()


class Endings:
    """Those of one client. ``over`` is called when one counts no more."""

    def __init__(self, over: Callable[[], None]) -> None:
        self._over = over
        self._there: list[Ending] = []
        self._closed = False

    def __len__(self) -> int:
        return len(self._there)

    def add(self, ending: Ending) -> None:
        """It counts from now on."""
        self._there.append(ending)
        self.sweep()  # only now, as another thread may close

    def sweep(self) -> None:
        """Forget those that the server has ended."""
        for ending in list(self._there):
            if self._closed or ending.over:
                with contextlib.suppress(ValueError):  # another thread was first
                    self._there.remove(ending)
                    ending.end()
                    self._over()

    def close(self) -> None:
        """None counts any more, now or later."""
        self._closed = True
        self.sweep()
