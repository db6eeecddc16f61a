"""One connection of asyncmy, and how it is made."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import socket
from collections.abc import Callable
from typing import Any

import asyncmy
from asyncmy import errors as theirs
from asyncmy.cursors import Cursor

from ....errors import StoreUnavailable
from ....runtime.aio import sever
from ....runtime.blocking import boottime
from ....runtime.ending.blocking import Ending, twin_of
from ....runtime.timers.aio import later, time_limit
from ..complaints import GARBLED, ServerSaid, complaint, garbled, heard, no_entry, not_made
from ..config import Settings
from ..exchange import Silent
from ..replies import Rows
from ..schema import session

#: Time limit for ending a connection, seconds.
CLOSE_S = 1.0


class LoopLink:
    """See :class:`holdfast.stores.mysql.exchange.Link`."""

    def __init__(self, connection: Any, label: str) -> None:
        self._connection = connection
        self._label = label
        self.used = boottime()
        #: True if the connection is no longer usable.
        self.ended = False
        #: True while the connection is used by a request other than a renewal or a release.
        self.plain = False
        #: The number of the session at the server.
        self.thread = int(connection.thread_id())
        #: A second descriptor of the socket, if the server may still carry out a request.
        self.left: socket.socket | None = None

    async def ask(self, sql: str, within: float) -> Rows:
        """Return the rows of the first result; see the protocol.

        A timer that closes the connection enforces the time limit. The time-outs of asyncio would
        need a task, but a withdrawal runs by callbacks alone, outside of any task.
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
        """True if the server has ended the connection."""
        return bool(self._connection._stream_broken)

    def abandon(self) -> None:
        """End the connection here, even in the middle of a request; its socket stays open."""
        if self.left is None:
            self.left = _twin(self._connection)
        self.close()

    def close(self) -> None:
        """End the connection, even in the middle of a request."""
        self.ended = True
        self._connection.close()

    def ending(self) -> Ending:
        """End the connection; return the `Ending` that shows when its session has ended."""
        self.abandon()
        left, self.left = self.left, None
        return Ending(left)

    def sever(self) -> None:
        """End the connection without its loop, which no longer runs."""
        self.ended = True
        sever(self._connection._transport)

    async def bid_farewell(self) -> None:
        """End the connection with a QUIT message to the server."""
        with contextlib.suppress(theirs.MySQLError, OSError, TimeoutError):
            async with time_limit(CLOSE_S):
                await self._connection.ensure_closed()
        self._connection.close()


async def connect(settings: Settings, ended: Callable[[Ending], None]) -> LoopLink:
    """Return a connection that is ready for use.

    ``ended`` is called for a connection that was given up while it was being made.
    """
    within = settings.connect_s
    connection: Any = None
    left: list[Ending] = []
    # Copy the descriptor just before the time-out expires, when the driver closes its own
    # descriptor.
    timer = later(
        asyncio.get_running_loop(), within, lambda: left.append(Ending(_twin(connection)))
    )
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
        if connection is not None and connection.loop.is_closed():
            # Python destroys this task, and the driver has perhaps raised another error instead.
            sever(connection._transport)
            raise GeneratorExit from None
        if connection is not None:
            connection.close()
        for ending in left:
            ended(ending)
        if isinstance(wrong, ServerSaid):
            raise complaint(wrong, settings.label) from None
        if isinstance(wrong, theirs.MySQLError | OSError | RuntimeError):
            raise no_entry(wrong, settings) from None
        if settings.engine is not None and isinstance(wrong, Exception):
            raise not_made(settings.label, wrong) from wrong
        raise
    finally:
        timer.cancel()


def _twin(connection: Any) -> socket.socket | None:
    """Return the socket of a connection under another descriptor, if it is open."""
    transport = None if connection is None else connection._transport
    sock = None if transport is None else transport.get_extra_info("socket")
    return None if sock is None else twin_of(sock.fileno())


def _new(settings: Settings) -> Any:
    """Return a new connection that isn't connected yet."""
    return asyncmy.Connection(  # type: ignore[no-untyped-call]
        host=settings.host,
        port=settings.port,
        unix_socket=settings.socket or None,
        user=settings.user or None,
        # The driver would encode a str in Latin-1.
        password=settings.password.encode(),  # pyright: ignore[reportArgumentType]
        database=settings.database,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=max(1, round(settings.connect_s)),
        ssl=settings.context(),
        program_name="holdfast",
    )


async def _opened(engine: Any) -> Any:
    """Return a connection that an engine of SQLAlchemy makes in its usual way.

    The connection comes from a separate pool, so that it takes no place in the engine's pool.
    """
    spawn = importlib.import_module("sqlalchemy.util").greenlet_spawn
    pooled = await spawn(engine.pool.recreate().connect)
    connection = pooled.driver_connection
    pooled.detach()
    return connection
