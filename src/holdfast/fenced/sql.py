"""A row in your database that refuses a transaction with an older fence."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Protocol

from ..core import checks
from ..core.paramstyle import STYLES, render
from ..errors import ConfigError, FenceRejected, NotSupported
from .fence import Fence, number, refusal

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,47}")
_NAME_CHARS = 255
_SAVEPOINT = "holdfast_fence"
_MYSQL = frozenset({"MySQLdb", "cymysql", "mariadb", "mysql", "pymysql"})

_CREATE = """CREATE TABLE IF NOT EXISTS {table} (
  name VARCHAR(255) NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL,
  writes BIGINT NOT NULL
)"""
# `writes` makes every accepted advance a change. MySQL counts changed rows, not matched rows, so
# without this column a second write with the same fence would look like a refusal.
_UPDATE = """UPDATE {table} SET fence = <fence>, writes = writes + 1
WHERE name = <name> AND fence <= <fence>"""
# On MySQL an UPDATE without a matching row locks the gap at its place. Then two first uses, even of
# different names, would wait for each other's INSERT. So on MySQL the row is made before the
# UPDATE.
_ENSURE = """INSERT INTO {table} (name, fence, writes) VALUES (<name>, 0, 0)
ON DUPLICATE KEY UPDATE writes = writes"""
_INSERT = "INSERT INTO {table} (name, fence, writes) VALUES (<name>, <fence>, 1)"
_SELECT = "SELECT fence FROM {table} WHERE name = <name>"


class Cursor(Protocol):
    """The part of a DB-API 2 cursor that is used here."""

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement changed; -1 if the driver doesn't count."""
        ...

    def execute(self, sql: str, parameters: Any = ..., /) -> object:
        """Run one statement."""
        ...

    def fetchone(self) -> Any:
        """Return one row, or None."""
        ...


class Connection(Protocol):
    """The part of a DB-API 2 connection that is used here."""

    def cursor(self) -> Any:
        """Return a new cursor."""
        ...


class SqlFence:
    """A table of fences in your database: one row per name, the greatest fence accepted.

    >>> import sqlite3
    >>> orders = sqlite3.connect(":memory:")
    >>> fences = SqlFence()
    >>> fences.create(orders)
    >>> fences.advance(orders, "invoice:42", 7)     # better: advance(orders, hold.name, hold)
    7
    >>> orders.commit()                            # with the changes that the lock protects
    >>> fences.advance(orders, "invoice:42", 6)
    Traceback (most recent call last):
    holdfast.errors.FenceRejected: ... refused fence 6: it has accepted fence 7. ...

    Guarantee: call ``advance`` first in the transaction that writes the protected data. The row
    stays locked until that transaction ends. So the check and the writes are one step: either both
    are committed, or a rollback undoes both, the advance included. A transaction with a smaller
    fence than a committed one is refused; an equal fence is accepted. ``advance`` doesn't commit,
    roll back or change the connection's settings.

    Works with any DB-API 2 driver for SQLite, PostgreSQL, MySQL and MariaDB. For other databases
    create the table yourself (``create_sql``); the other statements are standard SQL with
    ``SAVEPOINT``. The connection must not be in autocommit mode, or the check protects nothing. A
    call that is certainly outside a transaction is refused. With autocommit and your own ``BEGIN``,
    a call is refused as well if neither the driver nor the server shows the transaction. This is so
    for mysqlclient on MySQL, not on MariaDB: turn autocommit off on the connection instead. For an
    asyncio driver keep the fence in the row that you write: :func:`check_rowcount`.

    ``table`` is an identifier of up to 48 letters, digits and ``_``. ``paramstyle`` is the word of
    the driver, or the driver's module; with None the connection shows it. For a pool that hides the
    driver give the module, because the first use of a name is different on MySQL. Names are stored
    percent-encoded except ``a-z 0-9 . _ - ~ : / @``, so that a case-insensitive or padding column
    never confuses two names. A name of 256 or more encoded characters is stored as a prefix and a
    SHA-256.

    Errors: ``FenceRejected``, after which you roll back; ``LockLost`` or ``NotHeld`` from the hold;
    ``ConfigError`` for an invalid table, paramstyle, name or fence; the driver's own errors
    (deadlock, serialization failure: roll back and repeat).
    """

    __slots__ = ("_module", "_style", "_table")

    def __init__(
        self, table: str = "holdfast_fence", *, paramstyle: str | ModuleType | None = None
    ) -> None:
        if type(table) is not str or not _IDENTIFIER.fullmatch(table):
            raise ConfigError(
                f"{table!r:.80} can't be a table: write a letter or _, then letters, digits and _, "
                "48 characters in all"
            )
        style = getattr(paramstyle, "paramstyle", paramstyle)
        if style is not None and style not in STYLES:
            raise ConfigError(f"no paramstyle {style!r:.80}; known: {', '.join(STYLES)}")
        self._table = table
        self._style: str | None = style
        self._module = paramstyle.__name__ if isinstance(paramstyle, ModuleType) else ""

    @property
    def create_sql(self) -> str:
        """The statement that creates the table, for your own migrations."""
        return _CREATE.format(table=self._table)

    def create(self, connection: Connection | Cursor) -> None:
        """Create the table if it is missing, without a commit (MySQL commits by itself)."""
        with _cursor(connection) as cursor:
            cursor.execute(self.create_sql)

    def advance(self, connection: Connection | Cursor, name: str, fence: Fence) -> int:
        """Accept and note the fence in your transaction; ``FenceRejected`` if it is too old.

        Give a connection, or a cursor that has no unread rows. The call waits for another
        transaction that has advanced the same name, up to your database's time-out for row locks.
        A hold is checked before and after this wait. Returns the fence.
        """
        mine = number(fence)
        outside = ConfigError(
            f"{name!r:.80} is advanced outside a transaction, where it protects nothing; "
            "begin one, or open the connection without autocommit"
        )
        begun, automatic = _in_transaction(connection), _automatic(connection)
        if begun is False and automatic:
            raise outside
        with _cursor(connection) as cursor:
            ask = self._ask(connection, cursor, name, mine)
            if begun is None and automatic and not ask.begun():
                raise ConfigError(
                    f"{name!r:.80} is advanced with autocommit, and it is unknown whether a "
                    "transaction was begun: neither the driver nor the server shows it. Turn "
                    "autocommit off for this transaction"
                )
            _advance(ask, f"{name!r:.80}", mine)
            if _in_transaction(connection) is False:
                raise outside
        return number(fence)

    def fence(self, connection: Connection | Cursor, name: str) -> int:
        """Return the greatest fence accepted for a name, as your transaction sees it; 0 if none."""
        with _cursor(connection) as cursor:
            return self._ask(connection, cursor, name, 0).seen() or 0

    def __repr__(self) -> str:
        return f"SqlFence({self._table!r}, paramstyle={self._style!r})"

    def _ask(self, given: object, cursor: Any, name: str, fence: int) -> _Statements:
        module, style = self._module, self._style
        if not module:
            module, found = _driver(given)
            style = style or found
        if not style:
            raise ConfigError(
                f"the driver of {type(given).__module__}.{type(given).__name__} doesn't show its "
                f"paramstyle; give SqlFence(paramstyle=...): its module, or {', '.join(STYLES)}"
            )
        mysql = module.partition(".")[0] in _MYSQL
        return _Statements(cursor, self._table, style, mysql, _stored(name), fence)


def check_rowcount(cursor: Cursor | int, name: str, fence: Fence) -> None:
    """Raise ``FenceRejected`` if an ``UPDATE`` that compares a fence changed no row.

    Use it if you keep the fence in the row that you write, which costs no extra statement::

        cursor.execute(
            "UPDATE orders SET state = ?, fence = ? WHERE id = ? AND fence <= ?",
            ("refunded", hold.fence, 42, hold.fence),
        )
        check_rowcount(cursor, "order 42", hold)

    Guarantee: when this returns, the row had no greater fence, and has this fence in your
    transaction; a given hold is still held. The column must be ``BIGINT NOT NULL DEFAULT 0``, and
    the statement must set it and compare it. ``name`` is for the message. Instead of a cursor you
    may give the number of rows (asyncio drivers return it in other ways).

    Errors: ``FenceRejected``; ``NotSupported`` if the driver doesn't count rows. On MySQL connect
    with ``CLIENT.FOUND_ROWS``: without it an ``UPDATE`` that changes no value counts 0 rows.
    """
    mine = number(fence)
    rows = _rows(cursor)
    if rows == 0:
        raise FenceRejected(
            f"{name!r:.80} refused fence {mine}: no row was changed. It has accepted a greater "
            "fence (a later holder has written here, and your hold was lost), or it doesn't exist. "
            "Roll back and stop the work that the lock protects",
            fence=mine,
        )


class _Statements:
    """The statements about one name, run by one cursor."""

    def __init__(
        self, cursor: Cursor, table: str, style: str, mysql: bool, name: str, fence: int
    ) -> None:
        self._cursor = cursor
        self.table = table
        self._style = style
        self.mysql = mysql
        self._values = {"name": name, "fence": fence}

    def begun(self) -> bool:
        """Return True if a transaction has begun, for drivers that don't show it. Only a server of
        a MySQL driver is asked: on PostgreSQL, an unknown query would end the transaction."""
        if not self.mysql:
            return False
        try:
            self._cursor.execute("SELECT @@in_transaction")
            row = self._cursor.fetchone()
        except Exception:  # MySQL has no such variable; the transaction is unchanged
            return False
        return row is not None and bool(row[0])

    def accept(self) -> bool:
        """Advance the row; return False if the row is missing or has a greater fence. A row that
        exists stays locked in both cases."""
        if self.mysql:
            self._run(_ENSURE)
        return self._run(_UPDATE) > 0

    def seen(self) -> int | None:
        """Return the fence in the row of the name; None if no such row exists."""
        self._run(_SELECT)
        row = self._cursor.fetchone()
        return None if row is None else int(row[0])

    def insert(self) -> Exception | None:
        """Create the row; return the error if another transaction has created it. The INSERT uses a
        savepoint, because PostgreSQL refuses all statements after a failed one."""
        self._cursor.execute(f"SAVEPOINT {_SAVEPOINT}")
        conflict = None
        try:
            self._run(_INSERT)
        except Exception as wrong:  # not every driver raises an IntegrityError
            conflict = wrong
            try:
                self._cursor.execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
            except Exception:
                raise wrong from None  # the first error ended the transaction, as a deadlock does
        self._cursor.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")
        return conflict

    def _run(self, template: str) -> int:
        sql, values = render(template.format(table=self.table), self._style, self._values)
        self._cursor.execute(sql, values)
        return self._cursor.rowcount


def _advance(ask: _Statements, what: str, mine: int) -> None:
    """Return if the fence was accepted; otherwise raise an error. A second round follows if another
    transaction has inserted the row first."""
    what = f"the table {ask.table!r}, for {what},"
    conflict: Exception | None = None
    for _ in range(2):
        if ask.accept():
            return
        seen = ask.seen()
        if seen is not None and seen > mine:
            raise refusal(what, mine, seen)
        if seen is None and not ask.mysql:
            conflict = ask.insert()
            if conflict is None:
                return
    # The row exists, but not in our snapshot (REPEATABLE READ). MySQL's UPDATE saw it anyway and
    # changed nothing, so its fence is greater; PostgreSQL's UPDATE didn't see it.
    if conflict is not None:
        raise conflict
    raise refusal(what, mine, None)


@contextmanager
def _cursor(given: Any) -> Generator[Any]:
    """Yield the given cursor, or a temporary one of the given connection."""
    if not callable(getattr(given, "cursor", None)):
        if not callable(getattr(given, "execute", None)):
            raise ConfigError(f"a connection or cursor is needed, not {type(given).__name__}")
        yield given
        return
    cursor = given.cursor()
    try:
        yield cursor
    finally:
        cursor.close()


def _driver(given: object) -> tuple[str, str | None]:
    """Return the driver's module, found by the class of a connection or cursor, and its
    paramstyle."""
    for kind in type(given).__mro__:
        room = kind.__module__
        while room:
            style = getattr(sys.modules.get(room), "paramstyle", None)
            if style in STYLES:
                return room, style
            room = room.rpartition(".")[0]
    return "", None


#: The code of libpq for a session without a transaction; the flag of MySQL for a transaction.
_IDLE, _IN_TRANSACTION = 0, 1


def _in_transaction(given: Any) -> bool | None:
    """Return True if a transaction is open; None if the driver doesn't show it."""
    sqlite3 = sys.modules.get("sqlite3")  # only sqlite3: pg8000's cursors warn on `connection`
    if sqlite3 and isinstance(given, sqlite3.Cursor):
        given = given.connection
    told = getattr(given, "in_transaction", None)
    if told is not None:
        return bool(told)
    connection = getattr(given, "connection", given)
    status = getattr(getattr(connection, "info", None), "transaction_status", None)
    if isinstance(status, int):  # psycopg, psycopg2
        return status != _IDLE
    flags = getattr(connection, "server_status", None)
    automatic = getattr(connection, "get_autocommit", None)
    if isinstance(flags, int) and callable(automatic):  # PyMySQL
        return bool(flags & _IN_TRANSACTION) or not automatic()
    return None


def _automatic(given: Any) -> bool:
    """Return True if the next statement certainly begins no transaction (autocommit)."""
    connection = getattr(given, "connection", given)
    asked = getattr(connection, "get_autocommit", None)  # PyMySQL: its `autocommit` is a setter
    if callable(asked):
        return bool(asked())
    automatic = getattr(connection, "autocommit", None)
    sqlite3 = sys.modules.get("sqlite3")
    if sqlite3 and isinstance(connection, sqlite3.Connection) and not isinstance(automatic, bool):
        return connection.isolation_level is None  # as before Python 3.12
    return automatic is True


def _rows(cursor: Cursor | int) -> int:
    rows = cursor if isinstance(cursor, int) else cursor.rowcount
    if rows < 0:
        raise NotSupported("this driver doesn't count rows, so it can't show a refused UPDATE")
    return rows


def _stored(name: str) -> str:
    """Return the name as stored: no collation confuses two such names, and each fits the column."""
    plain = checks.name(name).encode()
    safe = re.sub(rb"[^a-z0-9._~:/@-]", lambda byte: b"%%%02x" % byte[0][0], plain).decode()
    if len(safe) <= _NAME_CHARS:
        return safe
    digest = hashlib.sha256(plain).hexdigest()
    return f"{safe[: _NAME_CHARS - 1 - len(digest)]}#{digest}"  # no other name has a # in it
