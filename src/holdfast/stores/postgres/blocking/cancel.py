"""A request whose time-out has expired is cancelled at the server, too: nothing waits there for
nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import pq

from ....runtime.blocking import Bell, boottime
from ....runtime.polling.blocking import READ, WRITE, poller
from ....runtime.starting.blocking import DaemonThread

_ENDS = (pq.PollingStatus.OK, pq.PollingStatus.FAILED)
#: Seconds that an attempt to tell the server may take, until the next one if it failed, and for how
#: long it is tried.
ATTEMPT_S, AGAIN_S, TRIED_S = 5.0, 1.0, 60.0
#: Seconds after which the server is told again, and for how long: a cancellation that arrives
#: before the request that it is meant for is dropped, and the request may wait without an end.
RETOLD_S, TOLD_S = 0.5, 10.0
#: Seconds between two looks for an answer.
LOOK_S = 0.02
#: Seconds after which a cancelled request without an answer doesn't react to the cancellation.
DEAF_S = 2.0
#: Seconds for the server to end the connection by itself, where it can't be told at all.
HELD_S = 3.0


class Cancel:
    """Asks the server to end what a connection does, again and again, until it is said to be over.

    ``then`` is called all the while, in a thread, from when the server was told.
    """

    def __init__(self, conn: pq.abc.PGconn, then: Callable[[], None] | None = None) -> None:
        #: Where the connection leads. Libraries older than libpq 17 can only block with all threads
        #: of the process: there a row's lock_timeout is all that bounds the server.
        try:
            self._request: Any = conn.cancel_conn()
        except psycopg.NotSupportedError:
            self._request = None
        self._then = then
        self._over = Bell()
        self._begun, self._told = boottime(), 0.0
        if self._request is not None:
            DaemonThread(target=self._send, name="holdfast-cancel").start()

    def _send(self) -> None:
        while True:  # once in any case: the server may wait without an end
            try:
                told = self._attempt(boottime() + ATTEMPT_S)
            except (psycopg.Error, OSError, ValueError):
                told = False
            if told and not self._told:
                self._told = boottime()
            if self._rest(RETOLD_S if told else AGAIN_S):
                return
            self._request.reset()

    def _rest(self, seconds: float) -> bool:
        """Wait this many seconds; True if the server needn't be told again."""
        end = boottime() + seconds
        while (left := end - boottime()) > 0:
            if self._told and self._then is not None:
                self._then()
            if self._over.wait(min(LOOK_S, left)):
                return True
        now = boottime()
        return now - self._told > TOLD_S if self._told else now - self._begun > TRIED_S

    def _attempt(self, until: float) -> bool:
        self._request.start()
        while (state := self._request.poll()) not in _ENDS:
            looking = poller()
            reading = state == pq.PollingStatus.READING
            looking.register(self._request.socket, READ if reading else WRITE)
            left = until - boottime()
            if left <= 0 or not looking.poll(left * 1000):
                return False
        return bool(state == pq.PollingStatus.OK)

    @property
    def ignored(self) -> bool:
        """Was the server told, and doesn't answer? Then the connection leads nowhere."""
        now = boottime()
        if self._told:
            return now - self._told > DEAF_S
        return now - self._begun > HELD_S

    def end(self) -> None:
        """The answer is here, or the connection has ended."""
        self._over.set()
