"""What the server keeps: on its disk, on its standbys, and of what is over."""

from __future__ import annotations

from collections.abc import Iterator

from .....core.finding import Finding
from ...complaints import identifier
from .visit import Visit, well, worth

#: This part of the connections is in use: worth a word.
FULL = 0.9
#: Percentage of the queue of messages in use from which doctor warns.
_NOTIFY_FULL = 50
#: A transaction that is open for so many seconds keeps what is over from being removed.
OPEN_S = 600


def examine(visit: Visit) -> Iterator[Finding]:
    """Durability, standbys, the guard, connections, open transactions, lines, NOTIFY."""
    yield _durability(visit)
    yield from _standbys(visit)
    yield from _timeouts(visit)
    yield _connections(visit)
    yield _open(visit)
    yield from _tables(visit)
    yield from _lines(visit)
    yield from _notifications(visit)


def _lines(visit: Visit) -> Iterator[Finding]:
    """Do the lines say what their claims say? Only for those who may read the tables."""
    schema = visit.settings.schema
    ((may,),) = visit.rows(
        f"SELECT coalesce(has_table_privilege(to_regclass('{schema}.claims'), 'SELECT'), false)"
    )
    if str(may) not in ("t", "True", "true"):
        return
    ((wrong,),) = visit.rows(
        "SELECT count(*) FROM (SELECT name, count(*) FILTER (WHERE held) AS holders,"  # noqa: S608
        " coalesce(sum(weight) FILTER (WHERE held), 0) AS used,"
        f" count(*) FILTER (WHERE NOT held) AS waiters FROM {schema}.claims GROUP BY name) c"
        f" FULL JOIN {schema}.lines l ON l.name = c.name"
        " WHERE coalesce(l.holders, 0) <> coalesce(c.holders, 0)"
        " OR coalesce(l.used, 0) <> coalesce(c.used, 0)"
        " OR coalesce(l.waiters, 0) <> coalesce(c.waiters, 0)"
    )
    if int(wrong):
        yield worth(
            "lines",
            f"{int(wrong):,} names whose line says something else than their claims: somebody has "
            "changed the tables by hand",
            "nothing: whoever next wants the name puts its line right",
        )
    else:
        yield well("lines", "each says what its claims say")


def _notifications(visit: Visit) -> Iterator[Finding]:
    """Is there room for what wakes those who wait?"""
    ((used,),) = visit.rows("SELECT (pg_notification_queue_usage() * 100)::int")
    if int(used) >= _NOTIFY_FULL:
        yield worth(
            "notifications",
            f"{int(used)} % of the queue of NOTIFY are used: when it is full, no grant that wakes "
            "somebody can be committed",
            "end the transaction that keeps it: pg_stat_activity, a session that listens",
        )


def _durability(visit: Visit) -> Finding:
    if visit.setting("fsync") == "off":
        return worth(
            "durability",
            "fsync is off: when the machine crashes, what was acknowledged may be lost, and more",
            "fsync = on",
        )
    if visit.settings.relaxed:
        guarded = visit.settings.guard != "off"
        what = "the guard lets holders put themselves back" if guarded else "there is no guard"
        finding = well if guarded else worth
        text = f"durable=relaxed: a crash forgets the last moments; {what}"
        return finding("durability", text, *(() if guarded else ("leave out guard=off",)))
    level = visit.setting("synchronous_commit")
    return well("durability", f"a crash loses nothing (synchronous_commit is {level})")


def _standbys(visit: Visit) -> Iterator[Finding]:
    rows = visit.rows("SELECT coalesce(application_name, ''), sync_state FROM pg_stat_replication")
    if not rows:
        return
    late = [name or "one" for name, state in rows if state not in ("sync", "quorum")]
    if len(late) == len(rows):
        yield worth(
            "standbys",
            f"{len(rows)}, and none is synchronous: one that is promoted may have missed the last "
            "grants. Then nobody is let in for the time of the guard's window"
            if visit.settings.guard != "off"
            else f"{len(rows)}, none of them synchronous, and there is no guard",
            "synchronous_standby_names, if that must not be",
        )
    else:
        yield well("standbys", f"{len(rows)}, of which {len(rows) - len(late)} confirm each grant")


def _timeouts(visit: Visit) -> Iterator[Finding]:
    """What ends sessions or requests that we need."""
    for name, what in (
        ("idle_session_timeout", "idle connections are ended, and who waits has one that is idle"),
        ("statement_timeout", "a request that takes longer is ended"),
        ("transaction_timeout", "a request that takes longer is ended"),
    ):
        value = visit.setting(name)
        if value not in ("", "0"):
            yield worth("timeouts", f"{name} is {value}: {what}", f"{name} = 0 for this user")
    value = visit.setting("idle_in_transaction_session_timeout")
    if value in ("", "0"):
        base = visit.row("SELECT current_database()")[0]
        yield worth(
            "timeouts",
            "idle_in_transaction_session_timeout is 0: a program that forgets a transaction keeps "
            "all that is over from being removed, also here",
            "set it for the role of the program that forgets, from its next session on: ALTER "
            "ROLE, the role, SET idle_in_transaction_session_timeout = '10min'; with IN DATABASE "
            f"{identifier(base)} before SET other databases aren't touched",
        )
    else:
        yield well("timeouts", f"idle_in_transaction_session_timeout is {value}")


def _connections(visit: Visit) -> Finding:
    most, used = (
        int(one)
        for one in visit.row(
            "SELECT current_setting('max_connections')::int"
            " - current_setting('superuser_reserved_connections')::int,"
            " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            "  OR backend_type IS NULL)"
        )
    )
    text = f"{used:,} of {most:,}; each client takes up to {visit.settings.pool} and one to listen"
    if used >= FULL * most:
        return worth("connections", text, "more (max_connections), a pooler, or a smaller pool=")
    return well("connections", text)


def _open(visit: Visit) -> Finding:
    """Whose snapshot keeps what is over."""
    row = visit.row(
        "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start))::bigint, 0)"
        " FROM pg_stat_activity WHERE backend_xmin IS NOT NULL"
    )
    seconds = int(row[0])
    text = f"the oldest open transaction is {seconds:,} s old"
    if seconds > OPEN_S:
        return worth(
            "snapshots",
            f"{text}: until it ends, nothing that is over is removed. Requests stay quick, but "
            "the tables grow",
            "find it in pg_stat_activity, by xact_start",
        )
    return well("snapshots", text)


def _tables(visit: Visit) -> Iterator[Finding]:
    """How large our tables are, and whether they are looked after."""
    rows = visit.rows(
        "SELECT relname, n_live_tup, n_dead_tup, pg_relation_size(relid)"  # noqa: S608 - checked
        " FROM pg_stat_user_tables"
        f" WHERE schemaname = '{visit.settings.schema}'"
        " AND relname IN ('lines', 'claims', 'jobs', 'groups', 'ready', 'loans', 'known')"
        " ORDER BY relname"
    )
    if rows:
        words = [
            f"{name}: {int(size) / (1 << 20):,.1f} MiB, {int(live):,} rows and {int(dead):,} dead"
            for name, live, dead, size in rows
        ]
        yield well("tables", "; ".join(words))
    if visit.setting("autovacuum") == "off":
        yield worth("autovacuum", "it is off: what is over is never removed", "autovacuum = on")
