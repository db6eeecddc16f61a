"""How a client of kazoo's meets a server: also one that is slow, was wiped, or was set back.

kazoo waits for a whole session for a server that takes the connection and then doesn't answer, as
one may that was reached while it was starting: what came too early is never read. Here the server
has two seconds, and twice as many the next time.

A server refuses a client that has seen a later transaction than it has itself, because it may be
a follower that is late. One that has lost data would refuse that client for ever, so at some time
the client must ask without saying what it has seen. It does so when no server has taken it for
longer than its session lasts: then each lease that was counted from this session is over, and
whatever the server lets in doubles no hold.

The session itself may be in the older copy, with nodes that we have removed since. So if the server
is behind what we have seen, the session is ended there, and a new one is begun.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.exceptions import SessionExpiredError, ZookeeperError
from kazoo.protocol import serialization as wire

from ....runtime.blocking import boottime

#: A server that doesn't take the connection in so many seconds is passed over for the next one; so
#: is one that doesn't answer the first request in as many, or in twice as many the next time.
CONNECT_S = 2.0
#: Sends a request of kazoo's in so many seconds, with a number if its answer has one: the answer,
#: or the latest transaction that the server knows.
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

        ``SessionExpiredError`` if the server was set back.
        """
        self.alone()
        assert self._since is not None
        seen = connect.last_zxid_seen
        over = seen > 0 and boottime() - self._since > session
        patience = min(timeout, self._patience)
        self._patience = 2 * patience  # should it be the server that is slow
        ask = partial(invoke, patience)
        answer = ask(connect._replace(last_zxid_seen=0) if over else connect)
        if over and answer[0].time_out > 0 and _set_back(seen, ask):
            raise SessionExpiredError("the server has lost what this session has seen")
        self._since, self._patience = None, CONNECT_S
        return answer


def _set_back(seen: int, ask: Callable[..., Any]) -> bool:
    """Is the server behind this transaction? Then our session there is ended."""
    try:
        # A follower that is late catches up first.
        if (ask(wire.Sync("/"), 1) or 0) >= seen:
            return False
        ask(wire.CloseInstance, 2)
    except ZookeeperError:
        return True  # it answers only those who log in first: the session there ends by itself
    return True
