"""The port for threads: a pool of connections, and one more that listens for all waiters.

A verb takes the idle connection that was used last, or makes one, and returns it after the reply.

After an error that the server reports, the connection can be used again. After any other failure,
such as Ctrl-C, it is not used again, so that no other request reads the late reply. The request is
cancelled at the server. The connection counts in the pool until the server has answered and has
ended the session. A connection that was begun and given up counts, too. Renewals and releases don't
wait for sessions to end, other verbs do. If a verb's time is too short to make a connection, a
separate thread makes the connection for the next verb.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import NoReturn
from weakref import WeakSet

import psycopg

from ....core.model import Granted
from ....core.policy import NAP_S_MAX, back_off
from ....errors import ConfigError, StoreUnavailable
from ....runtime.blocking import Turn, boottime
from ....runtime.making.blocking import Makes
from ..calls import Call
from ..complaints import READ_ONLY, ServerSaid, complaint
from ..config import Settings
from ..replies import Rows
from .cancel import Cancel
from .ear import Ear
from .link import Link, dial

#: Seconds of idleness after which a connection is checked before it is used.
FRESH_S = 0.5
#: Maximum seconds for an attempt to connect.
CONNECT_S = 5.0
#: Seconds after a failure to listen before the next attempt.
MUTE_S = 1.0
#: Seconds between two checks by a thread that waits for another thread to open the listener.
_LOOK_S = 0.005
#: Logged once, if two connections turn out to share a session.
SHARED = (
    "%s: one session of the server answers two connections of this client, so the pooler isn't in "
    "session mode, although pooler=session is set; waiters poll instead of being woken"
)
log = logging.getLogger("holdfast")


class ThreadPort(Makes[Link]):
    """See :class:`holdfast.stores.postgres.store.Port`."""

    def __init__(self, settings: Settings) -> None:
        self.label = settings.label
        self.deaf = False
        self._settings = settings
        self._start()

    def _start(self) -> None:
        super().__init__(CONNECT_S, self._settings.pool)
        self._pool: deque[Link] = deque()
        #: Every open connection. The references are weak, so that a connection that an exception
        #: has lost is closed.
        self._links: WeakSet[Link] = WeakSet()
        #: Connections whose request was given up and cancelled.
        self._lost: list[tuple[Link, Cancel]] = []
        self._ear = Ear()
        self._opening = Turn()
        self._mute_until = 0.0
        self._closed = False
        #: True if the pooler keeps no sessions although pooler=session is set.
        self._shared = False
        #: Number of sleeps of each claim that waits without wake-ups.
        self._naps: dict[str, int] = {}

    def now(self) -> float:
        """Return the time; see the protocol."""
        return boottime()

    async def ask(self, call: Call, within: float) -> Rows:
        """Return the rows of the reply; see the protocol."""
        until = boottime() + within
        link = self._reach(until, call.verb.urgent)
        try:
            rows = link.ask(call, self._settings, until)
        except BaseException as wrong:
            self._broken(link, wrong, within)
        self._give(link)
        return rows

    # -- waiting -----------------------------------------------------------------------------

    def seat(self, claim_id: str) -> str:
        """Prepare to wake a claim; see the protocol."""
        if self._ear.link is None or self.deaf:
            return ""
        self._ear.box(claim_id)
        return self._ear.address

    async def listen(self, within: float) -> None:
        """Start to receive wake-ups; see the protocol."""
        until = boottime() + within
        key = object()
        try:
            while boottime() >= self._mute_until and self._ear.link is None and not self.deaf:
                if self._opening.take(key):
                    try:
                        self._open_ear(until)
                    except BaseException:
                        self._mute_until = boottime() + MUTE_S
                        raise
                    return
                if boottime() >= until:
                    return
                time.sleep(_LOOK_S)
        finally:
            self._opening.leave(key)

    def _open_ear(self, until: float) -> None:
        link = self._dial(until)
        if self.deaf:
            self._drop(link)
            return
        try:
            link.listen(self._ear.address, until)
        except BaseException as wrong:
            self._broken(link, wrong, until - boottime())
        self._ear.link = link
        if self._closed:  # closed during the opening
            self._deafen()

    async def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """Sleep until woken; see the protocol."""
        if self.deaf:
            slept = self._naps[claim_id] = self._naps.get(claim_id, 0) + 1
            time.sleep(max(0.0, min(seconds, back_off(slept, 1.0, NAP_S_MAX))))
            return None
        if self._ear.link is None:
            # The next request starts to listen again. Pause first if listening has just failed.
            time.sleep(max(0.0, min(seconds, self._mute_until - boottime())))
            return None
        return self._ear.wait(claim_id, ticket, seconds)

    def unlisten(self, claim_id: str) -> None:
        """Forget a claim that no longer waits; see the protocol."""
        self._naps.pop(claim_id, None)
        self._ear.forget(claim_id)

    # -- the end -----------------------------------------------------------------------------

    async def close(self) -> None:
        """End the connections, and wake all waiters."""
        self._closed = True
        self._sweep(all_of_them=True)
        self._ending.close()
        self._drain()
        self._deafen()
        self._ear.ring()

    def _drain(self) -> None:
        """End all idle connections."""
        with contextlib.suppress(IndexError):
            while True:
                self._drop(self._pool.pop())

    def _deafen(self) -> None:
        """End the connection that listens."""
        ear, self._ear.link = self._ear.link, None
        if ear is not None:
            ear.hang_up()  # if a thread reads the connection, this thread closes it

    def forked(self) -> None:
        """Begin without state in the child of a fork. The parent's sessions don't end."""
        self._start()

    # -- connections -------------------------------------------------------------------------

    def _lend(self) -> Link | None:
        while True:
            try:
                link = self._pool.pop()
            except IndexError:
                return None
            if boottime() - link.used < FRESH_S or not link.stale():
                return link
            self._drop(link)

    def _there(self) -> int:
        return len(self._links) - (self._ear.link is not None)

    def _tidy(self, until: float) -> None:
        self._sweep()

    def _all_in_use(self) -> StoreUnavailable:
        lost = len(self._lost) + len(self._ending)
        why = f"; {lost} of them wait for the server to end abandoned requests" if lost else ""
        return StoreUnavailable(
            f"all {self._settings.pool} connections of this client of {self.label} are in use{why}"
            "; its option pool= allows more"
        )

    def _sweep(self, all_of_them: bool = False) -> None:
        """End connections whose abandoned request was answered or ignored; forget ended sessions.

        ``all_of_them``: end also the connections whose abandoned request has no answer yet."""
        for one in list(self._lost):
            link, cancel = one
            answered = link.answered()
            if answered or cancel.ignored or all_of_them:
                with contextlib.suppress(ValueError):  # another thread was first
                    self._lost.remove(one)
                    if answered:
                        self._drop(link, cancel.end)
                    else:  # the server had enough time; the cancellation continues by itself
                        self._forget(link)
                        link.close()
        self._ending.sweep()

    def _abandon(self, link: Link) -> None:
        """Cancel a request at the server; its connection is no longer used."""
        try:
            self._lost.append((link, link.cancel(self._sweep)))
        except (psycopg.Error, RuntimeError):  # the connection or the interpreter is ending
            self._drop(link)

    def _dial(self, until: float) -> Link:
        if self._closed:
            raise StoreUnavailable(f"this client of {self.label} is closed")
        link = dial(self._settings, until, ended=self._ending.add)
        self._meet(link)
        return link

    def _meet(self, link: Link) -> None:
        """Count a new connection, and record whether its server can wake waiters."""
        with self._counting:
            if self._settings.sessions and link.peer.shares(one.peer for one in self._links):
                if not self._shared:
                    log.warning(SHARED, self.label)
                self._shared = True
            self._links.add(link)
        self.deaf = link.peer.pooled and (self._shared or not self._settings.sessions)

    def _give(self, link: Link) -> None:
        if self._more and self._there() > self._most:
            self._drop(link)  # the connection beyond the pool is made again when it is needed
            return
        self._pool.append(link)
        if self._closed:  # checked after the append, because another thread can close
            self._drain()
        if not self._back.is_set():
            self._back.set()

    def _drop(self, link: Link, then: Callable[[], None] | None = None) -> None:
        """End a connection; it counts until the server has ended its session."""
        self._ending.add(link.ending(then))
        self._forget(link)

    def _forget(self, link: Link) -> None:
        with self._counting:
            self._links.discard(link)
        self._back.set()

    def _broken(self, link: Link, wrong: BaseException, within: float) -> NoReturn:
        """Raise the error for a failed request. The connection is used again only after an error
        that the server reported."""
        if isinstance(wrong, ServerSaid):
            if link.dead or wrong.code == READ_ONLY:
                self._drop(link)
                self._drain()  # the idle connections lead to the same server
            else:
                self._give(link)
            raise complaint(wrong, self._settings) from None
        if isinstance(wrong, TimeoutError):
            self._abandon(link)
            raise StoreUnavailable(f"{self.label} gave no answer within {within:.3g} s") from None
        if isinstance(wrong, psycopg.Error | OSError) and not isinstance(wrong, ConfigError):
            self._drop(link)
            raise StoreUnavailable(f"the connection to {self.label} broke: {wrong}") from None
        self._abandon(link)
        raise wrong
