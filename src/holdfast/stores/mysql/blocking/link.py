"""One connection of PyMySQL, and how it is made."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any, NoReturn
from weakref import ref

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from ....errors import ConfigError, StoreUnavailable
from ....runtime.blocking import boottime
from ....runtime.ending.blocking import Ending, twin_of
from ....runtime.polling.blocking import READ, poller
from ..complaints import GARBLED, ServerSaid, complaint, garbled, heard, no_entry
from ..config import Settings
from ..exchange import Silent
from ..replies import Rows
from ..schema import session
from .given import opened

_CHARSET = "utf8mb4"


class ThreadLink:
    """See :class:`holdfast.stores.mysql.exchange.Link`."""

    def __init__(self, connection: Connection[Any], label: str) -> None:
        self._connection = connection
        self._label = label
        #: The time of the last use.
        self.used = boottime()
        #: The number of the session at the server.
        self.thread = int(connection.thread_id())  # type: ignore[no-untyped-call]
        #: The socket, if the driver has given up the connection and the server hasn't.
        self._left: socket.socket | None = None
        mine = ref(self)  # weak, so that a lost link is collected and no longer counts

        def leave_open() -> None:
            link = mine()
            if link is not None:
                link._leave_open()

        connection._force_close = leave_open  # type: ignore[attr-defined]

    def _leave_open(self) -> None:
        """Replace the driver's ``_force_close``: the socket stays open until the port closes it."""
        connection: Any = self._connection
        self._left = connection._sock or self._left
        if connection._rfile is not None:
            connection._rfile.close()
        connection._sock = connection._rfile = None

    def lost(self) -> socket.socket | None:
        """Return the socket if the server may still carry out a request; the caller owns it."""
        left, self._left = self._left, None
        if left is None:
            sock: socket.socket | None = self._connection._sock  # type: ignore[attr-defined]
            if sock is None:
                return None
            self._leave_open()
            left, self._left = self._left, None
        return left

    async def ask(self, sql: str, within: float) -> Rows:
        """Return the rows of the first result; see the protocol."""
        return self.rows(sql, within)

    def rows(self, sql: str, within: float) -> Rows:
        """As `ask`, for callers that don't await."""
        if within <= 0:
            raise StoreUnavailable(f"no time was left to ask {self._label}")
        connection = self._connection
        # There is no public way to give each request its own time limit.
        connection._read_timeout = connection._write_timeout = within  # type: ignore[attr-defined]
        begun = boottime()
        try:
            with connection.cursor(Cursor) as cursor:
                cursor.execute(sql)
                found: Rows = cursor.fetchall()
                while cursor.nextset():
                    pass
        except (pymysql.MySQLError, OSError) as wrong:
            self._failed(wrong, within, boottime() - begun)
        except GARBLED as wrong:
            raise garbled(wrong, self._label) from wrong
        self.used = boottime()
        return found

    def _failed(self, wrong: Exception, within: float, took: float) -> NoReturn:
        said = heard(wrong)
        if said is not None:
            raise said from wrong
        if took >= within:
            raise Silent(self._label, within) from None
        raise StoreUnavailable(f"the connection to {self._label} broke: {wrong}") from None

    def stale(self) -> bool:
        """True if the server has ended the connection, or sent data without a request."""
        sock: socket.socket | None = self._connection._sock  # type: ignore[attr-defined]
        if sock is None:
            return True
        look = poller()
        look.register(sock, READ)
        return bool(look.poll(0))

    def ending(self) -> Ending:
        """End the connection; return the `Ending` that shows when its session has ended."""
        with contextlib.suppress(pymysql.MySQLError, OSError):
            self._connection.close()
        left, self._left = self._left, None
        if left is None:
            return Ending(None)
        twin = twin_of(left.fileno())  # the bare socket, even if the connection uses TLS
        left.close()
        return Ending(twin)

    def close(self) -> None:
        """End the connection."""
        self.ending().end()


def dial(
    settings: Settings, within: float, ended: Callable[[Ending], None] = Ending.end
) -> ThreadLink:
    """Return a new connection that is ready for use.

    ``ended`` is called for a connection that was given up while it was being made.
    """
    within = min(within, settings.connect_s)
    if within <= 0:
        raise Silent(settings.label, within)
    until = boottime() + within
    try:
        if settings.engine is None:
            connection = _connect(settings, within, ended)
        else:
            connection = opened(settings.engine, settings.label, within)
    except RuntimeError as wrong:
        raise ConfigError(
            f"{settings.label}: {wrong}. With TLS it isn't needed: ssl_mode=required"
        ) from wrong
    except (pymysql.MySQLError, OSError) as wrong:
        raise no_entry(wrong, settings) from None
    link = ThreadLink(connection, settings.label)
    try:
        version = str(connection.get_server_info())  # type: ignore[no-untyped-call]
        link.rows(session(version), until - boottime())
    except BaseException as wrong:
        ended(link.ending())
        if isinstance(wrong, ServerSaid):
            raise complaint(wrong, settings.label) from wrong
        raise
    return link


def _connect(settings: Settings, within: float, ended: Callable[[Ending], None]) -> Connection[Any]:
    connection = pymysql.connect(
        host=settings.host,
        port=settings.port,
        unix_socket=settings.socket or None,
        user=settings.user or None,
        password=settings.password.encode(),  # the driver would encode a str in Latin-1
        database=settings.database,
        charset=_CHARSET,
        autocommit=True,
        connect_timeout=max(1, int(within)),
        read_timeout=within,
        write_timeout=within,
        ssl=settings.context(),
        ssl_disabled=settings.tls == "disabled",
        program_name="holdfast",
        defer_connect=True,
    )
    if settings.socket:
        connection.connect()
        return connection
    # Connect here, because PyMySQL accepts only whole seconds as the time limit.
    sock = socket.create_connection((settings.host, settings.port), within)
    twin = twin_of(sock.fileno())  # because the driver closes the socket itself
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.connect(sock)
    except BaseException:
        sock.close()
        ended(Ending(twin))
        raise
    if twin is not None:
        twin.close()
    return connection
