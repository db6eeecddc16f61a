"""Cancellation of a request at the server, after its time-out has expired in this client.

So no request waits at the server after its caller has gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import pq

from ....runtime.blocking import Bell, boottime
from ....runtime.polling.blocking import READ, WRITE, poller
from ....runtime.starting.blocking import DaemonThread

_ENDS = (pq.PollingStatus.OK, pq.PollingStatus.FAILED)
#: Three times in seconds: the time limit of one attempt to send a cancellation, the pause after a
#: failed attempt, and the time limit of all attempts until one succeeds.
ATTEMPT_S, AGAIN_S, TRIED_S = 5.0, 1.0, 60.0
#: After a cancellation was sent, it is sent again every ``RETOLD_S`` seconds, for ``TOLD_S``
#: seconds. The reason: the server ignores a cancellation that arrives before its request, and the
#: request can then wait without a time limit.
RETOLD_S, TOLD_S = 0.5, 10.0
#: Seconds between two checks for a reply.
LOOK_S = 0.02
#: Seconds after which a cancelled request without a reply counts as ignored by the server.
DEAF_S = 2.0
#: The same limit, in seconds, for a request for which no cancellation could be sent.
HELD_S = 3.0


class Cancel:
    """Asks the server repeatedly to cancel the request of a connection, until `end` or a time-out.

    ``then`` is called repeatedly, on a separate thread, after the first cancellation was sent.
    """

    def __init__(self, conn: pq.abc.PGconn, then: Callable[[], None] | None = None) -> None:
        #: A connection for cancellations. It is None before libpq 17, where the sending of a
        #: cancellation would block all threads of the process. If it is None, only lock_timeout
        #: limits the request.
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
        while True:  # at least one attempt, because the request can wait without a time limit
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
        """Wait this many seconds; True if no further cancellation is to be sent."""
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
        """True if the server did not react in time: then the connection must be closed."""
        now = boottime()
        if self._told:
            return now - self._told > DEAF_S
        return now - self._begun > HELD_S

    def end(self) -> None:
        """Stop, because the reply is here or the connection has ended."""
        self._over.set()
