"""Replies of the scripts of refresh guards, and of the commands that read a value; see
``replies.py``."""

from __future__ import annotations

import struct
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
    Value,
)
from .complaints import ServerSaid, complaint
from .replies import read, strange
from .value_keys import Place, seen

Reply = Any
_STATE = struct.Struct(">32sddIddH")
_NOBODY = b"\0" * 32


@read
def value(left: Reply, raw: Reply, place: Place, label: str) -> Value | None:
    """The value from the replies of PTTL and GET; None if there is none."""
    if left.__class__ is int and (raw is None or raw.__class__ is bytes):
        try:
            return seen(raw, left, place.check)
        except ServerSaid as foreign:
            raise complaint(foreign, label) from None
    raise strange(raw if isinstance(raw, Exception) else left, label)


@read
def begun(reply: Reply, place: Place, label: str) -> Begun:
    """The answer to a begin."""
    match reply:
        case [1, int() as fence, int() as us, int() as failures]:
            return Duty(fence, us / 1e6, failures)
        case [2, int() as us]:
            return Busy(us / 1e6)
        case [2, int() as us, bytes() as reason]:
            return Failing(us / 1e6, _text(reason))
        case [0, int() as left, bytes() as raw]:
            found = value(left, raw, place, label)
            if found is not None:
                return found
    raise strange(reply, label)


@read
def yes(reply: Reply, label: str) -> bool:
    """The answer to a request that the server carries out (True) or refuses (False)."""
    if reply.__class__ is int:
        return bool(reply == 1)
    raise strange(reply, label)


@read
def shown(reply: Reply, entry: Entry, place: Place, label: str) -> EntryRecord:
    """The answer to an inspection."""
    match reply:
        case [int() as left, int() as size, bytes() as head, bytes() as state, int() as now]:
            record = EntryRecord(entry, EntryState.MISSING)
            if state:
                record = _with_duty(record, state, now)
            found = value(left, head or None, place, label)
            if found is None:
                return record
            return record._replace(
                state=_state_of(found),
                size=size - len(head),
                fresh_in=found.fresh_in,
                stale_in=found.stale_in,
                cost=found.cost,
                version=found.version,
            )
    raise strange(reply, label)


def _with_duty(record: EntryRecord, state: bytes, now: int) -> EntryRecord:
    """The record with the owner of the refresh lease and the number of failures."""
    if len(state) < _STATE.size:  # damaged from outside: it counts as missing
        return record
    claim, _, till, failures, pause, row, size = _STATE.unpack_from(state)
    owner, reason = state[_STATE.size : _STATE.size + size], state[_STATE.size + size :]
    if claim != _NOBODY and till > now:
        record = record._replace(owner=_text(owner), lease_in=(till - now) / 1e6)
    if row > now:
        pause_in = max(0.0, (pause - now) / 1e6)
        record = record._replace(failures=failures, pause_in=pause_in, reason=_text(reason))
    return record


def _state_of(found: Value) -> EntryState:
    if found.fresh_in > 0:
        return EntryState.FRESH
    return EntryState.STALE if found.stale_in > 0 else EntryState.EXPIRED


@read
def names(reply: Reply, label: str) -> list[str]:
    """The answer to a request for the names of guards."""
    return [_text(one) for one in _listed(reply, label)]


@read
def summed(reply: Reply, label: str) -> GuardCounts | None:
    """The answer to a request for the counts of a guard; None if there are none."""
    flat = _listed(reply, label)
    pairs = zip(flat[::2], flat[1::2], strict=True)
    found = {_text(name): int(count) for name, count in pairs if count.isdigit()}
    known = {name: found[name] for name in GuardCounts._fields if name in found}
    return GuardCounts(**known) if known else None


def _listed(reply: Reply, label: str) -> list[bytes]:
    match reply:
        case [0, list() as found]:
            return found
    raise strange(reply, label)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
