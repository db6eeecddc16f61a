"""Replies of the functions of refresh guards, as the contract's data types.

Numbers are binary, with eight bytes or four.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ...core.guard.model import (
    Begun,
    Busy,
    Duty,
    Entry,
    EntryRecord,
    EntryState,
    Failing,
    GuardCounts,
    GuardRecord,
    Prolong,
    Value,
)
from ...core.model import Gone, Held, Loss
from .replies import Rows, strange

_MICRO = 1e-6
#: Microseconds from 1970 to 2000, where the server's binary times begin.
_EPOCH_US = 946_684_800_000_000
#: The bytes before a value: the server's time; the version; when the value stops being fresh,
#: stale and kept; when it was stored; its cost.
_head = struct.Struct("!7q")


def read(raw: bytes | None) -> Value | None:
    """Return the stored value; None if there is none, or if it is no longer kept."""
    if raw is None or len(raw) < _head.size:
        return None
    now, version, fresh, stale, kept, stored, cost = _head.unpack_from(raw)
    now += _EPOCH_US
    if kept <= now:
        return None
    if (stored or version) > now:
        fresh = stale = now  # the clock was set back since then, so the age is unknown
    seconds = (fresh - now) * _MICRO, (stale - now) * _MICRO, cost * _MICRO
    return Value(raw[_head.size :], *seconds, version)


def read_all(rows: Rows, many: int) -> list[Value | None]:
    """Return the stored value of each entry."""
    found: list[Value | None] = [None] * many
    for row in rows:
        found[_int(row[1]) - 1] = read(row[0])
    return found


def begun(rows: Rows, label: str) -> Begun:
    """Return the reply to a begin."""
    if len(rows) == 1 and len(rows[0]) == 7:
        kind, n, left_us, stale_us, cost_us, failures, data = rows[0]
        left = _int(left_us) * _MICRO
        if kind == b"d":
            return Duty(_int(n), left, _int(failures))
        if kind == b"b":
            return Busy(left)
        if kind == b"f":
            return Failing(left, _text(data))
        if kind == b"v":
            return Value(
                data or b"", left, _int(stale_us) * _MICRO, _int(cost_us) * _MICRO, _int(n)
            )
    raise strange(rows, label)


def yes(rows: Rows, label: str) -> bool:
    """Return a reply of yes or no."""
    if len(rows) != 1 or rows[0][0] not in (b"\0", b"\1"):
        raise strange(rows, label)
    return rows[0][0] == b"\1"


def number(rows: Rows, label: str) -> int:
    """Return a reply that is a number."""
    if len(rows) != 1:
        raise strange(rows, label)
    return _int(rows[0][0])


def prolonged(rows: Rows, prolongs: Sequence[Prolong], label: str) -> list[Held | Gone | Exception]:
    """Return the replies to renewals."""
    if len(rows) != len(prolongs):
        raise strange(rows, label)
    fences = [_int(row[0]) for row in rows]
    return [
        Held(fence, one.lease) if fence else Gone(Loss.EXPIRED)
        for fence, one in zip(fences, prolongs, strict=True)
    ]


def looked(rows: Rows, entry: Entry, label: str) -> EntryRecord:
    """Return the state of an entry."""
    if len(rows) != 1 or len(rows[0]) != 10:
        raise strange(rows, label)
    version, size, fresh, stale, cost, owner, lease, failures, pause, reason = rows[0]
    record = EntryRecord(
        entry,
        EntryState.MISSING,
        owner=_text(owner),
        lease_in=_int(lease) * _MICRO,
        failures=_int(failures),
        pause_in=_int(pause) * _MICRO,
        reason=_text(reason),
    )
    if version is None:
        return record
    fresh_in, stale_in = _int(fresh) * _MICRO, _int(stale) * _MICRO
    state = EntryState.STALE if stale_in > 0 else EntryState.EXPIRED
    return record._replace(
        state=EntryState.FRESH if fresh_in > 0 else state,
        size=_int(size),
        fresh_in=fresh_in,
        stale_in=stale_in,
        cost=_int(cost) * _MICRO,
        version=_int(version),
    )


def surveyed(rows: Rows) -> list[GuardRecord]:
    """Return the guards and their counts, in the order of names."""
    fields = len(GuardCounts._fields)
    return [
        GuardRecord(_text(name), GuardCounts(*map(int, (numbers or b"").split()[:fields])))
        for name, numbers in rows
    ]


def _int(raw: bytes | None) -> int:
    return int.from_bytes(raw or b"", "big", signed=True)


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")
