"""The port for one event loop: a few connections of asyncmy, each for one request at a time.

Requests beyond that queue up. asyncmy's own pool isn't used. A request that is cancelled closes
its connection, so nobody reads its answer; that it may still be carried out is what the tombstone
of its undo is for.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import socket
from collections import deque
from typing import Any

import asyncmy
from asyncmy import errors as theirs
from asyncmy.cursors import Cursor

from ...errors import HoldfastError, StoreUnavailable
from ...runtime.aio import another_loop, require_readers, sever
from ...runtime.blocking import boottime
from ...runtime.timers.aio import ended, later, sleep, time_limit
from .blocking.lost import PATIENT_S, Graveyard, Lost, twin_of
from .complaints import GARBLED, ServerSaid, complaint, garbled, heard, no_entry, not_made
from .config import Settings
from .exchange import Exchange, Silent
from .replies import Rows
from .schema import session

#: A connection that was idle for so long is looked at before it is used.
FRESH_S = 1.0
#: Ending a connection may take so many seconds.
CLOSE_S = 1.0
#: What a forked child has of its parent: kept, because its end would be heard by the server.
_of_the_parent: list[object] = []


class LoopLink:
    """See :class:`holdfast.stores.mysql.exchange.Link`."""

    def __init__(self, connection: Any, label: str) -> None:
        self._connection = connection
        self._label = label
        self.used = boottime()
        #: Nobody can use it any more.
        self.ended = False
        #: Is it lent to somebody who wants something, not to one who renews or releases?
        self.plain = False
        #: The number of its session at the server.
        self.thread = int(connection.thread_id())
        #: Its socket under another descriptor, where the server may still be at what was asked.
        self.left: socket.socket | None = None

    async def ask(self, sql: str, within: float) -> Rows:
        """The rows of the first result; see the protocol.

        The time is kept by a timer that closes the connection: an undo is carried on by callbacks
        alone, outside of any task, where asyncio's own time-outs can't be used.
        """
        if within <= 0:
            raise StoreUnavailable(f"no time was left to ask {self._label}")
        end = boottime() + within
        overdue = later(asyncio.get_running_loop(), within, self.abandon)
        try:
            cursor = self._connection.cursor(Cursor)
            await cursor.execute(sql)
            found: Rows = await cursor.fetchall()
            while await cursor.nextset():
                pass
        except (theirs.MySQLError, OSError, RuntimeError) as wrong:
            said = heard(wrong)
            if said is not None:
                raise said from wrong
            if boottime() >= end:
                raise Silent(self._label, within) from None
            raise StoreUnavailable(f"the connection to {self._label} broke: {wrong}") from None
        except GARBLED as wrong:
            raise garbled(wrong, self._label) from wrong
        finally:
            overdue.cancel()
        self.used = boottime()
        return found

    def stale(self) -> bool:
        """Has the server ended it?"""
        return bool(self._connection._stream_broken)

    def abandon(self) -> None:
        """End it for us, in the middle of whatever it does; its socket stays open."""
        transport = self._connection._transport
        sock = None if transport is None else transport.get_extra_info("socket")
        if sock is not None and self.left is None:
            self.left = twin_of(sock.fileno())
        self.close()

    def close(self) -> None:
        """End it, in the middle of whatever it does."""
        self.ended = True
        self._connection.close()

    def sever(self) -> None:
        """End it though its loop runs no more. The driver hides what carries it."""
        self.ended = True
        for one in gc.get_referents(self._connection):
            if isinstance(one, asyncio.BaseTransport):
                sever(one)

    async def bid_farewell(self) -> None:
        """End it politely."""
        with contextlib.suppress(theirs.MySQLError, OSError, TimeoutError):
            async with time_limit(CLOSE_S):
                await self._connection.ensure_closed()
        self._connection.close()


class LoopPort(Exchange[LoopLink]):
    """See :class:`holdfast.stores.mysql.store.Port`."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._start()

    def _start(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: deque[LoopLink] = deque()
        #: How many connections there are, those that are being made included.
        self._open = 0
        #: How many are lent to those who want something, or were given up and not ended yet.
        self._plain = 0
        self._lost = Graveyard()
        self._ending: set[asyncio.Task[None]] = set()
        #: Those who wait for a connection, those first who renew or release; one more than the pool
        #: is for these.
        self._queue: deque[asyncio.Future[None]] = deque()
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._dialling: set[asyncio.Task[LoopLink]] = set()
        self._closed = False

    def now(self) -> float:
        """Seconds that never jump."""
        return boottime()

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await sleep(seconds)

    # -- connections -----------------------------------------------------------------------

    async def _take(self, within: float, urgent: bool) -> LoopLink:
        loop = self._own()
        now = self.now()
        until = now + within
        while True:
            if self._closed:
                raise StoreUnavailable(f"this client of {self.label} is closed")
            allowed = urgent or self._plain < self._settings.pool
            while allowed and self._idle:
                link = self._idle.pop()
                if now - link.used < FRESH_S or not link.stale():
                    if not urgent:
                        link.plain = True
                        self._plain += 1
                    return link
                self._drop(link)
            if allowed and self._open <= self._settings.pool:
                self._dial(loop)
            turn: asyncio.Future[None] = loop.create_future()
            (self._urgent if urgent else self._queue).append(turn)
            try:
                await _until(loop, turn, until - self.now())
            except BaseException:
                if turn.done() and turn.exception() is None:
                    self._next()  # it was given to us, and we don't take it
                turn.cancel()
                raise
            if not turn.done():
                turn.cancel()
                text = f"{self.label} gave no connection within {max(0.0, within):.3g} s"
                if len(self._lost):
                    text += f"; {len(self._lost)} of {self._open} are busy with what was given up"
                raise StoreUnavailable(text)
            turn.result()
            now = self.now()

    def _give(self, link: LoopLink) -> None:
        if self._closed or link.ended:  # its time was over when its answer had just come
            self._drop(link)
        else:
            if link.plain:
                link.plain = False
                self._plain -= 1
            self._idle.append(link)
            if self._urgent or self._queue:
                self._next()

    def _drop(self, link: LoopLink) -> None:
        link.close()
        if link.left is not None:
            link.left.close()
        self._plain -= link.plain
        link.plain = False
        self._open -= 1
        self._next()

    def _abandon(self, link: LoopLink) -> None:
        link.abandon()
        if link.left is None or self._closed:
            self._drop(link)
            return
        # It counts as before until something arrives for whoever has asked.
        loop = asyncio.get_running_loop()
        fd = link.left.fileno()
        patience = later(loop, PATIENT_S, self._insist, loop)

        def over() -> None:
            loop.remove_reader(fd)
            patience.cancel()
            self._drop(link)

        lost = Lost(link.left, link.thread, over)
        self._lost.append(lost)
        loop.add_reader(fd, self._lost.sweep)

    def _insist(self, loop: asyncio.AbstractEventLoop) -> None:
        """What doesn't end by itself is ended by a request of its own."""
        if not self._ending and not self._closed:
            task = loop.create_task(self._end_the_stubborn())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _end_the_stubborn(self) -> None:
        while next(self._lost.stubborn(), None) is not None and not self._closed:
            with contextlib.suppress(HoldfastError, OSError, TimeoutError):
                link = await _connect(self._settings)
                try:
                    look = self._lost.look(self._settings.prefix)
                    for (number,) in await link.ask(look, CLOSE_S):
                        with contextlib.suppress(ServerSaid):  # it has just ended
                            await link.ask(f"KILL {number}", CLOSE_S)
                finally:
                    link.close()
                self._lost.forget()
            await sleep(CLOSE_S)

    def _next(self, failure: BaseException | None = None) -> None:
        """There is a connection, or room for one, for whoever has waited longest; or there is none,
        and this is why."""
        while self._urgent or self._queue:
            turn = (self._urgent or self._queue).popleft()
            if not turn.done():
                if failure is None:
                    turn.set_result(None)
                else:
                    turn.set_exception(failure)
                    turn.exception()  # seen, even if nobody waits any more
                return

    def _dial(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make one more connection, for whoever has waited longest then.

        In a task of its own, that nobody's cancellation ends: the driver would lose a socket.
        """
        self._open += 1
        task = loop.create_task(_connect(self._settings))
        self._dialling.add(task)
        task.add_done_callback(self._dialled)

    def _dialled(self, task: asyncio.Task[LoopLink]) -> None:
        self._dialling.discard(task)
        failure: BaseException | None = StoreUnavailable(f"{self.label}: the event loop is ending")
        if not task.cancelled():
            failure = task.exception()
        if failure is None:
            self._give(task.result())
        else:
            self._open -= 1
            self._next(failure)

    def _own(self) -> asyncio.AbstractEventLoop:
        """The running loop, if it is ours."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            require_readers(loop, self.label)
            self._loop = loop
        elif self._loop is not loop:
            raise another_loop()
        return loop

    # -- the end ---------------------------------------------------------------------------

    async def close(self) -> None:
        """End the connections; those in use are ended when they are given back."""
        if self._loop is not None:
            self._own()
        self._closed = True
        if self._dialling:
            await ended(self._dialling, CLOSE_S)
        for task in self._ending:
            task.cancel()
        while self._queue or self._urgent:
            self._next()
        self._lost.sweep(all_of_them=True)
        while self._idle:
            await self._idle.pop().bid_farewell()
            self._open -= 1

    def abandon(self) -> None:
        """Our loop runs no more: end the connections without it."""
        self._closed = True
        while self._idle:
            self._idle.pop().sever()

    def forked(self) -> None:
        """In the child nothing of this is ours."""
        _of_the_parent.append((self._idle, self._queue, self._dialling, self._lost, self._ending))
        self._start()


async def _until(loop: asyncio.AbstractEventLoop, done: asyncio.Future[Any], within: float) -> None:
    """Wait until this future is done, or for so long; it isn't cancelled."""
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


async def _connect(settings: Settings) -> LoopLink:
    """A connection, ready for use."""
    within = settings.connect_s
    connection: Any = None
    try:
        async with time_limit(within):
            if settings.engine is None:
                connection = _new(settings)
                await connection.connect()
            else:
                connection = await _opened(settings.engine)
            link = LoopLink(connection, settings.label)
            await link.ask(session(connection.get_server_info()), within)
            return link
    except BaseException as wrong:
        if connection is not None:
            connection.close()
        if isinstance(wrong, ServerSaid):
            raise complaint(wrong, settings.label) from None
        if isinstance(wrong, theirs.MySQLError | OSError | RuntimeError):
            raise no_entry(wrong, settings) from None
        if settings.engine is not None and isinstance(wrong, Exception):
            raise not_made(settings.label, wrong) from wrong
        raise


def _new(settings: Settings) -> Any:
    """A connection of our own, not yet connected."""
    return asyncmy.Connection(  # type: ignore[no-untyped-call]
        host=settings.host,
        port=settings.port,
        unix_socket=settings.socket or None,
        user=settings.user or None,
        # A text would be taken as Latin-1.
        password=settings.password.encode(),  # pyright: ignore[reportArgumentType]
        database=settings.database,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=max(1, round(settings.connect_s)),
        ssl=settings.context(),
        program_name="holdfast",
    )


async def _opened(engine: Any) -> Any:
    """A connection that an engine of SQLAlchemy's makes as it makes its own, for ourselves alone:
    from a pool of ours, so that a small one of theirs can't run dry."""
    spawn = importlib.import_module("sqlalchemy.util").greenlet_spawn
    pooled = await spawn(engine.pool.recreate().connect)
    connection = pooled.driver_connection
    pooled.detach()
    return connection
