"""Facts about drivers and their wrappers: the database, and how to open another connection.

This module imports no driver: the driver of the caller's connection is loaded already.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Hashable
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, NamedTuple

from ..core.paramstyle import STYLES
from ..errors import ConfigError
from .model import Dialect
from .table import DIALECTS

#: The package of a driver -> the database that it connects to.
DRIVERS = {
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "pg8000": "postgresql",
    "pymysql": "mysql",
    "MySQLdb": "mysql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "cymysql": "mysql",
    "asyncmy": "mysql",
    "aiomysql": "mysql",
}
#: The methods that return the descriptor of a connection's socket; each driver has one of them.
_SOCKETS = tuple(
    map(attrgetter, ("fileno", "_sock.fileno", "_usock.fileno", "_socket.sock.fileno"))
)
_IDLE = 0  # libpq's PQTRANS_IDLE
_IN_TRANSACTION = 1  # a flag in the status that MySQL sends with every answer


class Twin(NamedTuple):
    """The way to open another connection to the same database as the same user."""

    #: Connections to the same database as the same user have equal keys.
    key: Hashable
    open: Callable[[], Any]


def packages(given: object) -> tuple[str, ...]:
    """Return the packages of an object's class and its bases, the nearest first."""
    kind: Any = type(given)  # as Any, because type checkers don't see that it is hashable
    return _packages(kind)


@lru_cache(256)
def _packages(kind: type) -> tuple[str, ...]:
    return tuple(one.__module__.partition(".")[0] for one in kind.__mro__)


def driver(given: object) -> str:
    """Return the package of a connection's driver."""
    kind: Any = type(given)
    return _driver(kind)


@lru_cache(256)
def _driver(kind: type) -> str:
    for package in _packages(kind):
        if package in DRIVERS:
            return package
    raise ConfigError(
        f"a {kind.__module__}.{kind.__qualname__} isn't known to be a connection to PostgreSQL, "
        "MySQL or MariaDB: give one of psycopg, PyMySQL or asyncmy (or another DB-API 2 driver), "
        "of SQLAlchemy (Connection, Session) or of Django"
    )


def dialect(given: object) -> Dialect:
    """Return the dialect of a connection's database."""
    return DIALECTS[DRIVERS[driver(given)]]


def style(given: object) -> str:
    """Return the paramstyle of a connection's driver."""
    found = getattr(sys.modules.get(driver(given)), "paramstyle", "format")
    return found if found in STYLES else "format"


def outside(raw: Any) -> bool:
    """Return True if certainly no transaction is open and the next statement begins none."""
    auto = getattr(raw, "get_autocommit", None) or getattr(raw, "autocommit", None)
    if callable(auto):
        try:
            auto = auto()
        except TypeError:  # this driver's autocommit() only sets the value
            return False
    if not auto:
        return False
    status = getattr(getattr(raw, "info", None), "transaction_status", None)
    if status is not None:
        return bool(status == _IDLE)
    flags = getattr(raw, "server_status", None)
    if isinstance(flags, int):
        return not flags & _IN_TRANSACTION
    return getattr(raw, "in_transaction", None) is False


def descriptor(raw: Any) -> int | None:
    """Return the descriptor of a connection's socket; None if its driver doesn't show it."""
    raw = getattr(raw, "driver_connection", raw)  # for SQLAlchemy's adapters for asyncio
    for place in _SOCKETS:
        with contextlib.suppress(Exception):
            return int(place(raw)())
    with contextlib.suppress(Exception):  # asyncmy, aiomysql
        return int(raw._writer.get_extra_info("socket").fileno())
    return None


def twin(raw: Any) -> Twin:
    """Return a way to open another connection like this one; ``ConfigError`` if none is known."""
    known: dict[str, Callable[[Any], Twin]] = {
        "psycopg": _of_psycopg,
        "pymysql": _of_pymysql,
        "asyncmy": _of_asyncmy,
    }
    package = driver(raw)
    try:
        return known[package](raw)
    except (KeyError, AttributeError):
        raise ConfigError(
            f"a connection of {package} doesn't show how to open another one to the same database, "
            "which row_lock needs: give side_connection=, a function without arguments that opens "
            "one"
        ) from None


def _of_psycopg(raw: Any) -> Twin:
    options = dict(raw.info.get_parameters())
    if raw.info.password:
        options["password"] = raw.info.password
    options.setdefault("connect_timeout", "10")
    psycopg: Any = sys.modules["psycopg"]
    loop = isinstance(raw, psycopg.AsyncConnection)
    kind = psycopg.AsyncConnection if loop else psycopg.Connection
    key = ("psycopg", loop, *sorted(options.items()))
    threshold = raw.prepare_threshold
    return Twin(key, partial(kind.connect, **options, autocommit=True, prepare_threshold=threshold))


def _of_pymysql(raw: Any) -> Twin:
    options = {
        "host": raw.host,
        "port": raw.port,
        "user": raw.user,
        "password": raw.password,
        "database": raw.db,
        "unix_socket": raw.unix_socket,
        "bind_address": raw.bind_address,
        "charset": raw.charset,
    }
    key = ("pymysql", *options.values())
    options |= {"connect_timeout": raw.connect_timeout or 10, "init_command": raw.init_command}
    options |= {"auth_plugin_map": raw._auth_plugin_map}
    if getattr(raw, "_ssl_required", raw.ssl):
        options["ssl"] = raw.ctx
    elif not raw.ssl:
        options["ssl_disabled"] = True
    return Twin(key, partial(_module("pymysql").connect, **options, autocommit=True))


def _of_asyncmy(raw: Any) -> Twin:
    options = {
        "host": raw._host,
        "port": raw._port,
        "user": raw._user,
        "password": raw._password,
        "database": raw._db,
        "unix_socket": raw._unix_socket,
        "charset": raw._charset,
    }
    key = ("asyncmy", *options.values())
    options |= {"connect_timeout": raw._connect_timeout or 10, "init_command": raw._init_command}
    options |= {"auth_plugin_map": raw._auth_plugin_map, "ssl": raw._ssl_context}
    options |= {"password_creator": raw._password_creator}
    return Twin(key, partial(_module("asyncmy").connect, **options, autocommit=True))


def _module(name: str) -> Any:
    return sys.modules[name]
