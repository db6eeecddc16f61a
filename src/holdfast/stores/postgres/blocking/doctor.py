"""The examination of a server for ``holdfast doctor``: findings, with remedies.

It uses separate connections and changes nothing.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Iterator
from typing import Self

import psycopg

from ....core.finding import FULL, Finding, Found, Table, clock, fail, latency, lines, ok, run, warn
from ....errors import ConfigError, StoreUnavailable
from ....runtime.blocking import boottime, walltime
from ..complaints import ServerSaid, complaint, identifier
from ..config import Settings
from ..ddl import WHOLE, layout, quoted, verbs
from .link import Link, dial

#: Time limit of a request, in seconds.
WITHIN_S = 3.0
CONNECT_S = 5.0
_BUSY = "is the network slow, or the server very busy?"
#: Percentage of the queue of notifications in use from which doctor warns.
NOTIFY_FULL = 50
#: Age of an open transaction, in seconds, above which doctor warns, because it keeps the server
#: from removing dead rows.
OPEN_S = 600
#: The table with the values of refresh guards, the only table that clients read without a function.
VALUES = "refresh_values"


class Visit:
    """One examination of one server."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.link = self.connect()

    def connect(self) -> Link:
        """Return one more connection."""
        try:
            return dial(self.settings, boottime() + CONNECT_S)
        except ServerSaid as said:
            raise complaint(said, self.settings) from said

    def rows(self, query: str) -> list[list[str]]:
        """Return the rows of a query as texts; NULL is an empty text."""
        try:
            found = self.link.say(query, boottime() + WITHIN_S)
        except ServerSaid as said:
            raise complaint(said, self.settings) from said
        except (TimeoutError, psycopg.Error) as wrong:
            raise StoreUnavailable(f"{self.settings.label} did not answer: {wrong}") from wrong
        return [[(one or b"").decode("utf-8", "replace") for one in row] for row in found]

    def value(self, query: str) -> str:
        """Return the only value of a query."""
        ((found,),) = self.rows(query)
        return found

    def setting(self, name: str) -> str:
        """Return a setting of the server; empty if the server has no such setting."""
        return self.value(f"SELECT current_setting('{name}', true)")

    @functools.cached_property
    def user(self) -> str:
        """The name of the user that is logged in."""
        return self.value("SELECT current_user")

    @functools.cached_property
    def kept(self) -> bool:
        """True if a session is kept for each connection.

        Behind a pooler this is true only with pooler=session, and if a second connection gets a
        separate session.
        """
        if not self.link.peer.pooled or not self.settings.sessions:
            return not self.link.peer.pooled
        second = self.connect()
        try:
            return not second.peer.shares([self.link.peer])
        finally:
            second.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.link.close()


def examine(settings: Settings) -> Iterator[Finding]:
    """Yield the findings about all parts, in the order in which the parts are needed."""
    with Visit(settings) as visit:
        yield from run(visit, _REACH, _RIGHTS, _KEEPING)


# -- where the server is, how it is reached, and whether waiters can be woken there ----------------


def _pooler(visit: Visit) -> Finding:
    if not visit.link.peer.pooled:
        return ok("none is in between")
    if visit.kept:
        return ok("one is in between; it keeps a session for each connection")
    if visit.settings.sessions:
        return fail(
            "pooler=session is set, but the pooler in between gives one session to two connections",
            "remove pooler=session, or set pool_mode = session there",
        )
    return warn(
        "a pooler such as PgBouncer is in between, and seems to give out a session for each "
        "transaction: no waiter can be woken through it, so waiters poll, after 20 ms at first "
        "and later about once a second",
        "pooler=session, if it is in session mode; otherwise an address of the server itself, "
        "where waits must be short",
    )


def _isolation(visit: Visit) -> Found:
    level = visit.setting("transaction_isolation")
    fixed = ", which can't be changed through a pooler" if visit.link.peer.pooled else ""
    return level != "read committed" and fail(
        f"transactions are {level.upper()} by default{fixed}",
        f"ALTER ROLE {identifier(visit.user)} SET default_transaction_isolation = 'read committed'",
    )


def _clock(visit: Visit) -> Finding:
    begun = walltime()
    server = float(visit.value("SELECT extract(epoch FROM clock_timestamp())"))
    return clock(server - (begun + walltime()) / 2)


def _pokes(visit: Visit) -> Finding | None:
    """Send a message to a channel, and check whether it arrives: wake-ups need that."""
    if not visit.kept:
        return None
    channel = f"holdfast_doctor_{secrets.token_hex(6)}"
    ear = visit.connect()
    try:
        ear.listen(channel, boottime() + WITHIN_S)
        begun = boottime()
        visit.value(f"SELECT pg_notify('{channel}', 'x')")
        if ear.heard(WITHIN_S):
            return ok(f"a message arrives after {(boottime() - begun) * 1e3:.2f} ms")
        text = "a message from doctor to itself did not arrive"
    except ServerSaid as said:
        text = f"LISTEN failed: {said}"
    finally:
        ear.close()
    return warn(f"{text}: waiters poll once a second", "is a proxy in between?")


_REACH: Table[Visit] = {
    "server": lambda visit: ok(
        f"{visit.value('SELECT version()').partition(',')[0]}, and it takes writes"
    ),
    "pooler": _pooler,
    "isolation": _isolation,
    "latency": lambda visit: latency(boottime, lambda: visit.value("SELECT 1"), _BUSY),
    "clock": _clock,
    "wake-ups": _pokes,
}


# -- the schema, and what this user may do with it ----------------------------------------------


def _schema(visit: Visit) -> Iterator[Finding]:
    """Check that the schema exists and that this user may call its functions."""
    schema, user = visit.settings.schema, visit.user
    found = visit.rows(
        "SELECT proname, has_function_privilege(oid, 'EXECUTE') FROM pg_proc"  # noqa: S608 - safe
        f" WHERE pronamespace = to_regnamespace('{quoted(schema)}')"
    )
    may = {name: allowed == "t" for name, allowed in found}
    wanted = list(verbs())
    if not any(name in may for name in wanted):
        yield _absent(visit, schema, bool(may))
        return
    lacking = [name for name in wanted if name not in may]
    if lacking:
        spare = all(name.startswith(("queue_", "refresh_")) for name in lacking)
        grave = warn if spare else fail
        text = f"the schema {schema} is older than version {WHOLE}: it lacks {', '.join(lacking)}"
        yield grave(text, "holdfast schema postgres --apply, as its owner")
    else:
        yield ok(f"version {WHOLE} is installed, as {schema}")
    usage = visit.value(f"SELECT has_schema_privilege('{schema}', 'USAGE')") == "t"
    forbidden = [name for name in wanted if name in may and not may[name]]
    if forbidden or not usage:
        what = f"call {', '.join(forbidden)}" if usage else f"use the schema {schema}"
        yield fail(
            f"the user {user} may not {what}",
            f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {identifier(user)}; "
            f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {quoted(schema)} TO {identifier(user)}",
            "rights",
        )
    elif not lacking and not _readable(visit, VALUES):
        yield warn(
            f"the user {user} may not read {schema}.{VALUES}, so it can't use refresh guards",
            f"GRANT SELECT ON {quoted(schema)}.{VALUES} TO {identifier(user)}",
            "rights",
        )
    else:
        yield ok(f"the user {user} has all rights that holdfast needs", "rights")


def _readable(visit: Visit, table: str) -> bool:
    """True if the current user may read this table of the schema."""
    name = f"to_regclass('{quoted(visit.settings.schema)}.{table}')"
    return visit.value(f"SELECT has_table_privilege({name}, 'SELECT')") == "t"


def _absent(visit: Visit, schema: str, older: bool) -> Finding:
    try:
        visit.rows(layout(schema))
    except ConfigError as later:
        return fail(str(later))
    what = "another version is installed" if older else "it is missing"
    may = visit.value("SELECT has_database_privilege(current_database(), 'CREATE')") == "t"
    if visit.settings.create and may:
        return ok(f"{schema}: {what}; the first use makes it")
    why = f"the user {visit.user} may not make it" if visit.settings.create else "create_schema=off"
    remedy = "holdfast schema postgres --apply, as a user with that right"
    return fail(f"{schema}: {what}, and {why}", remedy)


_RIGHTS: Table[Visit] = {"schema": _schema}


# -- what the server keeps: on its disk, on its standbys, and of expired rows --------------------


def _durability(visit: Visit) -> Finding:
    if visit.setting("fsync") == "off":
        return warn(
            "fsync is off: a crash of the machine can lose acknowledged changes and damage data",
            "fsync = on",
        )
    if visit.settings.relaxed:
        text = "durable=relaxed: a crash loses the last changes; "
        if visit.settings.recovery == "off":
            return warn(f"{text}recovery is off", "leave out recovery=off")
        return ok(f"{text}then holders restore their holds")
    level = visit.setting("synchronous_commit")
    return ok(f"a crash loses nothing (synchronous_commit is {level})")


def _standbys(visit: Visit) -> Finding | None:
    rows = visit.rows("SELECT sync_state FROM pg_stat_replication")
    kept = sum(state in ("sync", "quorum") for (state,) in rows)
    if not rows or kept:
        return ok(f"{len(rows)}, of which {kept} confirm each grant") if rows else None
    text = f"{len(rows)}, none of them synchronous, and recovery is off"
    if visit.settings.recovery != "off":
        text = (
            f"{len(rows)}, none of them synchronous: a standby that is promoted can lack the last "
            "grants. Then nothing new is granted for the grace period"
        )
    return warn(text, "synchronous_standby_names, if that must not happen")


#: Settings that end sessions or requests of holdfast.
_ENDING = {
    "idle_session_timeout": "idle connections are ended, and each waiter has an idle one",
    "statement_timeout": "a request that takes longer is ended",
    "transaction_timeout": "a request that takes longer is ended",
}


def _timeouts(visit: Visit) -> Iterator[Finding]:
    for name, what in _ENDING.items():
        value = visit.setting(name)
        if value not in ("", "0"):
            yield warn(f"{name} is {value}: {what}", f"{name} = 0 for this user")
    value = visit.setting("idle_in_transaction_session_timeout")
    if value not in ("", "0"):
        yield ok(f"idle_in_transaction_session_timeout is {value}")
        return
    base = visit.value("SELECT current_database()")
    yield warn(
        "idle_in_transaction_session_timeout is 0: a program that leaves a transaction open keeps "
        "dead rows from being removed, also here",
        "set it for the role of that program, from its next session on: ALTER ROLE, the role, SET "
        "idle_in_transaction_session_timeout = '10min'; with IN DATABASE "
        f"{identifier(base)} before SET it applies only to this database",
    )


def _connections(visit: Visit) -> Finding:
    ((most, used),) = visit.rows(
        "SELECT current_setting('max_connections')::int"
        " - current_setting('superuser_reserved_connections')::int,"
        " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        "  OR backend_type IS NULL)"
    )
    each = f"each client uses up to {visit.settings.pool}, and one to listen"
    text = f"{int(used):,} of {int(most):,}; {each}"
    if int(used) < FULL * int(most):
        return ok(text)
    return warn(text, "raise max_connections, use a pooler, or make pool= smaller")


def _snapshots(visit: Visit) -> Finding:
    """Check whether an old snapshot keeps the server from removing dead rows."""
    seconds = int(
        visit.value(
            "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start))::bigint, 0)"
            " FROM pg_stat_activity WHERE backend_xmin IS NOT NULL"
        )
    )
    text = f"the oldest open transaction is {seconds:,} s old"
    if seconds <= OPEN_S:
        return ok(text)
    return warn(
        f"{text}: until it ends, no dead row is removed. Requests stay fast, but the tables grow",
        "find it in pg_stat_activity, by xact_start",
    )


def _tables(visit: Visit) -> Finding | None:
    """Return the sizes of the tables of the schema."""
    rows = visit.rows(
        "SELECT relname, n_live_tup, n_dead_tup, pg_relation_size(relid)"  # noqa: S608 - checked
        " FROM pg_stat_user_tables"
        f" WHERE schemaname = '{visit.settings.schema}'"
        " AND relname IN ('lines', 'claims', 'jobs', 'groups', 'ready', 'loans', 'known')"
        " ORDER BY relname"
    )
    words = [
        f"{name}: {int(size) / (1 << 20):,.1f} MiB, {int(live):,} rows and {int(dead):,} dead"
        for name, live, dead, size in rows
    ]
    return ok("; ".join(words)) if words else None


def _autovacuum(visit: Visit) -> Found:
    off = visit.setting("autovacuum") == "off"
    return off and warn("it is off: dead rows are never removed", "autovacuum = on")


def _lines(visit: Visit) -> Finding | None:
    """Compare lines with their claims, if this user may read the tables."""
    if not _readable(visit, "claims"):
        return None
    schema = visit.settings.schema
    wrong = visit.value(
        "SELECT count(*) FROM (SELECT name, count(*) FILTER (WHERE held) AS holders,"  # noqa: S608
        " coalesce(sum(weight) FILTER (WHERE held), 0) AS used,"
        f" count(*) FILTER (WHERE NOT held) AS waiters FROM {schema}.claims GROUP BY name) c"
        f" FULL JOIN {schema}.lines l ON l.name = c.name"
        " WHERE coalesce(l.holders, 0) <> coalesce(c.holders, 0)"
        " OR coalesce(l.used, 0) <> coalesce(c.used, 0)"
        " OR coalesce(l.waiters, 0) <> coalesce(c.waiters, 0)"
    )
    return lines(int(wrong))


def _notifications(visit: Visit) -> Found:
    """Check the room for the notifications that wake waiters."""
    used = int(visit.value("SELECT (pg_notification_queue_usage() * 100)::int"))
    return used >= NOTIFY_FULL and warn(
        f"{used} % of the queue of NOTIFY are in use: when it is full, no grant that wakes a "
        "waiter can be committed",
        "end the old transaction of a session that listens: see pg_stat_activity",
    )


_KEEPING: Table[Visit] = {
    "durability": _durability,
    "standbys": _standbys,
    "timeouts": _timeouts,
    "connections": _connections,
    "snapshots": _snapshots,
    "tables": _tables,
    "autovacuum": _autovacuum,
    "lines": _lines,
    "notifications": _notifications,
}
