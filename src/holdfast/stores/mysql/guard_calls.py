"""Verbs of refresh guards as statements of SQL, in the same form as in ``statements.py``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...core.guard.model import TALLY_KEPT_S, Abandon, Entry, Finish, GuardCounts, Prolong, Wish
from ...core.policy import TOMB_S
from .schema import REFRESH_VERSION
from .statements import ident, literal, micros, of_names

_NOW = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))"
#: The server's time and the whole value as one column: each further column costs a driver much
#: time.
_ALL = f"CONCAT_WS(' ', {_NOW}, version, fresh, stale, kept, stored, cost, data)"
_COUNTS = ", ".join(GuardCounts._fields)
_ADDED = ", ".join(f"{one} = {one} + VALUES({one})" for one in GuardCounts._fields)


class GuardCalls:
    """Makes the statements, for tables and procedures with this prefix."""

    def __init__(self, prefix: str) -> None:
        # A prefix is letters, digits and _ (config.py).
        name = f"{prefix}_refresh"
        self._read = f"SELECT {_ALL} FROM {name}_values WHERE guard = X'"  # noqa: S608
        self._read_all = f"SELECT {_ALL}, entry FROM {name}_values WHERE guard = "  # noqa: S608
        self._ended = f"SELECT ended FROM {name}_duties WHERE guard = "  # noqa: S608
        self._look = f"""
SELECT {_NOW}, d.id IS NOT NULL, d.owner, d.lease, d.failures, d.pause, d.failed, d.reason,
  v.version, LENGTH(v.data), IF(v.stored > {_NOW}, 0, v.fresh), IF(v.stored > {_NOW}, 0, v.stale),
  v.kept, v.cost
FROM (SELECT {{guard}} AS guard, {{entry}} AS entry) w
LEFT JOIN {name}_duties d ON d.guard = w.guard AND d.entry = w.entry
LEFT JOIN {name}_values v ON v.guard = w.guard AND v.entry = w.entry
"""  # noqa: S608
        self._survey = f"SELECT guard, {_COUNTS} FROM {name}_tallies WHERE "  # noqa: S608
        self._tally = f"INSERT INTO {name}_tallies (guard, {_COUNTS}, ends) VALUES "  # noqa: S608
        self._begin = f"CALL {name}_begin_{REFRESH_VERSION}("
        self._finish = f"CALL {name}_finish_{REFRESH_VERSION}("
        self._abandon = f"CALL {name}_abandon_{REFRESH_VERSION}("
        self._prolong = f"CALL {name}_prolong_{REFRESH_VERSION}("
        self._invalidate = f"CALL {name}_invalidate_{REFRESH_VERSION}("
        self._sweep = f"CALL {name}_sweep_{REFRESH_VERSION}("

    def read(self, entry: Entry) -> str:
        """Return the value of one entry. Locks nothing."""
        return (
            f"{self._read}{entry.guard.encode().hex()}' AND entry = X'{entry.key.encode().hex()}'"
        )

    def read_all(self, guard: str, keys: Iterable[str]) -> str:
        """Return the values of several entries of one guard."""
        known = ",".join(literal(key.encode()) for key in keys)
        return f"{self._read_all}{literal(guard.encode())} AND entry IN ({known})"

    def ended(self, entry: Entry) -> str:
        """Return the number of refresh leases of an entry that have ended. Locks nothing."""
        guard, key = literal(entry.guard.encode()), literal(entry.key.encode())
        return f"{self._ended}{guard} AND entry = {key}"

    def begin(self, wish: Wish) -> str:
        """Take the refresh lease."""
        return (
            f"{self._begin}{_entry(wish.entry)},{literal(ident(wish.id))},"
            f"{literal(wish.owner.encode())},{micros(wish.lease)},{wish.known})"
        )

    def finish(self, finish: Finish) -> str:
        """Store the value of a refresh lease."""
        times = (finish.ttl, finish.stale, finish.keep, finish.cost)
        return (
            f"{self._finish}{_entry(finish.entry)},{literal(ident(finish.id))},{finish.fence},"
            f"{','.join(str(micros(one)) for one in times)},{literal(finish.data)})"
        )

    def abandon(self, abandon: Abandon) -> str:
        """End a refresh lease without a value."""
        bury = micros(abandon.lease + TOMB_S) if abandon.suspect else 0
        return (
            f"{self._abandon}{_entry(abandon.entry)},{literal(ident(abandon.id))},"
            f"{micros(abandon.pause)},{micros(abandon.memory)},"
            f"{literal(abandon.reason.encode())},{bury})"
        )

    def prolong(self, prolongs: Iterable[Prolong]) -> str:
        """Renew refresh leases, in ascending order of their entries."""
        packed = b"".join(
            _packed(one.entry)
            + ident(one.id)
            + one.fence.to_bytes(8, "big")
            + micros(one.lease).to_bytes(8, "big")
            for one in prolongs
        )
        return f"{self._prolong}{literal(packed)})"

    def invalidate(self, entries: Iterable[Entry]) -> str:
        """Forget entries, in ascending order."""
        return f"{self._invalidate}{literal(b''.join(map(_packed, entries)))})"

    def sweep(self, rows: int, now_us: int = 0) -> str:
        """Remove at most ``rows`` expired entries, as of ``now_us``; 0 means now."""
        return f"{self._sweep}{rows},{now_us})"

    def look(self, entry: Entry) -> str:
        """Return the state of an entry."""
        return self._look.format(
            guard=literal(entry.guard.encode()), entry=literal(entry.key.encode())
        )

    def survey(self, prefix: str, exact: bool) -> str:
        """Return the guards with this prefix, or the guard with this name."""
        return f"{self._survey}{of_names('guard', prefix, exact)} ORDER BY guard"

    def tally(self, guard: str, tally: GuardCounts) -> str:
        """Add to the counts of a guard."""
        counts = ",".join(str(one) for one in tally)
        return (
            f"{self._tally}({literal(guard.encode())},{counts},{_NOW} + {micros(TALLY_KEPT_S)}) "
            f"ON DUPLICATE KEY UPDATE {_ADDED}, ends = VALUES(ends)"
        )


def ascending(entries: Sequence[Entry]) -> list[int]:
    """Return the indexes of the entries in the server's order, so that requests can't deadlock."""
    return sorted(
        range(len(entries)),
        key=lambda at: (entries[at].guard.encode(), entries[at].key.encode()),
    )


def _entry(entry: Entry) -> str:
    return f"{literal(entry.guard.encode())},{literal(entry.key.encode())}"


def _packed(entry: Entry) -> bytes:
    guard, key = entry.guard.encode(), entry.key.encode()
    return len(guard).to_bytes(2, "big") + guard + len(key).to_bytes(2, "big") + key
