"""Verbs of refresh guards as calls: each calls one function of the schema.

A read is a SELECT by the primary key. Replies are binary: numbers and bytes aren't sent as text.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.guard.model import Abandon, Entry, Finish, GuardCounts, Prolong, Wish
from ...core.policy import TOMB_S
from .calls import BINARY, TEXT, Call, Verb, after, array, blobs, microseconds, verb
from .config import Settings
from .ddl import REFRESH_VERSION, quoted

_COLUMNS = "version, fresh, stale, kept, stored, cost, data"
#: The server's time and the whole value as one column: each further column costs time on both
#: sides.
_ALL = (
    "timestamptz_send(clock_timestamp()) || int8send(version) || int8send(fresh) || int8send(stale)"
    " || int8send(kept) || int8send(stored) || int8send(cost) || data"
)


class GuardCalls:
    """Makes the calls for one schema."""

    def __init__(self, settings: Settings) -> None:
        self._schema = schema = quoted(settings.schema)
        # `gen`: see the tables. An entry has one row; the greatest gen is read first.
        self._read = Verb(
            b"holdfast_refresh_read",
            f"SELECT {_ALL} FROM {schema}.refresh_values "  # noqa: S608
            "WHERE guard = $1 AND key = $2 ORDER BY gen DESC LIMIT 1".encode(),
            (BINARY, BINARY),
            BINARY,
        )
        self._read_all = Verb(
            b"holdfast_refresh_read_all",
            f"SELECT {_ALL}, nth "  # noqa: S608 - a schema's name is checked
            "FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS w(g, k, nth) "
            f"CROSS JOIN LATERAL (SELECT {_COLUMNS} FROM {schema}.refresh_values "
            "WHERE guard = w.g AND key = w.k ORDER BY gen DESC LIMIT 1) v".encode(),
            (TEXT, TEXT),
            BINARY,
        )
        # b: raw bytes; t: text
        self._begin = self._verb("begin", "bbtbttt", "* FROM ")
        self._finish = self._verb("finish", "bbttbtttt")
        self._abandon = self._verb("abandon", "bbtttbt")
        self._prolong = self._verb("prolong", "ttttt", "unnest(", ")")
        self._invalidate = self._verb("invalidate", "tt")
        self._tidy = self._verb("tidy", "tt")
        self._look = self._verb("look", "bb", "* FROM ", bounded=False)
        self._survey = self._verb("survey", "bb", "* FROM ", bounded=False)
        self._tally = self._verb("tally", "bt")

    def _verb(
        self, name: str, kinds: str, what: str = "", end: str = "", *, bounded: bool = True
    ) -> Verb:
        call = f"{self._schema}.refresh_{name}_{REFRESH_VERSION}"
        name = f"refresh_{name}"
        return verb(name, call, kinds, what=what, end=end, answer=BINARY, bounded=bounded)

    def read(self, entry: Entry) -> Call:
        """Return the value of one entry."""
        return Call(self._read, (entry.guard.encode(), entry.key.encode()))

    def read_all(self, entries: Sequence[Entry]) -> Call:
        """Return the values of several entries."""
        return Call(self._read_all, _entries(entries))

    def begin(self, wish: Wish, address: str) -> Call:
        """Take the refresh lease; with an address, wait if another client holds it."""
        entry = wish.entry
        return Call(
            self._begin,
            (
                entry.guard.encode(),
                entry.key.encode(),
                wish.id.encode(),
                wish.owner.encode(),
                microseconds(wish.lease),
                b"%d" % wish.known,
                address.encode(),
            ),
        )

    def finish(self, finish: Finish) -> Call:
        """Store the value of a refresh lease."""
        entry = finish.entry
        return Call(
            self._finish,
            (
                entry.guard.encode(),
                entry.key.encode(),
                finish.id.encode(),
                b"%d" % finish.fence,
                finish.data,
                microseconds(finish.ttl),
                microseconds(finish.stale),
                microseconds(finish.keep),
                microseconds(finish.cost),
            ),
        )

    def abandon(self, abandon: Abandon) -> Call:
        """End a refresh lease without a value."""
        entry = abandon.entry
        return Call(
            self._abandon,
            (
                entry.guard.encode(),
                entry.key.encode(),
                abandon.id.encode(),
                microseconds(abandon.pause),
                microseconds(abandon.memory),
                abandon.reason.encode(),
                microseconds(abandon.lease + TOMB_S) if abandon.suspect else b"0",
            ),
        )

    def prolong(self, prolongs: Sequence[Prolong]) -> Call:
        """Renew refresh leases, in ascending order of their entries."""
        return Call(
            self._prolong,
            (
                *_entries([one.entry for one in prolongs]),
                array([one.id.encode() for one in prolongs]),
                array([b"%d" % one.fence for one in prolongs]),
                array([microseconds(one.lease) for one in prolongs]),
            ),
        )

    def invalidate(self, entries: Sequence[Entry]) -> Call:
        """Forget entries, in ascending order."""
        return Call(self._invalidate, _entries(entries))

    def tidy(self, many: int, since: int) -> Call:
        """Remove at most ``many`` entries that expired in the step ``since`` or later."""
        return Call(self._tidy, (b"%d" % many, b"%d" % since))

    def look(self, entry: Entry) -> Call:
        """Return the state of an entry."""
        return Call(self._look, (entry.guard.encode(), entry.key.encode()))

    def survey(self, prefix: str, exact: bool) -> Call:
        """Return the guards with this prefix, or the guard with this name."""
        first = prefix.encode()
        return Call(self._survey, (first, first + b"\0" if exact else after(first)))

    def tally(self, guard: str, tally: GuardCounts) -> Call:
        """Add to the counts of a guard."""
        return Call(self._tally, (guard.encode(), array([b"%d" % one for one in tally])))


def _entries(entries: Sequence[Entry]) -> tuple[bytes, bytes]:
    guards = blobs([one.guard.encode() for one in entries])
    return guards, blobs([one.key.encode() for one in entries])
