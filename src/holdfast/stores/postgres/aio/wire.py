"""One connection, for one request at a time, driven by the callbacks of the loop.

A request is finished even if its caller no longer waits. Until the request has ended, the
connection takes no other request, so a reply never reaches the wrong request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg import pq

from ....errors import HoldfastError, StoreUnavailable
from ....runtime.blocking import boottime
from ....runtime.ending.blocking import Ending
from ....runtime.timers.aio import later, time_limit
from ..blocking import wire
from ..blocking.cancel import Cancel
from ..blocking.wire import READ, WRITE, Steps
from ..calls import SESSION_S, Call, bounded
from ..complaints import READ_ONLY, ServerSaid, complaint
from ..config import Settings
from ..replies import Rows

T = TypeVar("T")
#: Seconds between two checks whether the server ignores a cancellation.
LOOK_S = 0.25


async def drive(steps: Steps[T]) -> T:
    """Run the steps, and wait for each event that they yield; for a connection without a `Wire`."""
    loop = asyncio.get_running_loop()
    try:
        fd, what = next(steps)
        while True:
            ready: asyncio.Future[None] = loop.create_future()
            try:
                if what & READ:
                    loop.add_reader(fd, _wake, ready)
                if what & WRITE:
                    loop.add_writer(fd, _wake, ready)
                await ready
            finally:
                loop.remove_reader(fd)
                loop.remove_writer(fd)
            fd, what = steps.send(None)
    except StopIteration as end:
        value: T = end.value
        return value


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def dial(
    settings: Settings, within: float, ended: Callable[[Ending], None]
) -> tuple[pq.abc.PGconn, wire.Peer]:
    """Connect to the first host that accepts a connection and takes writes.

    ``ended`` is called for each connection that was begun and given up.
    """
    end = boottime() + within
    failure: Exception | None = None
    for at, place in enumerate(settings.places):
        part = (end - boottime()) / (len(settings.places) - at)
        conn = None
        try:
            async with time_limit(part):
                if wire.local(place):
                    conn = wire.begin(place)
                else:
                    conn = await asyncio.to_thread(wire.begin, place)
                await drive(wire.connecting(conn, settings.label))
                return conn, await drive(wire.hello(conn, settings))
        except BaseException as wrong:
            if conn is not None:
                ended(wire.ending(conn))
            if not isinstance(wrong, Exception):
                raise
            failure = wrong
    if isinstance(failure, ServerSaid):
        raise complaint(failure, settings) from failure
    if isinstance(failure, HoldfastError):
        raise failure
    raise StoreUnavailable(
        f"{settings.label} took no connection in time: {str(failure) or 'no answer'}"
    ) from failure


class Wire:
    """A connection that is ready for a request.

    ``free`` is called when the connection is idle again. ``over`` is called with the `Ending` of
    its session when the connection is no longer usable.
    """

    def __init__(
        self,
        conn: pq.abc.PGconn,
        peer: wire.Peer,
        settings: Settings,
        free: Callable[[Wire], None],
        over: Callable[[Wire, Ending], None],
    ) -> None:
        self._conn = conn
        self._settings = settings
        self._free, self._over = free, over
        self.peer = peer
        self._prepared: set[bytes] | None = None if peer.pooled else set()
        self._loop = asyncio.get_running_loop()
        self._fd = conn.socket
        self._steps: Steps[Any] | None = None
        self._answer: asyncio.Future[Any] | None = None
        self._timer: asyncio.Handle | None = None
        self._writes = False
        self.closed = False
        #: True while a call that is not urgent uses the connection.
        self.plain = False
        self._cancel: Cancel | None = None
        #: True if the server did not react to the cancellation of a request.
        self.ignored = False
        self._loop.add_reader(self._fd, self._ready)

    def ask(self, call: Call, within: float) -> asyncio.Future[Rows]:
        """Send a call now; return a future of its reply, or of an error that `complaint` makes."""
        answer: asyncio.Future[Rows] = self._loop.create_future()
        self._answer = answer
        if within < SESSION_S or self._prepared is None:  # a pooler keeps no lock_timeout for us
            call = bounded(call, within)
        self._steps = wire.exchange(self._conn, call, self._prepared, self._settings)
        self._timer = later(self._loop, within, self._late, within)
        self._step()
        return answer

    def hang_up(self) -> None:
        """End the connection after the end of its loop, without using the loop."""
        self.closed = True
        self._conn.finish()

    def _ready(self) -> None:
        if self._steps is not None:
            self._step()
            return
        try:  # no request is open: either a changed setting is reported, or the connection ends
            self._conn.consume_input()
        except psycopg.OperationalError:
            self.close()

    def _step(self) -> None:
        assert self._steps is not None
        try:
            _, what = self._steps.send(None)
        except StopIteration as end:
            self._finish(end.value, None)
        except ServerSaid as said:
            unfit = self._conn.status == pq.ConnStatus.BAD or said.code == READ_ONLY
            self._finish(None, complaint(said, self._settings), unfit)
        except psycopg.Error as wrong:
            text = f"the connection to {self._settings.label} broke: {wrong}"
            self._finish(None, StoreUnavailable(text), True)
        except BaseException as wrong:
            self._finish(None, wrong, True)
        else:
            self._watch_writing(bool(what & WRITE))

    def _watch_writing(self, wanted: bool) -> None:
        if wanted is not self._writes:
            self._writes = wanted
            if wanted:
                self._loop.add_writer(self._fd, self._ready)
            else:
                self._loop.remove_writer(self._fd)

    def _late(self, within: float) -> None:
        """Fail a request whose time limit has passed, and ask the server to cancel it.

        Until the server answers, the connection is neither free nor ended.
        """
        text = f"{self._settings.label} gave no answer within {within:.3g} s"
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(StoreUnavailable(text))
        try:
            self._cancel = Cancel(self._conn)
        except (psycopg.Error, RuntimeError):
            self._finish(None, StoreUnavailable(text), True)
        else:
            self._timer = later(self._loop, LOOK_S, self._listen, self._cancel)

    def _listen(self, cancel: Cancel) -> None:
        """Check whether the server ignores the cancellation."""
        if cancel.ignored:
            text = f"{self._settings.label} gave no answer"
            self._cancel = None  # the cancellation continues by itself
            self.ignored = True
            self._finish(None, StoreUnavailable(text), True)
        else:
            self._timer = later(self._loop, LOOK_S, self._listen, cancel)

    def _finish(self, value: Any, wrong: BaseException | None, unfit: bool = False) -> None:
        answer, self._answer, self._steps = self._answer, None, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._cancel is not None:
            # The cancellation can still be under way, and must not cancel the next request.
            self._cancel.end()
            self._cancel, unfit = None, True
        if unfit:
            self.close()
        elif not self.closed:
            self._watch_writing(False)
            self._free(self)
        if answer is not None and not answer.done():
            if wrong is None:
                answer.set_result(value)
            else:
                answer.set_exception(wrong)

    def close(self) -> None:
        """End the connection; an open request fails."""
        if self.closed:
            return
        self.closed = True
        with contextlib.suppress(ValueError, OSError):
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
        if self._steps is not None and self._cancel is None:
            # Cancel: a server that waits for a standby doesn't notice the end of a connection.
            with contextlib.suppress(psycopg.Error, RuntimeError):
                Cancel(self._conn)
        self._cancel = None  # the cancellation continues by itself
        ending = wire.ending(self._conn)
        if self._answer is not None:
            text = f"the connection to {self._settings.label} was closed"
            self._finish(None, StoreUnavailable(text), True)
        self._over(self, ending)


class EarWire:
    """A connection that listens to a channel.

    ``heard`` is called with each message, ``over`` when the connection has ended.
    """

    def __init__(
        self,
        conn: pq.abc.PGconn,
        peer: wire.Peer,
        heard: Callable[[str], None],
        over: Callable[[EarWire], None],
    ) -> None:
        self._conn = conn
        self.peer = peer
        self._heard, self._over = heard, over
        self._loop = asyncio.get_running_loop()
        self._fd = conn.socket
        self._closed = False
        self._loop.add_reader(self._fd, self._ready)
        self._loop.call_soon(self._ready)  # messages may have come with the reply to LISTEN

    def hang_up(self) -> None:
        """End the connection after the end of its loop, without using the loop."""
        self._closed = True
        self._conn.finish()

    def _ready(self) -> None:
        if self._closed:
            return
        try:
            messages = wire.heard(self._conn)
        except psycopg.OperationalError:
            self.close()
            return
        for message in messages:
            self._heard(message)

    def close(self) -> None:
        """End the connection."""
        if not self._closed:
            self._closed = True
            with contextlib.suppress(ValueError, OSError):
                self._loop.remove_reader(self._fd)
            self._conn.finish()
            self._over(self)
