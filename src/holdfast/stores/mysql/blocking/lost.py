"""Connections whose request was given up: they count until the server has ended what it did.

The drivers close a connection whose time-out has expired, but the server continues with its
request until the row is free. So the socket is kept open here, and read by nobody: what arrives
there says that the request has ended.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

from ....runtime.blocking import boottime
from ....runtime.ending.blocking import Ending
from ....runtime.polling.blocking import READ, poller

#: Seconds without an answer after which a separate request ends what was given up.
PATIENT_S = 2.0


class Lost:
    """A connection that nobody uses any more. ``thread``: the number that the server gave it.
    ``over`` is told how its session ends, when the server has ended what it did there."""

    def __init__(self, twin: socket.socket, thread: int, over: Callable[[Ending], None]) -> None:
        self._twin = twin
        self.thread = thread
        self._over = over
        self.since = boottime()

    @property
    def answered(self) -> bool:
        """Has the server ended what it did there?"""
        if self._twin.fileno() < 0:  # another thread was first
            return True
        look = poller()
        with contextlib.suppress(ValueError):
            look.register(self._twin, READ)
        return bool(look.poll(0))

    def end(self) -> None:
        """From now on it counts until the server has ended its session, too."""
        self._over(Ending(self._twin))


class Graveyard(list[Lost]):
    """Those of one client."""

    def sweep(self, all_of_them: bool = False) -> None:
        """End those that have been answered."""
        for one in list(self):
            if all_of_them or one.answered:
                self._remove(one)

    def stubborn(self) -> Iterator[Lost]:
        """Those that were given up a while ago, and still give no answer."""
        now = boottime()
        yield from (one for one in list(self) if now - one.since > PATIENT_S)

    def look(self, prefix: str) -> str:
        """The statement that finds the numbers of those stubborn ones that may be killed.

        A number alone says little: behind a balancer, or after a restart, it may be the session of
        somebody else. Ours is one of our user in our database that does something with our tables.
        """
        # No session has number 0; another thread may have ended all the others by now.
        numbers = ", ".join(str(number) for number in (0, *(one.thread for one in self.stubborn())))
        return (
            "SELECT id FROM information_schema.processlist"  # noqa: S608 - numbers, and a prefix
            f" WHERE id IN ({numbers}) AND user = SUBSTRING_INDEX(USER(), '@', 1)"
            f" AND db = DATABASE() AND INSTR(info, '{prefix}_')"
        )

    def forget(self) -> None:
        """The stubborn ones were killed, or are of a server that is gone."""
        for one in list(self.stubborn()):
            self._remove(one)

    def _remove(self, one: Lost) -> None:
        with contextlib.suppress(ValueError):  # another thread was first
            self.remove(one)
            one.end()
