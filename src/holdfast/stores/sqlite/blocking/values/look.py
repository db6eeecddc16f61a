"""Inspection of the values of guards. ``stores/memory/values.py`` defines the verbs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from .....core.guard.model import (
    TALLY_KEPT_S,
    Entry,
    EntryRecord,
    EntryState,
    GuardCounts,
    GuardRecord,
)
from ..look import names
from ..sql import guards as statements
from .rows import DutyRow

_SQL = statements()
Run = Callable[..., sqlite3.Cursor]


def look(run: Run, entry: Entry, now: float) -> EntryRecord:
    """See :meth:`holdfast.core.guard.ports.Guards.look`."""
    record = _computed(run, entry, now)
    row = run(_SQL.value_seen, entry).fetchone()
    if row is None or now >= row[2]:
        return record
    fresh, stale, _, cost, version, size = row
    state = EntryState.EXPIRED
    if now < fresh:
        state = EntryState.FRESH
    elif now < stale:
        state = EntryState.STALE
    return record._replace(
        state=state,
        size=size,
        fresh_in=fresh - now,
        stale_in=stale - now,
        cost=cost,
        version=version,
    )


def _computed(run: Run, entry: Entry, now: float) -> EntryRecord:
    row = run(_SQL.duty, entry).fetchone()
    if row is None:
        return EntryRecord(entry, EntryState.MISSING)
    duty = DutyRow(*row)
    duty.tidy(now)
    return EntryRecord(
        entry,
        EntryState.MISSING,
        owner=duty.owner,
        lease_in=duty.lease - now if duty.id else 0.0,
        failures=duty.failures,
        pause_in=max(0.0, duty.pause - now),
        reason=duty.reason,
    )


def survey(run: Run, prefix: str, exact: bool, now: float) -> list[GuardRecord]:
    """See :meth:`holdfast.core.guard.ports.Guards.survey`."""
    rows = run(_SQL.tallies_from, (*names(prefix, exact), now - TALLY_KEPT_S))
    return [GuardRecord(name, GuardCounts(*counts)) for name, *counts in rows.fetchall()]
