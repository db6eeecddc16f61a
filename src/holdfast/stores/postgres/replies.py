"""Replies of the functions of locks, as the contract's data types."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ...core.model import (
    Claim,
    ClaimRecord,
    Full,
    Gone,
    Held,
    Joined,
    LineRecord,
    Loss,
    Mismatch,
    Refused,
    Renewal,
    Standing,
    Waiting,
)
from ...core.ports import NotYet
from ...errors import StoreUnavailable

#: The rows of a reply, with the values as the server sent them.
Rows = Sequence[Sequence[bytes | None]]
_US = 1e6
_REASONS = {b"e": Loss.EXPIRED, b"b": Loss.BROKEN, b"r": Loss.RELEASED}


def words(rows: Rows, label: str) -> list[bytes]:
    """Return the words of a reply that is one text. NULL is one empty word."""
    if len(rows) != 1 or len(rows[0]) != 1:
        raise strange(rows, label)
    return (rows[0][0] or b"").split(b" ")


def joined(rows: Rows, label: str) -> Joined:
    """Return the reply to a join."""
    match words(rows, label):
        case [b"R", us, owner]:
            return Refused(int(us) / _US, bytes.fromhex(owner.decode()).decode("utf-8", "replace"))
        case [b"M", capacity, kind]:
            return Mismatch(kind.decode(), int(capacity))
        case [b"F", waiters]:
            return Full(int(waiters))
        case [b"N", us]:
            raise barred(label, int(us) / _US)
    return standing(rows, label)


def standing(rows: Rows, label: str) -> Standing:
    """Return the state of a claim."""
    match words(rows, label):
        case [b"H", ticket, us]:
            return Held(int(ticket), int(us) / _US)
        case [b"W", ticket, position, us]:
            return Waiting(int(ticket), int(position), int(us) / _US)
        case [b"G", reason]:
            return Gone(_REASONS[reason])
    raise strange(rows, label)


def renewed(rows: Rows, renewals: Sequence[Renewal], label: str) -> list[Held | None]:
    """Return the reply to each renewal of a call. None: the claim needs a separate call."""
    tickets = [int(one) for one in words(rows, label)]
    if len(tickets) != len(renewals):
        raise strange(rows, label)
    return [
        Held(ticket, renewal.ttl) if ticket else None
        for ticket, renewal in zip(tickets, renewals, strict=True)
    ]


def let_in(rows: Rows, claims: Sequence[Claim], label: str) -> list[Held] | None:
    """Return the holds that a join of several empty lines got; None: nothing was done."""
    found = words(rows, label)
    if found == [b""]:
        return None
    if len(found) != len(claims) + 1:
        raise strange(rows, label)
    return [
        Held(int(ticket), claim.spec.ttl) for ticket, claim in zip(found[:-1], claims, strict=True)
    ]


def left(rows: Rows, many: int, label: str) -> list[bool]:
    """Return the replies to releases: for each claim, whether it was there."""
    (found,) = words(rows, label)
    if len(found) != many or found.strip(b"tf"):
        raise strange(rows, label)
    return [one == ord("t") for one in found]


def resized(rows: Rows, label: str) -> int | Mismatch | None:
    """Return the reply to a resize."""
    match words(rows, label):
        case [b"C", former]:
            return int(former)
        case [b"M", capacity, kind]:
            return Mismatch(kind.decode(), int(capacity))
        case [b""]:
            return None
    raise strange(rows, label)


def looked_at(rows: Rows) -> list[LineRecord]:
    """Return the lines of a reply, whose rows are sorted by name and then by position."""
    found = []
    for raw, several in groupby(rows, lambda row: row[0]):
        line = list(several)
        claims = tuple(_claim(row, at, line) for at, row in enumerate(line, 1))
        kind, capacity = _text(line[0][1]), int(line[0][2] or 0)
        found.append(LineRecord(_name(raw), kind, capacity, claims))
    return found


def _claim(
    row: Sequence[bytes | None], place: int, line: Sequence[Sequence[bytes | None]]
) -> ClaimRecord:
    ticket, weight, age, left_us = (int(one or 0) for one in row[4:8])
    held = sum(one[3] == b"t" for one in line)
    return ClaimRecord(
        owner=_name(row[8]),
        fence=ticket,
        held=row[3] == b"t",
        weight=weight,
        age=age / _US,
        expires_in=left_us / _US,
        position=max(0, place - held),
        meta=_name(row[9]),
        kept=row[10] == b"t",
    )


def _name(raw: bytes | None) -> str:
    """Decode a text. It is sent as hexadecimal digits, because encodings of servers differ."""
    return bytes.fromhex(_text(raw)).decode("utf-8", "replace")


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")


def barred(label: str, seconds: float) -> NotYet:
    """Return the error for a join during the grace period, in which nothing is granted."""
    return NotYet(
        f"{label} grants nothing for {seconds:.1f} s more: it crashed or was replaced, and its "
        "holders must be able to renew first (recovery= in the URL)",
        seconds,
    )


def strange(rows: object, label: str) -> StoreUnavailable:
    """Return the error for a reply that no function of the schema sends."""
    return StoreUnavailable(f"{label} sent a reply that no verb of holdfast has: {rows!r:.80}")
