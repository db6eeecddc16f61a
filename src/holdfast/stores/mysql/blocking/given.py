"""Connections that an engine of SQLAlchemy makes in its usual way.

The engine uses its arguments, its ``creator`` and the listeners of its events. The connections come
from a separate pool, so that they take no place in the engine's pool, and they return to no pool.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pymysql
from pymysql.connections import Connection

from ....errors import ConfigError, HoldfastError
from ....runtime.starting.blocking import DaemonThread
from ..complaints import not_made
from ..exchange import Silent

#: Exceptions that the caller, `link.dial`, handles itself.
_KNOWN = (HoldfastError, pymysql.MySQLError, OSError, RuntimeError)


def opened(engine: Any, label: str, within: float) -> Connection[Any]:
    """Return a new connection, within ``within`` seconds.

    A separate thread makes the connection, because an engine accepts no time limit: with a silent
    server, the caller would wait until the time-out of the engine, if it has one. A connection that
    comes too late is closed.
    """
    made: Future[Connection[Any]] = Future()
    try:
        DaemonThread(target=_make, args=(engine, made), name="holdfast-connect").start()
        return made.result(within)
    except BaseException as wrong:
        made.add_done_callback(_unwanted)
        if isinstance(wrong, TimeoutError) and not made.done():
            raise Silent(label, within) from None
        if not isinstance(wrong, Exception) or isinstance(wrong, _KNOWN):
            raise
        raise not_made(label, wrong) from wrong


def _make(engine: Any, made: Future[Connection[Any]]) -> None:
    try:
        pooled = engine.pool.recreate().connect()
        connection = pooled.dbapi_connection
        pooled.detach()
        if not isinstance(connection, Connection):
            kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
            connection.close()
            raise ConfigError(f"the engine makes connections of {kind}, not of PyMySQL")
        made.set_result(connection)
    except BaseException as wrong:
        made.set_exception(wrong)


def _unwanted(made: Future[Connection[Any]]) -> None:
    if made.exception() is None:
        made.result().close()
