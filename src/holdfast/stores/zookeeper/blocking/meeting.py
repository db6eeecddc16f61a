"""The first contact of a kazoo client with a server: also one that is slow, was wiped, or was set
back.

kazoo waits for a whole session for a server that takes the connection and then doesn't answer, as
one may that was reached while it was starting: what came too early is never read. Here the server
has two seconds, and twice as many the next time.

A server refuses a client that has seen a later transaction than it has itself, because it may be
a follower that is late. One that has lost data would refuse that client forever, so at
some time the client must ask without saying what it has seen. It does so when no server has taken
it for longer than its session lasts: then each lease that was counted from this session has
expired, and whatever the server lets in doubles no hold.

The session itself may be in an older copy, with nodes that we have removed since: they would last
as long as it does. So it is ended there, and a new one is begun. Whether the copy is older can't be
asked: a server that others have written to is soon ahead of what we have seen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.exceptions import SessionExpiredError, ZookeeperError
from kazoo.protocol import serialization as wire

from ....runtime.blocking import boottime

#: Seconds that a server may take to accept the connection, and then to answer the first request; a
#: slower one is passed over for the next server, which may take twice as long to answer.
CONNECT_S = 2.0
#: Sends a request of kazoo's within the given seconds, with a number if its answer has one: the
#: answer, or the latest transaction that the server knows.
Invoke = Callable[..., Any]


class Meeting:
    """Introduces one client of kazoo's to servers."""

    def __init__(self) -> None:
        #: Since when no server has taken the session; None: one has it.
        self._since: float | None = None
        #: How long the next server has to answer that it takes us.
        self._patience = CONNECT_S

    def alone(self) -> None:
        """A server is looked for."""
        if self._since is None:
            self._since = boottime()

    def meet(self, connect: wire.Connect, timeout: float, session: float, invoke: Invoke) -> Any:
        """The answer to this introduction. ``session``: its length, in seconds.

        ``SessionExpiredError`` if no server has taken the session for longer than that.
        """
        self.alone()
        assert self._since is not None
        over = connect.last_zxid_seen > 0 and boottime() - self._since > session
        patience = min(timeout, self._patience)
        self._patience = 2 * patience  # should it be the server that is slow
        answer = invoke(patience, connect._replace(last_zxid_seen=0) if over else connect)
        if over and answer[0].time_out > 0:
            with suppress(ZookeeperError):  # a server that asks for a login first hangs up
                invoke(patience, wire.CloseInstance, 1)
            raise SessionExpiredError("no server has taken this session for longer than it lasts")
        self._since, self._patience = None, CONNECT_S
        return answer
