"""Given-up connections: each counts in the pool until the server has ended its last request.

The drivers close a connection whose time-out has expired, but the server continues with the
request, which can wait for a row. So this module keeps the socket open and doesn't read it. When
data arrives at the socket, the request has ended.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

from ....runtime.blocking import boottime
from ....runtime.ending.blocking import Ending
from ....runtime.polling.blocking import READ, poller

#: Seconds without a reply after which a separate request ends a request that was given up.
PATIENT_S = 2.0


class Lost:
    """A connection that is no longer used.

    ``thread``: the number of its session at the server. ``over`` is called with the `Ending` of the
    session when the server has ended the request.
    """

    def __init__(self, twin: socket.socket, thread: int, over: Callable[[Ending], None]) -> None:
        self._twin = twin
        self.thread = thread
        self._over = over
        self.since = boottime()

    @property
    def answered(self) -> bool:
        """True if the server has ended the request."""
        if self._twin.fileno() < 0:  # another thread was first
            return True
        look = poller()
        with contextlib.suppress(ValueError):
            look.register(self._twin, READ)
        return bool(look.poll(0))

    def close(self) -> None:
        """Close the connection."""
        self._twin.close()

    def end(self) -> None:
        """Report that the request has ended. The session counts until it has ended, too."""
        self._over(Ending(self._twin))


class Graveyard(list[Lost]):
    """The lost connections of one client."""

    def sweep(self, all_of_them: bool = False) -> None:
        """End the connections whose request has been answered."""
        for one in list(self):
            if all_of_them or one.answered:
                self._remove(one)

    def stubborn(self) -> Iterator[Lost]:
        """Yield the connections without a reply `PATIENT_S` seconds after they were given up."""
        now = boottime()
        yield from (one for one in list(self) if now - one.since > PATIENT_S)

    def look(self, prefix: str) -> str:
        """Return the statement that finds the sessions of `stubborn` connections, to kill them.

        The number of a session isn't enough: behind a balancer, or after a restart, another client
        can have this number. A session is ours if it has our user and our database, and if its
        request uses our tables.
        """
        # No session has number 0. The 0 keeps the list valid if no connection is stubborn any
        # longer.
        numbers = ", ".join(str(number) for number in (0, *(one.thread for one in self.stubborn())))
        return (
            "SELECT id FROM information_schema.processlist"  # noqa: S608 - numbers, and a prefix
            f" WHERE id IN ({numbers}) AND user = SUBSTRING_INDEX(USER(), '@', 1)"
            f" AND db = DATABASE() AND INSTR(info, '{prefix}_')"
        )

    def forget(self) -> None:
        """Remove the stubborn connections: their sessions were killed, or the server is gone."""
        for one in list(self.stubborn()):
            self._remove(one)

    def abandon(self) -> None:
        """Close all connections, and report nothing: the event loop no longer runs."""
        while self:
            self.pop().close()

    def _remove(self, one: Lost) -> None:
        with contextlib.suppress(ValueError):  # another thread was first
            self.remove(one)
            one.end()
