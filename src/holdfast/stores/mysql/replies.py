"""Replies of the procedures, as the contract's data types."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from ...core.model import (
    ClaimRecord,
    Full,
    Gone,
    Held,
    Joined,
    LineRecord,
    Loss,
    Mismatch,
    Refused,
    Standing,
    Waiting,
)
from ...errors import StoreUnavailable
from .statements import KINDS

#: The rows of one result.
Rows = Sequence[Sequence[Any]]
_GONE, _HELD, _WAITING, _REFUSED, _MISMATCH, _FULL = range(6)
_REASONS = (Loss.EXPIRED, Loss.BROKEN, Loss.RELEASED)
_MICRO = 1e-6


def text(raw: Any) -> str:
    """Decode bytes of a row as text, even if they are damaged."""
    return bytes(raw).decode("utf-8", "replace")


def said(rows: Rows) -> Any:
    """Return the only value of a procedure's reply."""
    if len(rows) != 1 or len(rows[0]) != 1:
        raise StoreUnavailable("the reply of the server does not fit the request")
    return rows[0][0]


def _words(rows: Rows) -> list[bytes]:
    found = said(rows)
    return (found.encode() if isinstance(found, str) else bytes(found)).split(b" ", 4)


def _kind(number: int) -> str:
    """Return the kind of a line by its number."""
    if not 0 <= number < len(KINDS):
        raise StoreUnavailable(
            f"the row of a line has the unknown kind {number}: it was changed from outside. When "
            "the name is no longer held, delete its row in the table of lines"
        )
    return KINDS[number]


def joined(rows: Rows) -> Joined:
    """Return the reply to a join."""
    words = _words(rows)
    code = int(words[0])
    if code == _REFUSED:
        # The reply names no holder if the claims were changed from outside.
        holder = words[4] if len(words) > 4 else b""
        return Refused(int(words[3]) * _MICRO, holder.decode("utf-8", "replace"))
    if code == _MISMATCH:
        return Mismatch(_kind(int(words[1])), int(words[2]))
    if code == _FULL:
        return Full(int(words[1]))
    return _standing(code, words)


def stood(rows: Rows) -> Standing:
    """Return the state of a claim after its renewal."""
    words = _words(rows)
    return _standing(int(words[0]), words)


def _standing(code: int, words: list[bytes]) -> Standing:
    first = int(words[1])
    if code == _HELD:
        return Held(first, int(words[2]) * _MICRO)
    if code == _WAITING:
        return Waiting(first, int(words[2]), int(words[3]) * _MICRO)
    return Gone(_REASONS[first])


def numbers(rows: Rows) -> list[int] | None:
    """Return the numbers of a reply, in the order of the request's list; None if there are none."""
    found = said(rows)
    if found is None:
        return None
    words = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
    return [int(word) for word in words.split(",") if word]


def resized(rows: Rows) -> int | Mismatch | None:
    """Return the former capacity; if nothing was changed, `Mismatch`, or None for an empty line."""
    code, kind, capacity = map(int, _words(rows)[:3])
    if code == _MISMATCH:
        return Mismatch(_kind(kind), capacity)
    return capacity if code == _HELD else None


def looked(rows: Rows) -> list[LineRecord]:
    """Return the lines with their claims; the rows are in the order of names and tickets."""
    found = []
    for (name, kind, capacity), part in itertools.groupby(rows, lambda row: tuple(row[:3])):
        claims = tuple(_claims(part))
        found.append(LineRecord(text(name), _kind(kind), capacity, claims))
    return sorted(found, key=lambda line: line.name)


def _claims(rows: Iterable[Sequence[Any]]) -> Iterable[ClaimRecord]:
    waiters = itertools.count(1)
    for _, _, _, held, ticket, weight, owner, meta, age, left, kept in rows:
        yield ClaimRecord(
            owner=text(owner),
            fence=ticket,
            held=bool(held),
            weight=weight,
            age=max(0, age) * _MICRO,
            expires_in=left * _MICRO,
            position=0 if held else next(waiters),
            meta=text(meta),
            kept=bool(kept),
        )
