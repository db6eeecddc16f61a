"""Verbs of refresh guards as calls: each calls one function of the schema.

A read is a SELECT by the primary key. Replies are binary: numbers and bytes aren't sent as text.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.guard.model import Abandon, Entry, Finish, GuardCounts, Prolong, Wish
from .calls import BINARY, Calls, Row
from .ddl import REFRESH_VERSION

_COLUMNS = "version, fresh, stale, kept, stored, cost, data"
#: The server's time and the whole value, as one column: each additional column costs time at the
#: server and here.
_ALL = (
    "timestamptz_send(clock_timestamp()) || int8send(version) || int8send(fresh) || int8send(stale)"
    " || int8send(kept) || int8send(stored) || int8send(cost) || data"
)
# An entry has one row. The search for it starts at the greatest `gen`, so that it passes few old
# versions of the row.
_READ = (
    f"SELECT {_ALL} FROM {{schema}}.refresh_values "  # noqa: S608 - a schema's name is checked
    "WHERE guard = $1 AND key = $2 ORDER BY gen DESC LIMIT 1"
)
_READ_ALL = (
    f"SELECT {_ALL}, nth "  # noqa: S608
    "FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS w(g, k, nth) "
    f"CROSS JOIN LATERAL (SELECT {_COLUMNS} FROM {{schema}}.refresh_values "
    "WHERE guard = w.g AND key = w.k ORDER BY gen DESC LIMIT 1) v"
)


class GuardCalls(Calls):
    """The verbs of refresh guards. A call lists several entries in ascending order."""

    family, version, answer = "refresh_", REFRESH_VERSION, BINARY

    read: Row[[Entry]] = Row("entry.guard:b entry.key:b", _READ, bounded=False)
    read_all: Row[[Sequence[Entry]]] = Row(
        "entries*guard:b entries*key:b", _READ_ALL, bounded=False
    )
    #: With an address, the caller becomes a waiter if another client has the refresh lease.
    begin: Row[[Wish, str]] = Row(
        "wish.entry.guard:b wish.entry.key:b wish.id:t wish.owner:b wish.lease:us wish.known:n "
        "address:t",
        "SELECT * FROM {call}",
    )
    finish: Row[[Finish]] = Row(
        "finish.entry.guard:b finish.entry.key:b finish.id:t finish.fence:n finish.data:bytes "
        "finish.ttl:us finish.stale:us finish.keep:us finish.cost:us"
    )
    #: ``tombstone``: seconds for which a tombstone is kept.
    abandon: Row[[Abandon, float]] = Row(
        "abandon.entry.guard:b abandon.entry.key:b abandon.id:t abandon.pause:us abandon.memory:us "
        "abandon.reason:b tombstone:us"
    )
    prolong: Row[[Sequence[Prolong]]] = Row(
        "renewals*entry.guard:b renewals*entry.key:b renewals*id:t renewals*fence:n "
        "renewals*lease:us",
        "SELECT unnest({call})",
    )
    invalidate: Row[[Sequence[Entry]]] = Row("entries*guard:b entries*key:b")
    #: Removes at most ``many`` entries that expired in the time step ``since`` or later.
    tidy: Row[[int, int]] = Row("many:n since:n")
    look: Row[[Entry]] = Row("entry.guard:b entry.key:b", "SELECT * FROM {call}", bounded=False)
    survey: Row[[bytes, bytes | None]] = Row(
        "first:bytes end:bytes", "SELECT * FROM {call}", bounded=False
    )
    tally: Row[[str, GuardCounts]] = Row("guard:b tally*:n")
