"""Connects a kazoo client to a server that may be slow, empty, or restored from an older copy.

kazoo waits for a whole session for a server that accepts the connection and doesn't answer. A
server that was reached while it was starting may never read the first request. Here the server has
two seconds to answer, and twice as long the next time.

A server refuses a client that has seen a later transaction than the server itself, because the
server may be a follower that is behind. A server that has lost data would refuse that client
forever, so at some time the client must connect without its last seen transaction. It does so when
no server has accepted it for longer than its session lasts: then each lease that was counted from
this session has expired, and a new grant of the server can't double a hold.

An older copy may contain the session, with nodes that we have deleted since; they would stay for
as long as the session lives. So we end the session there, and begin a new one. We can't find out
whether the copy is older: after writes of other clients it is soon ahead of what we have seen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.exceptions import SessionExpiredError, ZookeeperError
from kazoo.protocol import serialization as wire

from ....runtime.blocking import boottime

#: Maximum seconds for a server to accept the connection, and then to answer the first request. If
#: it is slower we try the next server, which may take twice as long to answer.
CONNECT_S = 2.0
#: Sends a kazoo request with a time-out in seconds, and with a number if its answer has one. It
#: returns the answer, or the latest transaction that the server knows.
Invoke = Callable[..., Any]


class Meeting:
    """Sends the first request of one kazoo client to servers."""

    def __init__(self) -> None:
        #: Since when no server has accepted the session; None: one has accepted it.
        self._since: float | None = None
        #: Seconds for the next server to accept us.
        self._patience = CONNECT_S

    def alone(self) -> None:
        """Note the start of the search for a server, if none is running."""
        if self._since is None:
            self._since = boottime()

    def meet(self, connect: wire.Connect, timeout: float, session: float, invoke: Invoke) -> Any:
        """Send the connect request, and return its answer. ``session``: its length, in seconds.

        ``SessionExpiredError`` if no server has accepted the session for longer than that.
        """
        self.alone()
        assert self._since is not None
        over = connect.last_zxid_seen > 0 and boottime() - self._since > session
        patience = min(timeout, self._patience)
        self._patience = 2 * patience  # in case the servers are slow
        answer = invoke(patience, connect._replace(last_zxid_seen=0) if over else connect)
        if over and answer[0].time_out > 0:
            with suppress(ZookeeperError):  # a server that wants a login first disconnects
                invoke(patience, wire.CloseInstance, 1)
            raise SessionExpiredError("no server accepted this session for longer than it lasts")
        self._since, self._patience = None, CONNECT_S
        return answer
