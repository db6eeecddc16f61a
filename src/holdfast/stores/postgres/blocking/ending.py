"""A connection that we have ended: its session counts until the server has ended it, too.

A new connection would else be made while the server still has the old one to start up, to answer or
to end. A busy server takes a second for that, and has more sessions than the client may have.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

import psycopg
from psycopg import pq

from ....runtime.blocking import boottime

#: Seconds that an ended session counts at most, because its server may never say that it has ended.
ENDS_S = 2.0
_PIECE = 1 << 16


class Ending:
    """Ends a connection, and looks whether its session has ended. ``then`` is called when it counts
    no more."""

    #: Its socket under another descriptor; None if it was closed already.
    _twin: socket.socket | None = None

    def __init__(self, conn: pq.abc.PGconn, then: Callable[[], None] | None = None) -> None:
        #: Until when it counts.
        self.until = boottime() + ENDS_S
        self._then = then
        with contextlib.suppress(OSError, psycopg.OperationalError):
            self._twin = socket.socket(fileno=socket.dup(conn.socket))
        conn.finish()
        if self._twin is not None:
            self._twin.setblocking(False)
            with contextlib.suppress(OSError):  # what we said may not have been sent
                self._twin.shutdown(socket.SHUT_WR)

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
