"""The connections of one client for threads: a small pool, and one in reserve.

A verb takes the connection that was used last, and returns it after the reply. If no connection is
idle, the thread opens a new one while few are open, or else waits until one is returned. So a
thousand threads cost a server few connections. Renewals and releases are *urgent*: they never queue
behind other requests. From the second connection on, one is kept in reserve for urgent requests.

No lock is held anywhere, so that a signal handler may use the client that it interrupts.
"""

from __future__ import annotations

import _thread
import errno
from collections import deque
from typing import Any, NoReturn
from weakref import WeakSet

from ....errors import ConfigError, StoreUnavailable
from ....runtime.blocking import boottime
from ..complaints import DEMOTED, MOVED, ServerSaid
from ..config import Settings
from ..library import BEGIN, JOIN, JOIN_FREE, PUT, TAKE, Script
from ..recovery import Unconfirmed
from .dial import Dialler
from .exchange import Exchange
from .link import Link

#: Seconds of idleness after which a connection is checked before it is used.
FRESH_S = 1.0
#: Maximum number of idle connections in the pool.
IDLE_MAX = 64
#: While there are fewer connections than the first number, a thread that finds none idle opens one
#: immediately. While there are fewer than the second number, the thread opens one after `CROWDED_S`
#: seconds.
OPEN_FEW, OPEN_MAX = 10, 34
CROWDED_S = 0.25
#: Maximum seconds to wait for a connection that another thread is just passing on.
HANDED_S = 0.05
#: Scripts that ask for something new; all others are urgent.
_PATIENT = frozenset({JOIN, JOIN_FREE, PUT, TAKE, BEGIN})
#: Errors of a server that isn't a primary: all connections to it are closed (`_farewell`).
FAREWELL = DEMOTED | {MOVED, "LOADING"}
#: Errors of the system that allow no further connection now. Open connections still work.
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})


class _Turn:
    """A thread that waits for a connection or opens one; it sleeps on the lock ``bell``."""

    __slots__ = ("__weakref__", "bell", "gone", "link", "urgent")

    def __init__(self, urgent: bool) -> None:
        self.urgent = urgent
        #: True if the thread no longer waits.
        self.gone = False
        self.link: Link | None = None
        self.bell = _thread.allocate_lock()
        self.bell.acquire()


class Connections(Exchange):
    """The pool and the reserve; see the module."""

    #: The class of a connection.
    _link: type[Link] = Link
    #: See `OPEN_FEW`. A subclass sets no limit if each of its waiters keeps a connection.
    _few: float = OPEN_FEW
    _most: float = OPEN_MAX

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.label = settings.label
        self._settings = settings
        self._dialler = Dialler(settings, self.recovery)
        self._start()

    def _start(self) -> None:
        #: The idle connections. If there are too many, the one that was returned first is closed.
        self._pool: deque[Link] = deque(maxlen=IDLE_MAX)
        #: The connection in reserve; empty while it is in use, or before there is one.
        self._spare: deque[Link] = deque()
        #: Weak references to all open connections: so one that an exception has lost is still
        #: closed.
        self._links: WeakSet[Link] = WeakSet()
        #: The threads that wait for a connection; weak references to the threads that open one.
        self._queue: deque[_Turn] = deque()
        self._dialling: WeakSet[_Turn] = WeakSet()
        #: True if a connection must be kept in reserve; True if a thread that returns a connection
        #: must call `_relieve`.
        self._reserving = self._short = False
        self._closed = False

    # -- taking --------------------------------------------------------------------------------

    def _take(self, now: float, until: float, script: Script | None = JOIN) -> Link:
        """A connection for this thread alone, to call this script; None: for an urgent request."""
        link: Link | None
        try:
            link = self._pool.pop()
        except IndexError:
            link = None
        if link is None:  # not in the handler, to keep IndexError out of other errors
            return self._another(now, until, script not in _PATIENT)
        if now - link.used < FRESH_S:
            return link
        self._pool.append(link)
        return self._idle(self._pool, now) or self._another(now, until, script not in _PATIENT)

    def _idle(self, of: deque[Link], now: float) -> Link | None:
        while True:
            try:
                link = of.pop()
            except IndexError:
                return None
            if now - link.used < FRESH_S:
                return link
            if not (link.stale() or (link.ear is not None and link.ear.stale())):
                return link
            self._drop(link)

    def _another(self, begun: float, until: float, urgent: bool) -> Link:
        """A connection if none is idle: the reserve, a new one, or the next that is returned."""
        turn = _Turn(urgent)
        now, again = begun, begun
        failure: StoreUnavailable | None = None
        while True:
            if urgent and self._reserving:
                self._short = True
                if link := self._idle(self._spare, now):
                    return link
            if now >= again:
                again = now + CROWDED_S
                try:
                    if link := self._grown(turn, now - begun, until):
                        return link
                except StoreUnavailable as wrong:
                    if not self._links or not _is_scarce(wrong):
                        raise
                    failure = wrong
            if link := self._awaited(_Turn(urgent), min(until, again)):
                return link
            now = boottime()
            if now >= until:
                raise failure or StoreUnavailable(
                    f"all {len(self._links)} connections of this client to {self.label} were in "
                    f"use for {now - begun:.3g} s: it answers too slowly for this number of threads"
                )

    def _grown(self, turn: _Turn, waited: float, until: float) -> Link | None:
        """Open a connection; None if there are enough."""
        self._dialling.add(turn)
        try:
            many = len(self._links) + len(self._dialling)
            crowd = waited < CROWDED_S or many > self._most or len(self._dialling) > 1
            if many > self._few and crowd and not self._closed:
                return None
            link = self._dial(until)
        finally:
            self._dialling.discard(turn)
        if many > 1 and not self._reserving:  # the next returned one is kept
            self._reserving = self._short = True
        return link

    def _awaited(self, turn: _Turn, until: float) -> Link | None:
        """The next connection that is returned; None if no thread returns one before ``until``."""
        rung = False
        try:
            if turn.urgent:
                self._queue.appendleft(turn)
            else:
                self._queue.append(turn)
            self._short = True
            if self._pool:
                self._relieve()  # a connection was returned just before
            rung = turn.bell.acquire(True, max(0.0, until - boottime()))
        finally:
            try:
                self._queue.remove(turn)
            except ValueError:
                if not rung:  # another thread is just passing on a connection
                    turn.bell.acquire(True, HANDED_S)
            turn.gone = True
            link, turn.link = turn.link, None
        return link

    def _relieve(self) -> None:
        """Pass on idle connections: first to threads with urgent requests, then to the reserve,
        then to other threads."""
        self._short = False
        while self._queue or not self._spare:
            try:
                link = self._pool.pop()
            except IndexError:
                self._short = True
                return
            try:
                turn = self._queue.popleft()
            except IndexError:
                if self._spare or not self._reserving:
                    self._pool.append(link)
                    if not self._queue:  # a thread that comes later sees the connection
                        return
                else:
                    self._spare.append(link)
                continue
            if turn.gone:  # the turn was put back here when its thread had left
                self._pool.append(link)
            elif self._spare or turn.urgent or not self._reserving:
                turn.link = link
                turn.bell.release()
            else:
                self._queue.appendleft(turn)
                self._spare.append(link)

    # -- making --------------------------------------------------------------------------------

    def _dial(self, until: float) -> Link:
        link = self._link(self._dialler.dial(until))
        self._links.add(link)
        return link

    # -- returning -----------------------------------------------------------------------------

    def _give(self, link: Link, reply: Any) -> None:
        """Return a connection to the pool, unless it leads to a server that isn't a primary."""
        if reply.__class__ is ServerSaid and reply.code in FAREWELL:
            self._drop(link)
            self._farewell()
        else:
            self._pool.append(link)
            if self._short:
                self._relieve()

    def _farewell(self) -> None:
        """Close the idle connections: no connection to this server is useful any longer."""
        for idle in (self._pool, self._spare):
            while idle:
                try:
                    self._drop(idle.pop())
                except IndexError:
                    break  # another thread was faster

    def _drop(self, link: Link) -> None:
        self._links.discard(link)
        link.close()

    def _broken(self, link: Link, wrong: BaseException, within: float) -> NoReturn:
        """Close the connection, except after `Unconfirmed`, and raise the error for the caller."""
        if isinstance(wrong, Unconfirmed):
            self._give(link, None)
            raise wrong
        self._drop(link)
        if isinstance(wrong, TimeoutError | BlockingIOError):
            raise StoreUnavailable(f"{self.label} gave no answer within {within:.3g} s") from wrong
        if isinstance(wrong, OSError):
            raise StoreUnavailable(f"the connection to {self.label} broke: {wrong}") from wrong
        if isinstance(wrong, ValueError) and not isinstance(wrong, ConfigError | UnicodeError):
            text = f"{self.label} sent bytes that aren't a reply: {wrong}"
            raise StoreUnavailable(text) from wrong
        raise wrong

    # -- their end -----------------------------------------------------------------------------

    def _hang_up(self) -> None:
        """Close all connections; wake threads that read from a connection or wait for one."""
        self._closed = True
        pool, self._pool = self._pool, deque(maxlen=0)
        spare, self._spare = self._spare, deque(maxlen=0)
        for idle in (pool, spare):
            while idle:
                self._drop(idle.pop())
        for link in self._open():
            link.hang_up()

    def _open(self) -> list[Link]:
        while True:
            try:
                return list(self._links)
            except RuntimeError:  # another thread has just made one
                continue


def _is_scarce(wrong: BaseException) -> bool:
    """True if no connection could be made because a limit on their number is reached."""
    cause: BaseException | None = wrong
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _SCARCE:
            return True
        if "max number of clients" in str(cause) or "Too many open files" in str(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
