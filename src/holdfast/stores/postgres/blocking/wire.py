"""Calls of libpq as steps that suspend where libpq waits, for threads and for an event loop.

A step yields a descriptor and the awaited events; the caller that drives the step resumes the step
after such an event.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from ....errors import ConfigError, StoreUnavailable
from ....runtime.ending.blocking import Ending, twin_of
from ..calls import SESSION_MS, Call
from ..complaints import FORGOTTEN, NO_SCHEMA, ServerSaid, complaint, no_entry
from ..config import Settings
from ..ddl import LOCK, is_there, layout, owners, statements
from ..replies import Rows

READ, WRITE = 1, 2
T = TypeVar("T")
Steps = Generator[tuple[int, int], None, T]
#: The oldest supported version: PostgreSQL 12 and older ones lack gen_random_uuid().
OLDEST = 130_000
_HELLO = b"""
SELECT pg_backend_pid(), current_setting('server_version_num'), pg_is_in_recovery(),
    current_setting('is_superuser'), current_setting('transaction_read_only'),
    CASE WHEN pg_backend_pid() = $1::int
        THEN set_config('default_transaction_isolation', 'read committed', false)
            || set_config('lock_timeout', $2, false) || set_config('statement_timeout', '0', false)
            || set_config('enable_seqscan', 'off', false)
            || set_config('enable_bitmapscan', 'off', false)
            || set_config('enable_sort', 'off', false) || set_config('jit', 'off', false) END
"""
#: The error if the transactions of this user are read only, but the server takes writes.
READ_ONLY_SET = (
    "its transactions are read only, because default_transaction_read_only is on. Some hosts turn "
    "it on when a disk is full: make room. Otherwise turn it off where it was set: for the user, "
    "for the database, for the server, or in options= of the URL"
)
_DONE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


class Peer(NamedTuple):
    """The server at the other end of a connection.

    ``pooled``: there is a pooler in between. Then this client has no session, except with
    pooler=session. ``pid``: the id of the server process that answered.
    """

    version: int
    pooled: bool
    pid: int

    def shares(self, others: Iterable[Peer]) -> bool:
        """True if this process also answers on another connection: the two share a session."""
        return self.pooled and any(one.pid == self.pid for one in others)


def local(conninfo: str) -> bool:
    """True if `begin` doesn't look up a host name for this address. A look-up can be slow."""
    try:
        words = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as wrong:  # libpq is older than an option
        raise ConfigError(f"the libpq that psycopg uses refuses this URL: {wrong}") from None
    host = str(words.get("hostaddr") or words.get("host") or "/")
    if host.startswith(("/", "@")):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def begin(conninfo: str) -> pq.abc.PGconn:
    """Begin to connect. This looks up the host's name, which can be slow."""
    return pq.PGconn.connect_start(conninfo.encode())


def connecting(conn: pq.abc.PGconn, label: str) -> Steps[None]:
    """Finish the connection that `begin` began."""
    while True:
        if conn.status == pq.ConnStatus.BAD:
            raise no_entry(_said(conn), label)
        state = conn.connect_poll()
        if state == pq.PollingStatus.OK:
            conn.nonblocking = 1
            return
        if state == pq.PollingStatus.FAILED:
            raise no_entry(_said(conn), label)
        yield conn.socket, READ if state == pq.PollingStatus.READING else WRITE


def _said(conn: pq.abc.PGconn) -> str:
    return conn.error_message.decode("utf-8", "replace")


def hello(conn: pq.abc.PGconn, settings: Settings) -> Steps[Peer]:
    """Identify the server of a connection, and prepare the session.

    If the user is a superuser, check the owners of the schema first: a function that another user
    made would run with all rights of the superuser.
    """
    ours, label = conn.backend_pid, settings.label
    conn.send_query_params(_HELLO, [b"%d" % ours, b"%d" % SESSION_MS])
    ((pid, version, standby, superuser, read_only, _),) = yield from _rows(conn)
    if int(version or 0) < OLDEST:
        raise ConfigError(f"{label} is older than PostgreSQL {OLDEST // 10_000}")
    if standby == b"t":
        raise StoreUnavailable(f"{label} can't do that now: it is a standby, and takes no writes")
    if read_only == b"on":
        raise ConfigError(f"{label} can't be used: {READ_ONLY_SET}")
    if superuser == b"on":
        try:
            yield from saying(conn, owners(settings.schema, settings.trust))
        except ServerSaid as said:
            raise complaint(said, settings) from said
    return Peer(int(version or 0), int(pid or 0) != ours, int(pid or 0))


def asking(conn: pq.abc.PGconn, call: Call, prepared: set[bytes] | None) -> Steps[Rows]:
    """Return the rows of the reply to a call.

    ``prepared``: the statements that this session has prepared; None: no session is kept.
    """
    verb, values, bound = call
    # Lists, because psycopg before 3.3 accepts no other sequences.
    given, formats = [*values, *(bound or verb.usual)], [*verb.formats]
    if prepared is None:
        conn.send_query_params(verb.sql, given, param_formats=formats, result_format=verb.answer)
    else:
        if verb.name not in prepared:
            conn.send_prepare(verb.name, verb.sql)
            yield from _rows(conn)
            prepared.add(verb.name)
        conn.send_query_prepared(verb.name, given, param_formats=formats, result_format=verb.answer)
    return (yield from _rows(conn))


def exchange(
    conn: pq.abc.PGconn, call: Call, prepared: set[bytes] | None, settings: Settings
) -> Steps[Rows]:
    """Return the rows of the reply like `asking`, but recover from two errors and ask again.

    A missing schema is made. If the server has forgotten statements, they are prepared again.
    """
    try:
        return (yield from asking(conn, call, prepared))
    except ServerSaid as said:
        if said.code in NO_SCHEMA:
            yield from saying(conn, layout(settings.schema))
            if not settings.create:
                raise
            yield from installing(conn, settings)
        elif said.code in FORGOTTEN and prepared:
            prepared.clear()
            yield from saying(conn, "DEALLOCATE ALL")
        else:
            raise
    return (yield from asking(conn, call, prepared))


def saying(conn: pq.abc.PGconn, text: str) -> Steps[Rows]:
    """Run some statements; return the rows of the last one."""
    conn.send_query(text.encode())
    return (yield from _rows(conn))


def listening(conn: pq.abc.PGconn, channel: str) -> Steps[None]:
    """Start to receive the messages to this channel."""
    yield from saying(conn, f'LISTEN "{channel}"')


def installing(conn: pq.abc.PGconn, settings: Settings) -> Steps[None]:
    """Make the schema, unless another client has just made it."""
    lock = f"SELECT pg_advisory_xact_lock({LOCK})"
    try:
        yield from saying(conn, f"BEGIN ISOLATION LEVEL READ COMMITTED; {lock}")
        if (yield from saying(conn, is_there(settings.schema)))[0][0] != b"t":
            yield from saying(conn, statements(settings.schema, settings.trust))
    except ServerSaid:
        yield from saying(conn, "ROLLBACK")
        raise
    yield from saying(conn, "COMMIT")


def ending(conn: pq.abc.PGconn, then: Callable[[], None] | None = None) -> Ending:
    """End a connection; return the `Ending` that shows when its session has ended."""
    twin: socket.socket | None = None
    with contextlib.suppress(psycopg.OperationalError):  # it is closed already
        twin = twin_of(conn.socket)
    conn.finish()
    return Ending(twin, then)


def heard(conn: pq.abc.PGconn) -> list[str]:
    """Return the messages that have arrived; ``OperationalError`` if the connection broke."""
    conn.consume_input()
    found = []
    while (one := conn.notifies()) is not None:
        found.append(one.extra.decode("ascii", "replace"))
    return found


def poked(message: str) -> tuple[str, int] | None:
    """Return the claim id and the fence of a wake-up; None for any other message.

    >>> poked("00ff 17")
    ('00ff', 17)
    """
    claim_id, _, fence = message.partition(" ")
    return (claim_id, int(fence)) if fence.isdigit() else None


def _rows(conn: pq.abc.PGconn) -> Steps[Rows]:
    fd = conn.socket
    while conn.flush():
        yield fd, READ | WRITE
        conn.consume_input()
    rows: Sequence[Sequence[bytes | None]] = ()
    wrong: ServerSaid | None = None
    while True:
        while conn.is_busy():
            yield fd, READ
            conn.consume_input()
        result = conn.get_result()
        if result is None:
            break
        if result.status in _DONE:
            rows = _values(result)
        elif wrong is None:
            wrong = _error(result)
    if wrong is not None:
        raise wrong
    return rows


def _values(result: Any) -> Sequence[Sequence[bytes | None]]:
    columns = range(result.nfields)
    return [[result.get_value(row, one) for one in columns] for row in range(result.ntuples)]


def _error(result: Any) -> ServerSaid:
    code = result.error_field(pq.DiagnosticField.SQLSTATE) or b"08006"
    text = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
    return ServerSaid(code.decode(), text.decode("utf-8", "replace"))
