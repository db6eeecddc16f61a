"""The port for one event loop: a few connections of asyncmy, each for one request at a time.

Further requests wait for a connection. asyncmy's own pool isn't used. A request that is cancelled
closes its connection, so its reply is never read. The server can still carry the request out: for
that case, the withdrawal of a claim makes a tombstone.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.events import _get_running_loop
from collections import deque
from typing import Any

from ....errors import HoldfastError, StoreUnavailable
from ....runtime.aio import another_loop, require_readers
from ....runtime.blocking import boottime
from ....runtime.ending.aio import Endings
from ....runtime.ending.blocking import Ending
from ....runtime.timers.aio import ended, later, sleep
from ..blocking.lost import PATIENT_S, Graveyard, Lost
from ..complaints import ServerSaid
from ..config import Settings
from ..exchange import Exchange
from .link import CLOSE_S, LoopLink, connect

#: Seconds of idleness after which a connection is checked before it is used.
FRESH_S = 1.0
#: Objects of the parent in a forked child: they stay referenced, because the server would notice
#: their end.
_of_the_parent: list[object] = []


class LoopPort(Exchange[LoopLink]):
    """See :class:`holdfast.stores.mysql.store.Port`."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._start()

    def _start(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: deque[LoopLink] = deque()
        #: All connections, without connections that are being made.
        self._links: set[LoopLink] = set()
        #: Number of connections in use by requests for something new. A connection that such a
        #: request gave up also counts, until the server has ended the request.
        self._plain = 0
        self._lost = Graveyard()
        #: Connections that this client has ended, but whose session the server has not yet ended.
        self._ending = Endings(self._next)
        self._killing: set[asyncio.Task[None]] = set()
        #: Tasks that wait for a connection. Renewals and releases are urgent: they come first, and
        #: one connection beyond the pool is reserved for them.
        self._queue: deque[asyncio.Future[None]] = deque()
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._dialling: set[asyncio.Task[LoopLink]] = set()
        self._closed = False

    def now(self) -> float:
        """Return the seconds of a clock that never jumps."""
        return boottime()

    async def sleep(self, seconds: float) -> None:
        """Sleep for this many seconds."""
        await sleep(seconds)

    # -- connections -----------------------------------------------------------------------

    async def _take(self, within: float, urgent: bool) -> LoopLink:
        loop = self._own()
        now = self.now()
        until = now + within
        most = self._settings.pool
        while True:
            if self._closed:
                raise StoreUnavailable(f"this client of {self.label} is closed")
            while self._idle and (urgent or self._plain < most):
                link = self._idle.pop()
                if now - link.used < FRESH_S or not link.stale():
                    if not urgent:
                        link.plain = True
                        self._plain += 1
                    return link
                self._drop(link)
            ending = 0 if urgent else len(self._ending)
            plain = self._plain + len(self._dialling) + ending
            if (urgent or plain < most) and len(self._links) + len(self._dialling) + ending <= most:
                self._dial(loop)
            turn: asyncio.Future[None] = loop.create_future()
            (self._urgent if urgent else self._queue).append(turn)
            try:
                await _until(loop, turn, until - self.now())
            except BaseException:
                if turn.done() and turn.exception() is None:
                    self._next()  # this task was woken, and doesn't take the connection
                turn.cancel()
                raise
            if not turn.done():
                turn.cancel()
                text = f"{self.label} gave no connection within {max(0.0, within):.3g} s"
                if lost := len(self._lost) + len(self._ending):
                    text += f"; {lost} are busy with requests that were given up"
                raise StoreUnavailable(text)
            turn.result()
            now = self.now()

    def _give(self, link: LoopLink) -> None:
        if self._closed or link.ended:  # the time-out expired just after the reply came
            self._drop(link)
        else:
            if link.plain:
                link.plain = False
                self._plain -= 1
            self._idle.append(link)
            if self._urgent or self._queue:
                self._next()

    def _drop(self, link: LoopLink) -> None:
        if self._runs():
            self._gone(link, link.ending())
        else:
            link.sever()

    def _gone(self, link: LoopLink, ending: Ending) -> None:
        """Count a connection until the server has ended its session."""
        self._ending.add(ending)
        self._plain -= link.plain
        link.plain = False
        self._links.discard(link)
        self._next()

    def _abandon(self, link: LoopLink) -> None:
        if self._closed or not self._runs():
            self._drop(link)
            return
        link.abandon()
        if link.left is None:
            self._drop(link)
            return
        # The connection counts as before until the server replies to the request.
        loop = asyncio.get_running_loop()
        fd = link.left.fileno()
        patience = later(loop, PATIENT_S, self._insist, loop)

        def over(ending: Ending) -> None:
            loop.remove_reader(fd)
            patience.cancel()
            link.left = None
            self._gone(link, ending)

        lost = Lost(link.left, link.thread, over)
        self._lost.append(lost)
        loop.add_reader(fd, self._lost.sweep)

    def _insist(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send a separate request that ends the requests that don't end by themselves."""
        if not self._killing and not self._closed:
            task = loop.create_task(self._end_the_stubborn())
            self._killing.add(task)
            task.add_done_callback(self._killing.discard)

    async def _end_the_stubborn(self) -> None:
        while next(self._lost.stubborn(), None) is not None and not self._closed:
            with contextlib.suppress(HoldfastError, OSError, TimeoutError):
                link = await connect(self._settings, self._ending.add)
                try:
                    look = self._lost.look(self._settings.prefix)
                    for (number,) in await link.ask(look, CLOSE_S):
                        with contextlib.suppress(ServerSaid):  # it has just ended
                            await link.ask(f"KILL {number}", CLOSE_S)
                finally:
                    self._ending.add(link.ending())
                self._lost.forget()
            await sleep(CLOSE_S)

    def _next(self, failure: BaseException | None = None) -> None:
        """Wake the task that has waited longest.

        There is a connection for the task, or room to make one. With ``failure``: no connection was
        made, and the task raises this exception.
        """
        while self._urgent or self._queue:
            turn = (self._urgent or self._queue).popleft()
            if not turn.done():
                if failure is None:
                    turn.set_result(None)
                else:
                    turn.set_exception(failure)
                    turn.exception()  # marks it as seen, even if its task no longer waits
                return

    def _dial(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make one more connection. Once it is ready, the task that has waited longest gets it.

        A separate task makes the connection, because the cancellation of a caller in the middle
        would make the driver lose a socket.
        """
        task = loop.create_task(connect(self._settings, self._ending.add))
        self._dialling.add(task)
        task.add_done_callback(self._dialled)

    def _dialled(self, task: asyncio.Task[LoopLink]) -> None:
        self._dialling.discard(task)
        failure: BaseException | None = StoreUnavailable(f"{self.label}: the event loop is ending")
        if not task.cancelled():
            failure = task.exception()
        if failure is None:
            self._links.add(task.result())
            self._give(task.result())
        else:
            self._next(failure)

    def _own(self) -> asyncio.AbstractEventLoop:
        """Return the running loop, if it is the loop of this client."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            require_readers(loop, self.label)
            self._loop = loop
        elif self._loop is not loop:
            raise another_loop()
        return loop

    def _runs(self) -> bool:
        """True in the loop of this client; False in a task that is destroyed after its loop."""
        loop = _get_running_loop()
        return loop is not None and loop is self._loop

    # -- the end ---------------------------------------------------------------------------

    async def close(self) -> None:
        """End the connections; a connection in use is ended when it is returned."""
        if self._loop is not None:
            self._own()
        self._closed = True
        self._ending.close()
        if self._dialling:
            await ended(self._dialling, CLOSE_S)
        for task in self._killing:
            task.cancel()
        while self._queue or self._urgent:
            self._next()
        self._lost.sweep(all_of_them=True)
        while self._idle:
            link = self._idle.pop()
            await link.bid_farewell()
            self._links.discard(link)

    def abandon(self) -> None:
        """End the connections without the loop, which no longer runs."""
        self._closed = True
        self._ending.abandon()
        self._lost.abandon()
        while self._links:
            self._links.pop().sever()

    def forked(self) -> None:
        """Begin without state in the child of a fork, and keep the parent's objects unused."""
        _of_the_parent.append(
            (self._links, self._queue, self._dialling, self._lost, self._ending, self._killing)
        )
        self._start()


async def _until(loop: asyncio.AbstractEventLoop, done: asyncio.Future[Any], within: float) -> None:
    """Wait at most ``within`` seconds until a future is done; never cancel the future."""
    waiter = loop.create_future()

    def wake(_: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    done.add_done_callback(wake)
    timer = later(loop, max(0.0, within), wake)
    try:
        await waiter
    finally:
        timer.cancel()
        done.remove_done_callback(wake)
