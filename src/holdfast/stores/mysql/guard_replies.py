"""Replies to the statements of refresh guards, as the contract's data types."""

from __future__ import annotations

from typing import Any

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
    Value,
)
from ...errors import StoreUnavailable
from .replies import Rows, text

_MICRO = 1e-6
_DUTY, _BUSY, _FAILING, _VALUE = range(1, 5)


def read(raw: Any) -> Value | None:
    """Return the stored value; None if it is no longer kept."""
    *numbers, data = bytes(raw).split(b" ", 7)
    now, version, fresh, stale, kept, stored, cost = map(int, numbers)
    if kept <= now:
        return None
    if (stored or version) > now:
        fresh = stale = now  # the clock was set back since then, so the age is unknown
    return Value(data, (fresh - now) * _MICRO, (stale - now) * _MICRO, cost * _MICRO, version)


def begun(rows: Rows) -> tuple[Begun, int]:
    """Return the reply to a begin, and the number of refresh leases of the entry that had ended."""
    if len(rows) != 1 or len(rows[0]) != 8:
        raise StoreUnavailable("the reply of the server does not fit the request")
    code, n, left_us, stale_us, cost_us, failures, ended, data = rows[0]
    left = left_us * _MICRO
    if code == _DUTY:
        return Duty(n, left, failures), ended
    if code == _BUSY:
        return Busy(left), ended
    if code == _FAILING:
        return Failing(left, text(data)), ended
    return Value(bytes(data), left, stale_us * _MICRO, cost_us * _MICRO, n), ended


def looked(rows: Rows, entry: Entry) -> EntryRecord:
    """Return the state of an entry."""
    now, held, owner, lease, failures, pause, failed, reason, version, size, *times = rows[0]
    record = EntryRecord(entry, EntryState.MISSING)
    if held and lease > now:
        record = record._replace(owner=text(owner), lease_in=(lease - now) * _MICRO)
    if failed and failed > now:
        record = record._replace(
            failures=failures,
            pause_in=max(0, pause - now) * _MICRO,
            reason=text(reason),
        )
    if version is None or times[2] <= now:
        return record
    fresh, stale, _, cost = times
    state = EntryState.STALE if stale > now else EntryState.EXPIRED
    return record._replace(
        state=EntryState.FRESH if fresh > now else state,
        size=size,
        fresh_in=(fresh - now) * _MICRO,
        stale_in=(stale - now) * _MICRO,
        cost=cost * _MICRO,
        version=version,
    )


def surveyed(rows: Rows) -> list[GuardRecord]:
    """Return the guards and their counts."""
    return [GuardRecord(text(name), GuardCounts(*map(int, counts))) for name, *counts in rows]
