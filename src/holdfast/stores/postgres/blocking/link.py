"""One connection, for one thread at a time."""

from __future__ import annotations

import contextlib
import math
import os
import socket
from collections.abc import Callable
from typing import TypeVar

import psycopg
from psycopg import pq

from ....errors import StoreUnavailable
from ....runtime.blocking import boottime
from ....runtime.ending.blocking import Ending
from ....runtime.polling.blocking import READ, WRITE, poller
from ..calls import SESSION_S, Call, bounded
from ..config import Settings
from ..replies import Rows
from . import wire
from .cancel import Cancel
from .wire import Steps

T = TypeVar("T")
_EVENTS = {
    wire.READ: READ,
    wire.WRITE: WRITE,
    wire.READ | wire.WRITE: READ | WRITE,
}


def drive(steps: Steps[T], until: float) -> T:
    """Run the steps, and wait for each event that they yield; ``TimeoutError`` after ``until``."""
    polling, known = poller(), -1
    try:
        fd, what = next(steps)
        while True:
            if known not in (-1, fd):
                with contextlib.suppress(KeyError):
                    polling.unregister(known)
            known = fd
            polling.register(fd, _EVENTS[what])
            left = until - boottime()
            if left <= 0 or not polling.poll(math.ceil(left * 1000)):
                raise TimeoutError
            fd, what = steps.send(None)
    except StopIteration as end:
        value: T = end.value
        return value


class Link:
    """A connection that is ready for a request."""

    def __init__(self, conn: pq.abc.PGconn, peer: wire.Peer) -> None:
        self._conn = conn
        self.peer = peer
        self.prepared: set[bytes] | None = None if peer.pooled else set()
        self.used = boottime()

    @property
    def dead(self) -> bool:
        """True if the connection has ended."""
        return self._conn.status == pq.ConnStatus.BAD

    def stale(self) -> bool:
        """True if data arrived or the connection ended while no request was open."""
        polling = poller()
        polling.register(self._conn.socket, READ)
        if not polling.poll(0):
            return False
        try:  # either the end, or a changed setting, which the server reports without a request
            self._conn.consume_input()
        except psycopg.OperationalError:
            return True
        return self.dead or bool(polling.poll(0))

    def answered(self) -> bool:
        """True if data arrived for the open request, or the connection ended."""
        looking = poller()
        try:
            looking.register(self._conn.socket, READ)
        except psycopg.OperationalError:
            return True
        return bool(looking.poll(0))

    def cancel(self, then: Callable[[], None]) -> Cancel:
        """Ask the server to cancel the open request."""
        return Cancel(self._conn, then)

    def ask(self, call: Call, settings: Settings, until: float) -> Rows:
        """Return the rows of the reply; an error of the server is raised as ``ServerSaid``."""
        left = until - boottime()
        if left < SESSION_S or self.prepared is None:  # a pooler keeps no lock_timeout for us
            call = bounded(call, left)
        rows = drive(wire.exchange(self._conn, call, self.prepared, settings), until)
        self.used = boottime()
        return rows

    def say(self, text: str, until: float) -> Rows:
        """Run some statements; return the rows of the last one."""
        return drive(wire.saying(self._conn, text), until)

    def install(self, settings: Settings, until: float) -> None:
        """Make the schema, unless it is there."""
        drive(wire.installing(self._conn, settings), until)

    def listen(self, channel: str, until: float) -> None:
        """Start to receive the messages to this channel."""
        drive(wire.listening(self._conn, channel), until)

    def heard(self, seconds: float) -> list[str]:
        """Wait for a message, at most ``seconds``; return all messages that have arrived."""
        found = wire.heard(self._conn)
        if found or seconds <= 0:
            return found
        polling = poller()
        polling.register(self._conn.socket, READ)
        return wire.heard(self._conn) if polling.poll(math.ceil(seconds * 1000)) else []

    def hang_up(self) -> None:
        """Shut down the socket, so that a thread that reads the socket fails."""
        with (
            contextlib.suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self._conn.socket)) as twin,
        ):
            twin.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection."""
        self._conn.finish()

    def ending(self, then: Callable[[], None] | None = None) -> Ending:
        """End the connection; return the `Ending` that shows when its session has ended."""
        return wire.ending(self._conn, then)


def dial(
    settings: Settings,
    until: float,
    use: Callable[[str], pq.abc.PGconn] = wire.begin,
    ended: Callable[[Ending], None] = Ending.end,
) -> Link:
    """Connect to the first host that accepts a connection and takes writes.

    ``ended`` is called for each connection that was begun and given up.
    """
    failure: Exception | None = None
    for at, place in enumerate(settings.places):
        left = until - boottime()
        mine = boottime() + left / (len(settings.places) - at)
        conn = None
        try:
            conn = use(place)
            drive(wire.connecting(conn, settings.label), mine)
            return Link(conn, drive(wire.hello(conn, settings), mine))
        except BaseException as wrong:
            if conn is not None:
                ended(wire.ending(conn))
            if not isinstance(wrong, Exception):
                raise
            failure = wrong
    try:
        if isinstance(failure, TimeoutError | psycopg.Error):
            raise StoreUnavailable(
                f"{settings.label} took no connection in time: {str(failure) or 'no answer'}"
            ) from None
        assert failure is not None
        raise failure from None  # an exception that the caller handles isn't its cause
    finally:
        del failure  # its traceback refers to this frame, and so to itself and the connection
