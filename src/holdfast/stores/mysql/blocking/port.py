"""The port for threads: a pool of connections.

A verb takes the connection that was used last, or makes one, and returns it after the reply or an
error of the server. After any other failure, Ctrl-C included, the connection is not used again. So
another request never reads a reply that is still under way.

A failed connection counts in the pool until the server has ended the request and the session. A
connection that was given up while it was being made counts, too. Renewals and releases don't wait
for sessions to end, other verbs do. If a verb's time is too short to make a connection, a separate
thread makes the connection for the next verb.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from weakref import WeakSet

from ....errors import HoldfastError, StoreUnavailable
from ....runtime.blocking import Turn, boottime
from ....runtime.making.blocking import Makes
from ..complaints import ServerSaid
from ..config import Settings
from ..exchange import Exchange
from .link import ThreadLink, dial
from .lost import Graveyard, Lost

#: Seconds of idleness after which a connection is checked before it is used.
FRESH_S = 1.0
#: Time limit, in seconds, for ending a request that is stuck at the server.
_KILL_S = 1.0
#: Objects of the parent in a forked child: they stay referenced, because the server would notice
#: their end.
_of_the_parent: list[object] = []


class ThreadPort(Exchange[ThreadLink], Makes[ThreadLink]):
    """See :class:`holdfast.stores.mysql.store.Port`."""

    def __init__(self, settings: Settings) -> None:
        Exchange.__init__(self, settings)
        self._start()

    def _start(self) -> None:
        Makes.__init__(self, self._settings.connect_s, self._settings.pool)
        self._idle: deque[ThreadLink] = deque()
        #: Every open connection, by weak references: a connection that an exception lost is closed.
        self._links: WeakSet[ThreadLink] = WeakSet()
        self._lost = Graveyard()
        self._killing = Turn()
        self._closed = False

    async def _take(self, within: float, urgent: bool) -> ThreadLink:
        return self._reach(boottime() + within, urgent)

    def _lend(self) -> ThreadLink | None:
        if self._lost or self._ending:  # ended connections no longer count
            self._sweep()
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return None
            if boottime() - link.used < FRESH_S or not link.stale():
                return link
            self._drop(link)

    def _there(self) -> int:
        return len(self._links) + len(self._lost)

    def _dial(self, until: float) -> ThreadLink:
        link = dial(self._settings, until - boottime(), self._ending.add)
        self._links.add(link)
        return link

    def _tidy(self, until: float) -> None:
        self._sweep()
        self._end_the_stubborn(until)

    def _sweep(self) -> None:
        self._lost.sweep()
        self._ending.sweep()

    def _all_in_use(self) -> StoreUnavailable:
        lost = len(self._lost) + len(self._ending)
        return StoreUnavailable(
            f"all {self._settings.pool} connections of this client of {self.label} are in use, "
            f"{lost} of them by requests that were given up; its option pool= allows more"
        )

    def _end_the_stubborn(self, until: float) -> None:
        """End requests that don't end by themselves, by separate requests, one after another."""
        if next(self._lost.stubborn(), None) is None:
            return
        key = object()
        try:
            if self._killing.take(key) and not self._ending:
                self._kill(until)
        finally:
            self._killing.leave(key)

    def _kill(self, until: float) -> None:
        within = min(_KILL_S, until - boottime())
        with contextlib.suppress(HoldfastError):
            link = dial(self._settings, within, self._ending.add)
            try:
                for (number,) in link.rows(self._lost.look(self._settings.prefix), within):
                    with contextlib.suppress(ServerSaid):  # it has just ended
                        link.rows(f"KILL {number}", within)
            finally:
                self._ending.add(link.ending())
            self._lost.forget()

    def _give(self, link: ThreadLink) -> None:
        if self._more and self._there() > self._most:
            self._drop(link)  # the reserved connection is made again when it is needed
            return
        self._idle.append(link)
        if self._closed:  # checked after the append: another thread can close the port
            self._drain()
        if not self._back.is_set():
            self._back.set()

    def _drop(self, link: ThreadLink) -> None:
        """End a connection; it counts until the server has ended its session."""
        self._ending.add(link.ending())
        self._forget(link)

    def _forget(self, link: ThreadLink) -> None:
        with self._counting:
            self._links.discard(link)
        self._back.set()

    def _abandon(self, link: ThreadLink) -> None:
        left = link.lost()
        if left is not None:
            self._lost.append(Lost(left, link.thread, self._ending.add))
            if self._closed:  # no later call sweeps this connection
                self._lost.sweep(all_of_them=True)
        self._forget(link)

    async def sleep(self, seconds: float) -> None:
        """Sleep for this many seconds."""
        time.sleep(seconds)

    def now(self) -> float:
        """Return the seconds of a clock that never jumps."""
        return boottime()

    async def close(self) -> None:
        """End the connections; a connection in use is ended when it is returned."""
        self._closed = True
        self._ending.close()
        self._lost.sweep(all_of_them=True)
        self._drain()

    def _drain(self) -> None:
        """End all idle connections."""
        with contextlib.suppress(IndexError):
            while True:
                self._drop(self._idle.pop())

    def forked(self) -> None:
        """Begin without state in the child of a fork, and keep the parent's objects unused."""
        _of_the_parent.append((self._idle, self._links, self._lost))
        self._start()
