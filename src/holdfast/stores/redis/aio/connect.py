"""Connects: redis-py handles TLS, login, protocol and database, then a `Wire` takes over."""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.connection import AbstractConnection

from ....errors import StoreUnavailable
from ....runtime.timers.aio import time_limit
from ..blocking.dial import error_of, knows_no_hello, own_name, silent
from ..config import Settings
from ..library import tail
from ..recovery import Recovery
from .wire import Wire

_CLASSES: dict[str, type[AbstractConnection]] = {
    "tcp": Connection,
    "tls": SSLConnection,
    "unix": UnixDomainSocketConnection,
}
#: Maximum seconds for the reply to CLIENT SETNAME.
_NAMED_S = 5.0


async def connect(
    settings: Settings, wire: Wire, limit: float, recovery: Recovery | None = None
) -> Settings:
    """Connect, shake hands, and give the connection to the wire, within ``limit`` seconds.

    With ``recovery``, also read which server this is. Return ``settings`` with the protocol that
    the server supports.
    """
    made_of = settings.connection_class
    if made_of is None or not issubclass(made_of, AbstractConnection):
        made_of = _CLASSES[settings.kind]  # the given class is for threads
    connection = made_of(
        **{**settings.arguments, **silent()},
        protocol=settings.protocol,
        socket_timeout=limit,
        socket_connect_timeout=limit,
    )
    try:
        async with time_limit(limit):
            await connection.connect()
        wire.take_over(connection)
    except TimeoutError as late:
        hint = " (for a server without TLS write redis://)" if settings.kind == "tls" else ""
        text = f"{settings.label} took no connection within {limit:g} s{hint}"
        raise StoreUnavailable(text) from late
    except Exception as wrong:
        if settings.protocol == 3 and knows_no_hello(wrong):
            return await connect(settings._replace(protocol=2), wire, limit, recovery)
        raise error_of(settings, wrong) from None  # the error of redis-py can contain the password
    finally:
        if connection.is_connected:  # not taken over
            connection._close()
    if not settings.arguments.get("client_name"):
        name = wire.command(b"CLIENT", b"SETNAME", own_name().encode(), within=_NAMED_S)
        name.add_done_callback(unheeded)
    if recovery is not None:
        await _identify(wire, recovery, limit)
    return settings


async def _identify(wire: Wire, recovery: Recovery, limit: float) -> None:
    """Read to which server the connection leads, for recovery."""
    answers = [wire.command(*words, within=limit) for words in recovery.hello]
    for answer in answers:  # if the first one fails, no task waits for the others
        answer.add_done_callback(unheeded)
    try:
        wire.server = tail(recovery.server([await one for one in answers]))
    except BaseException:
        wire.drop(f"it is unknown which server {wire.label} is")
        raise


def unheeded(answer: asyncio.Future[Any]) -> None:
    """Ignore the result of this request, so that asyncio logs no warning about a failure."""
    if not answer.cancelled():
        answer.exception()
