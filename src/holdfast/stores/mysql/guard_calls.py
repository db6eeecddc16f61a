"""Verbs of refresh guards as statements of SQL, in the same form as in ``statements.py``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from ...core.guard.model import TALLY_KEPT_S, Abandon, Entry, Finish, GuardCounts, Prolong, Wish
from ...runtime import codec
from .schema import REFRESH_VERSION
from .statements import NOW, Row, Statements, literal, micros, of_names

#: The server's time and the whole value as one column, because each further column costs a driver
#: much time.
_ALL = f"CONCAT_WS(' ', {NOW}, version, fresh, stale, kept, stored, cost, data)"
_COUNTS = ", ".join(GuardCounts._fields)
_ADDED = ", ".join(f"{one} = {one} + VALUES({one})" for one in GuardCounts._fields)
# The prefix is safe in SQL: it has only letters, digits and _ (config.py).
_READ = f"SELECT {_ALL} FROM {{prefix}}_refresh_values WHERE guard = %s AND entry = %s"  # noqa: S608
_READ_ALL = (
    f"SELECT {_ALL}, entry FROM {{prefix}}_refresh_values "  # noqa: S608
    "WHERE guard = %s AND entry IN (%s)"
)
_ENDED = "SELECT ended FROM {prefix}_refresh_duties WHERE guard = %s AND entry = %s"
_LOOK = f"""
SELECT {NOW}, d.id IS NOT NULL, d.owner, d.lease, d.failures, d.pause, d.failed, d.reason,
  v.version, LENGTH(v.data), IF(v.stored > {NOW}, 0, v.fresh), IF(v.stored > {NOW}, 0, v.stale),
  v.kept, v.cost
FROM (SELECT %s AS guard, %s AS entry) w
LEFT JOIN {{prefix}}_refresh_duties d ON d.guard = w.guard AND d.entry = w.entry
LEFT JOIN {{prefix}}_refresh_values v ON v.guard = w.guard AND v.entry = w.entry
"""  # noqa: S608
_SURVEY = f"SELECT guard, {_COUNTS} FROM {{prefix}}_refresh_tallies WHERE %s ORDER BY guard"  # noqa: S608
_TALLY = (
    f"INSERT INTO {{prefix}}_refresh_tallies (guard, {_COUNTS}, ends) VALUES "  # noqa: S608
    f"(%s,%s,{NOW} + {micros(TALLY_KEPT_S)}) "
    f"ON DUPLICATE KEY UPDATE {_ADDED}, ends = VALUES(ends)"
)


class GuardCalls(Statements):
    """The verbs of refresh guards. Verbs for several entries get them in `ascending` order."""

    family, version = "refresh_", REFRESH_VERSION
    kinds: ClassVar[dict[str, codec.Pack]] = {
        "data": literal,
        "keys": lambda keys: ",".join(literal(key.encode()) for key in keys),
        "counts": lambda counts: ",".join(map(str, counts)),
        "sql": str,
    }

    #: Returns the value of an entry. Locks nothing.
    read: Row[[Entry]] = Row("entry.guard:text entry.key:text", _READ)
    read_all: Row[[str, Iterable[str]]] = Row("guard:text keys:keys", _READ_ALL)
    #: Returns the number of refresh leases of an entry that have ended. Locks nothing.
    ended: Row[[Entry]] = Row("entry.guard:text entry.key:text", _ENDED)
    begin: Row[[Wish]] = Row(
        "wish.entry.guard:text wish.entry.key:text wish.id:id wish.owner:text wish.lease:us "
        "wish.known:n"
    )
    finish: Row[[Finish]] = Row(
        "finish.entry.guard:text finish.entry.key:text finish.id:id finish.fence:n finish.ttl:us "
        "finish.stale:us finish.keep:us finish.cost:us finish.data:data"
    )
    #: The second argument is the lifetime of a tombstone in seconds; 0: no tombstone.
    abandon: Row[[Abandon, float]] = Row(
        "abandon.entry.guard:text abandon.entry.key:text abandon.id:id abandon.pause:us "
        "abandon.memory:us abandon.reason:text tombstone:us"
    )
    prolong: Row[[Iterable[Prolong]]] = Row(
        "renewals*entry.guard:text,entry.key:text,id:id,fence:n8,lease:us"
    )
    invalidate: Row[[Iterable[Entry]]] = Row("entries*guard:text,key:text")
    #: Removes at most ``rows`` expired entries, as of ``now_us``; 0 means now.
    sweep: Row[[int, int]] = Row("rows:n now_us:n")
    look: Row[[Entry]] = Row("entry.guard:text entry.key:text", _LOOK)
    _survey: Row[[str]] = Row("which:sql", _SURVEY)
    tally: Row[[str, GuardCounts]] = Row("guard:text tally:counts", _TALLY)

    def survey(self, prefix: str, exact: bool) -> str:
        """Return the statement for the guards with this prefix, or for the guard with this name."""
        return self._survey(of_names("guard", prefix, exact))


def ascending(entries: Sequence[Entry]) -> list[int]:
    """Return the indexes of the entries in the server's order, so that requests can't deadlock."""
    return sorted(
        range(len(entries)),
        key=lambda at: (entries[at].guard.encode(), entries[at].key.encode()),
    )
