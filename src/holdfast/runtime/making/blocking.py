"""A connection of the client's pool for a verb in a thread: an idle one, or a new one.

If a verb dropped its half-made connection at its time-out, the next verb would start again. If
connecting takes longer than a verb may take, no verb would ever succeed. So for a verb with little
time, a thread makes the connection. The thread continues without the verb for the usual time of
connecting. In this time the connection counts for the limit of the pool; after that, all verbs can
use it.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ...errors import StoreUnavailable
from ..blocking import Bell, boottime
from ..ending.blocking import Endings
from ..starting.blocking import DaemonThread

L = TypeVar("L")
#: Seconds between two checks of a waiting call, in case a wake-up was lost.
_LOOK_S = 0.05
#: A verb that has at least this part of the usual time makes its connection itself.
_NEARLY = 0.9
#: A connection that was begun more seconds ago can be stuck: the next verb begins another one.
_YOUNG_S = 1.0


class _Making:
    """A connection that is being made. The connection counts for the limit of the pool."""

    __slots__ = ("begun", "failure", "over", "wanted")

    def __init__(self) -> None:
        self.begun = boottime()
        #: True if a verb waits for the connection.
        self.wanted = True
        #: True if the connection was made, or has failed.
        self.over = False
        self.failure: Exception | None = None


class Makes(ABC, Generic[L]):
    """A port for threads that makes connections."""

    label: str

    def __init__(self, usual_s: float, most: int) -> None:
        #: The usual maximum time for connecting.
        self._usual_s = usual_s
        #: The maximum number of connections; urgent verbs may make one more.
        self._most = most
        #: True if that additional connection was made.
        self._more = False
        self._makings: set[_Making] = set()
        self._counting = threading.Lock()
        #: Set when a connection is released, or an ended one no longer counts.
        self._back = Bell()
        #: Connections that this client has ended, and whose sessions the server has not ended yet.
        self._ending = Endings(self._back.set)

    @abstractmethod
    def _lend(self) -> L | None:
        """Return an idle connection that can be used, or None."""

    @abstractmethod
    def _there(self) -> int:
        """Return the number of connections, without connections that are being made or ended."""

    @abstractmethod
    def _dial(self, until: float) -> L:
        """Return a new connection, made before the time ``until``; `_there` then counts it."""

    @abstractmethod
    def _give(self, link: L) -> None:
        """Make a connection available to all verbs."""

    @abstractmethod
    def _tidy(self, until: float) -> None:
        """Forget ended connections; called before a verb waits."""

    @abstractmethod
    def _all_in_use(self) -> StoreUnavailable:
        """Return the error for a full pool."""

    def _reach(self, until: float, urgent: bool) -> L:
        """Return a connection for this caller alone."""
        making: _Making | None = None
        try:
            while (link := self._lend()) is None:
                if making is None or making.over:
                    if making is not None and making.failure is not None:
                        raise making.failure
                    making = self._parked(until, urgent)
                    if making is None:
                        link, making = self._new(until, urgent)
                        if link is not None:
                            return link
                self._back.clear()
                self._tidy(until)
                if (link := self._lend()) is not None:  # it was released in between
                    return link
                if making is None or not making.over:
                    self._back.wait(min(_LOOK_S, until - boottime()))
                if boottime() >= until:
                    if making is None:
                        raise self._all_in_use()
                    raise StoreUnavailable(f"{self.label} took no connection in time")
            return link
        finally:
            if making is not None:
                making.wanted = False
            del making  # its failure would keep itself alive, and the objects of its caller

    def _new(self, until: float, urgent: bool) -> tuple[L | None, _Making | None]:
        """Return a new connection, or the `_Making` of a thread, or neither if the pool is full."""
        mine = _Making()  # made first, so that no interrupt leaves its place taken
        thread = DaemonThread(target=self._in_thread, args=(mine,), name="holdfast-connect")
        begun = False
        try:
            with self._counting:
                there = self._there() + len(self._makings)
                if not urgent:
                    there += len(self._ending)
                if there >= self._most + urgent:
                    return None, None
                self._more = self._more or there >= self._most
                self._makings.add(mine)
            if self._short(until, urgent):
                with contextlib.suppress(RuntimeError):  # the system provides no thread
                    thread.start()
                    begun = True
                    return None, mine
            return self._dial(until), None
        finally:
            if not begun and thread.give_up():  # otherwise the thread frees the place
                self._makings.discard(mine)

    def _in_thread(self, making: _Making) -> None:
        try:
            self._give(self._dial(boottime() + self._usual_s))
        except Exception as wrong:
            making.failure = wrong
        finally:
            making.over = True
            self._makings.discard(making)
            self._back.set()
            del making  # as above

    def _short(self, until: float, urgent: bool) -> bool:
        """Return True if this verb has too little time to connect. An urgent verb always connects
        itself, because other verbs may not use its connection."""
        return not urgent and until - boottime() < self._usual_s * _NEARLY

    def _parked(self, until: float, urgent: bool) -> _Making | None:
        """Return a connection that is being made and for which no verb waits; None if this verb
        can't use such a connection."""
        if self._makings and self._short(until, urgent):
            young = boottime() - _YOUNG_S
            for making in list(self._makings):
                if not making.wanted and making.begun > young:
                    making.wanted = True
                    return making
        return None
