"""Recognises the kind of the caller's connection; returns its executor and side connections."""

from __future__ import annotations

import atexit
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ...errors import ConfigError
from .. import drivers, table
from ..model import Dialect, Teller
from ..spares import Spares
from ..words import OUTSIDE
from .beside import Spare
from .teller import CursorTeller, SqlAlchemyTeller, of_driver

#: Opens a separate connection to the same database.
Opener = Callable[[], Any]

_spares: Spares[Spare] = Spares(Spare.close)
atexit.register(_spares.clear)
_of_engines: WeakKeyDictionary[Any, Spare] = WeakKeyDictionary()
#: The caller's connection -> its side connections. A look-up by `Twin.key` takes longer than a
#: lock, because for that key libpq must return all parameters of the connection.
_of_connections: WeakKeyDictionary[Any, Spare] = WeakKeyDictionary()
#: The settings of Django that distinguish two databases.
_WHERE = ("NAME", "HOST", "PORT", "USER")


class Given(NamedTuple):
    """A connection's dialect, executor and side connections."""

    dialect: Dialect
    #: Executes statements in the caller's transaction.
    teller: Teller
    beside: Spare
    #: True if certainly no transaction is open and the next statement begins none.
    outside: bool

    def inside(self) -> Given:
        """Return itself; raise ``ConfigError`` outside a transaction: no lock would last."""
        if self.outside:
            raise ConfigError(OUTSIDE)
        return self


def given(connection: Any, side_connection: Opener | None) -> Given:
    """Return the dialect, executor and side connections of a connection."""
    packages = drivers.packages(connection)
    if "sqlalchemy" in packages:
        return _of_sqlalchemy(connection, side_connection)
    if "django" in packages:
        return _of_django(connection, side_connection)
    dialect = drivers.dialect(connection)
    if side_connection is not None:
        spare = _of_opener(dialect, side_connection)
    else:
        known = _of_connections.get(connection)
        spare = _of_connection(dialect, connection) if known is None else known
    return Given(dialect, of_driver(connection), spare, drivers.outside(connection))


def _of_connection(dialect: Dialect, connection: Any) -> Spare:
    twin = drivers.twin(connection)
    spare = _spares.of(twin.key, lambda: Spare(dialect, twin.open, of_driver))
    _of_connections[connection] = spare
    return spare


def _of_opener(dialect: Dialect, opener: Opener) -> Spare:
    return _spares.of(opener, lambda: Spare(dialect, lambda: _automatic(opener()), of_driver))


def _of_sqlalchemy(given: Any, side_connection: Opener | None) -> Given:
    if not (hasattr(given, "exec_driver_sql") or callable(getattr(given, "connection", None))):
        raise ConfigError(f"a Connection or Session of SQLAlchemy is needed, not {given!r:.80}")
    connection = given if hasattr(given, "exec_driver_sql") else given.connection()
    dialect = table.dialect(connection.dialect.name)
    outside = drivers.outside(connection.connection.driver_connection)
    if side_connection is not None:
        spare = _of_opener(dialect, side_connection)
    else:
        engine = connection.engine
        known = _of_engines.get(engine)
        spare = _of_engine(dialect, engine) if known is None else known
    return Given(dialect, SqlAlchemyTeller(connection), spare, outside)


def _of_engine(of: Dialect, engine: Any) -> Spare:
    """Return side connections with the settings of the engine's pool, but outside that pool.

    All connections of the engine's pool can be in use by transactions that wait for our lock. The
    side connections are closed when the engine is disposed of."""
    dialect, pool = engine.dialect, engine.pool.recreate()

    def opened() -> Any:
        pooled = pool.connect()
        connection = pooled.dbapi_connection
        pooled.detach()
        dialect.set_isolation_level(connection, "AUTOCOMMIT")
        return connection

    spare = Spare(of, opened, lambda one: CursorTeller(one.cursor, dialect.paramstyle))
    listen = importlib.import_module("sqlalchemy.event").listen
    listen(engine, "engine_disposed", lambda _: spare.close())
    _of_engines[engine] = spare
    return spare


def _of_django(wrapper: Any, side_connection: Opener | None) -> Given:
    outside = not wrapper.in_atomic_block and wrapper.get_autocommit()
    dialect = table.dialect(wrapper.vendor)
    if side_connection is not None:
        spare = _of_opener(dialect, side_connection)
    else:
        options = wrapper.get_connection_params()
        settings = wrapper.settings_dict
        key = ("django", wrapper.alias, *(str(settings.get(word)) for word in _WHERE))
        connect = wrapper.get_new_connection
        spare = _spares.of(
            key, lambda: Spare(dialect, lambda: _automatic(connect(options)), of_driver)
        )
    return Given(dialect, CursorTeller(wrapper.cursor, "format"), spare, outside)


def _automatic(raw: Any) -> Any:
    """Set autocommit on a new connection, and return it."""
    if callable(getattr(raw, "autocommit", None)):
        raw.autocommit(True)
    else:
        raw.autocommit = True
    return raw
