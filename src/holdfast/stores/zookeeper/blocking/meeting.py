"""Connects a kazoo client to a server that may be slow, empty, or restored from an older copy.

If a server accepts the connection and doesn't answer, kazoo waits for the length of a session. A
server that is just starting may never read the first request. Here a server has two seconds to
answer, and the next server has twice this time.

A server refuses a client that has seen a later transaction than the server itself, because the
server may be a follower that is behind. A server that has lost data would always refuse such a
client. So at some time the client must connect without its last seen transaction. The client does
so when no server has accepted it for longer than the length of its session. At that time each lease
that was counted from this session has expired, so a new grant by the server can't double a hold.

A server restored from an older copy may know the session, with nodes that we have deleted since.
These nodes would stay while the session lives. So we end the session there, and begin a new one. We
end the session even if the copy may not be older. We can't find that out: after writes of other
clients, the copy's last transaction is later than the last transaction that we have seen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.exceptions import SessionExpiredError, ZookeeperError
from kazoo.protocol import serialization as wire

from ....runtime.blocking import boottime

#: Maximum seconds for a server to accept the connection, and then to answer the first request. If a
#: server is slower, we try the next server, which has twice this time to answer.
CONNECT_S = 2.0
#: Sends a request. The arguments are a time-out in seconds, the kazoo request, and its number if
#: the answer contains a number. The result is the answer, or the server's latest transaction.
Invoke = Callable[..., Any]


class Meeting:
    """Sends the first request of one kazoo client to servers."""

    def __init__(self) -> None:
        #: Since when no server has accepted the session; None: a server has accepted it.
        self._since: float | None = None
        #: Seconds in which the next server must answer.
        self._patience = CONNECT_S

    def alone(self) -> None:
        """Record the time at which the search for a server starts, unless a search is running."""
        if self._since is None:
            self._since = boottime()

    def meet(self, connect: wire.Connect, timeout: float, session: float, invoke: Invoke) -> Any:
        """Send the connect request, and return its answer.

        ``session`` is the length of the session in seconds. If no server has accepted the session
        for longer than ``session``, raise ``SessionExpiredError``.
        """
        self.alone()
        assert self._since is not None
        over = connect.last_zxid_seen > 0 and boottime() - self._since > session
        patience = min(timeout, self._patience)
        self._patience = 2 * patience  # in case the servers are slow
        answer = invoke(patience, connect._replace(last_zxid_seen=0) if over else connect)
        if over and answer[0].time_out > 0:
            with suppress(ZookeeperError):  # a server that requires a login disconnects here
                invoke(patience, wire.CloseInstance, 1)
            raise SessionExpiredError("no server accepted this session for longer than it lasts")
        self._since, self._patience = None, CONNECT_S
        return answer
