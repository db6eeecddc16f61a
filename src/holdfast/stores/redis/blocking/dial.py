"""Connections made by redis-py, with TLS, passwords, databases and sockets.

A new connection is a socket after its handshake. Our own code (`link.py`) then handles requests and
replies. redis-py would hide messages that the server sends without a request, and would set
time-outs by two system calls for each reply.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import redis
from redis import exceptions as said
from redis.connection import AbstractConnection

from ....core.ports import Unreached
from ....errors import ConfigError, HoldfastError, StoreUnavailable
from ....runtime.blocking import boottime
from ....runtime.identity import hostname
from ..complaints import (
    NO_PASSWORD,
    WRONG_PASSWORD,
    ServerSaid,
    complaint,
    no_redis,
    without_arguments,
)
from ..complaints import said as server_said
from ..config import Settings
from ..library import packed
from ..recovery import Recovery

#: The class of redis-py for each kind of connection.
_CLASSES: dict[str, Callable[[], type[Any]]] = {
    "tcp": lambda: redis.Connection,
    "tls": lambda: redis.SSLConnection,
    "unix": lambda: redis.UnixDomainSocketConnection,
}
#: Maximum number of bytes in the replies of a handshake.
HANDSHAKE_BYTES_MAX = 4 * 1024 * 1024
#: Minimum seconds for each step of connecting; with less time a step could not succeed at all.
_LEAST_S = 0.005


class Timed:
    """A connection of redis-py; each of its time-outs is the time that is left until ``until``."""

    until = 0.0
    #: The run id of the server, if recovery is on and the server reports its run id.
    run_id = b""
    #: The replies to the requests of recovery.
    said: Sequence[Any] = ()

    @property
    def socket_timeout(self) -> float:
        """Seconds for the next read or write."""
        return max(_LEAST_S, self.until - boottime())

    @socket_timeout.setter
    def socket_timeout(self, _: object) -> None:
        """Ignore the value, which redis-py's constructor sets."""

    @property
    def socket_connect_timeout(self) -> float:
        """Seconds for the next address to be tried."""
        return max(_LEAST_S, self.until - boottime())

    @socket_connect_timeout.setter
    def socket_connect_timeout(self, _: object) -> None:
        """Ignore the value, which redis-py's constructor sets."""


class _Bounded:
    """A socket for the handshake: it stops a reply that takes too much time or is too long."""

    def __init__(self, sock: Any, until: float) -> None:
        self._sock, self._until = sock, until
        self._left = HANDSHAKE_BYTES_MAX

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def recv(self, *args: Any) -> Any:
        """As in any socket."""
        return self._counted(self._sock.recv(*args), len)

    def recv_into(self, *args: Any) -> Any:
        """As in any socket."""
        return self._counted(self._sock.recv_into(*args), int)

    def _counted(self, read: Any, size: Callable[[Any], int]) -> Any:
        self._left -= size(read)
        if self._left < 0:
            raise said.InvalidResponse("its first replies are too long")
        if boottime() > self._until:
            raise TimeoutError("its first replies take too long")
        return read


class Dialler:
    """Makes connections to one server."""

    def __init__(self, settings: Settings, recovery: Recovery | None = None) -> None:
        self._settings = settings
        self._recovery = recovery
        #: The protocol of new connections; it changes to 2 if the server doesn't support 3.
        self.protocol = settings.protocol
        arguments = dict(settings.arguments)
        base = settings.connection_class or _CLASSES[settings.kind]()
        if not issubclass(base, AbstractConnection):
            base = _CLASSES[settings.kind]()  # the given class is for asyncio
        #: A function of a given client that replaces redis-py's handshake; None: no such function.
        self._greet = arguments.pop("redis_connect_func", None)
        self._class: Any = type("Timed" + base.__name__, (Timed, base), {})
        self._named = bool(arguments.get("client_name"))
        self._arguments = {**arguments, **silent()}

    def dial(self, until: float) -> Any:
        """A connection that is ready before ``until`` (in ``boottime``); or raises an error."""
        settings = self._settings
        try:
            return self._dial(min(until, boottime() + settings.connect_s))
        except HoldfastError:
            raise
        except Exception as wrong:  # any error of redis-py
            if self.protocol == 3 and knows_no_hello(wrong):
                self.protocol = 2
                return self.dial(until)
            raise error_of(settings, wrong) from None

    def _dial(self, until: float) -> Any:
        connection = self._class(
            **self._arguments, protocol=self.protocol, redis_connect_func=self._handshake
        )
        connection.until = until
        try:
            connection.connect()
            if self._recovery is not None:
                connection.run_id = self._recovery.server(connection.said)
        except BaseException:
            connection.disconnect()
            raise
        return connection

    def _handshake(self, connection: Any) -> None:
        plain = connection._sock
        plain.settimeout(connection.socket_timeout)
        connection._sock = _Bounded(plain, connection.until)
        try:
            self._introduce(connection)
        finally:
            connection._sock = plain

    def _introduce(self, connection: Any) -> None:
        if self._greet is not None:
            self._greet(connection)
        else:
            connection.on_connect()
        hello = self._recovery.hello if self._recovery is not None else ()
        wanted = [packed(*words) for words in hello]
        if not self._named:
            wanted.append(packed(b"CLIENT", b"SETNAME", own_name().encode()))
        if wanted:
            connection.send_packed_command(wanted)
            answers = [_answer(connection) for _ in wanted]
            connection.said = answers[: len(hello)]  # the reply to CLIENT SETNAME doesn't matter


def _answer(connection: Any) -> Any:
    """The next reply as bytes, or the server's error as a value."""
    try:
        return connection.read_response(disable_decoding=True)
    except said.BusyLoadingError:
        raise
    except said.NoPermissionError as wrong:  # redis-py removes its first word
        return ServerSaid("NOPERM", str(wrong))
    except said.ResponseError as wrong:
        return server_said(str(wrong))


def silent() -> dict[str, None]:
    """Arguments that stop redis-py from introducing itself, which only costs round trips."""
    known = signature(AbstractConnection.__init__).parameters
    # Older versions of redis-py have other names for these arguments.
    return dict.fromkeys(["driver_info"] if "driver_info" in known else ["lib_name", "lib_version"])


def own_name() -> str:
    """The name of our connections in CLIENT LIST."""
    return f"holdfast:{hostname()}:{os.getpid()}".replace(" ", "-")


def knows_no_hello(wrong: Exception) -> bool:
    """True if the error is from a server or a proxy that doesn't support RESP3."""
    text = str(wrong).lower()
    told = isinstance(wrong, said.ResponseError) and not isinstance(wrong, said.AuthenticationError)
    return told and ("hello" in text or "noproto" in text or "unknown command" in text)


def error_of(settings: Settings, wrong: Exception) -> HoldfastError:
    """The error for any failure of a new connection."""
    if isinstance(wrong, said.AuthenticationError):
        return _unwelcome(settings, wrong)
    if isinstance(wrong, said.ResponseError):
        return refused(settings.label, wrong)
    return unreachable(settings, wrong)


def _unwelcome(settings: Settings, wrong: Exception) -> HoldfastError:
    text = without_arguments(str(wrong))
    if "without any password configured" in text:
        hint = "it has no password: remove the one in the URL"
    elif not {"username", "password", "credential_provider"} & set(settings.arguments):
        hint = f"{NO_PASSWORD}: {settings.login}"
    else:
        hint = WRONG_PASSWORD
    return ConfigError(f"{settings.label} refuses the login; {hint}. The error: {text}")


def refused(label: str, wrong: Exception) -> HoldfastError:
    """The error for a server that refuses a new connection."""
    answer = server_said(f"ERR {wrong}")  # redis-py removes the first word
    if isinstance(wrong, said.BusyLoadingError | said.MaxConnectionsError):
        return StoreUnavailable(f"{label} can't accept connections now: {answer.text}")
    known = complaint(answer, label)
    if type(known) is not HoldfastError:
        return known
    return ConfigError(f"{label} refused a new connection: {answer.text}")


def unreachable(settings: Settings, wrong: Exception) -> HoldfastError:
    """The error for a server that could not be reached, or a peer that isn't a server."""
    label, text = settings.label, " ".join(without_arguments(str(wrong)).split())
    cause: BaseException | None = wrong
    seen = text
    while cause is not None:
        seen += f" {type(cause).__name__} {cause}"
        cause = cause.__cause__ or cause.__context__
    if settings.kind == "tls" and "CERTIFICATE_VERIFY_FAILED" in seen and "mismatch" in seen:
        return ConfigError(
            f"the certificate of {label} is for another host: connect by a name that it contains, "
            f"or give the server one for this name. The error: {text}"
        )
    if settings.kind == "tls" and "CERTIFICATE_VERIFY_FAILED" in seen:
        return ConfigError(
            f"the certificate of {label} is not trusted; name the authority that signed it with "
            f"ssl_ca_certs=/path/to/ca.pem. The error: {text}"
        )
    if settings.kind == "tls" and ("SSLError" in seen or "SSLEOFError" in seen):
        return ConfigError(f"{label} doesn't use TLS, or has no common version or cipher: {text}")
    usual = said.RedisError | said.RedisClusterException | OSError
    if isinstance(wrong, said.InvalidResponse) or not isinstance(wrong, usual):
        if isinstance(wrong, AttributeError | TypeError):  # redis-py expected another type
            text = f"its greeting can't be read ({text})"
        return ConfigError(no_redis(label, text))
    if isinstance(wrong, said.TimeoutError):
        hint = "; for a server without TLS write redis://" if settings.kind == "tls" else ""
        return Unreached(f"{label} did not answer while a connection was made: {text}{hint}")
    hint = ""
    if settings.kind == "tcp" and re.search("closed by server|while reading", text):
        hint = " (for a server with TLS write rediss://)"
    return Unreached(f"{label} can't be reached: {text}{hint}")
