"""Replies of the functions of queues, as the contract's data types."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.model import Gone, Held, Loss
from ...core.queue.model import Delivered, Extend, JobRecord, JobState, QueueRecord, Taken
from ...errors import StoreUnavailable
from .queue_calls import Marks
from .replies import Rows, strange, words

_US = 1e6


def accepted(rows: Rows, many: int, label: str) -> list[bool]:
    """Return the reply to a put: for each job, whether it is new."""
    (found,) = words(rows, label)
    if found == b"":
        raise StoreUnavailable(
            f"a copy of an earlier put came late to {label}, and changes nothing"
        )
    return yes_or_no(rows, many, label)


def yes_or_no(rows: Rows, many: int, label: str) -> list[bool]:
    """Return a reply of ``many`` letters, t or f."""
    (found,) = words(rows, label)
    if len(found) != many or found.strip(b"tf"):
        raise strange(rows, label)
    return [one == ord("t") for one in found]


def taken(rows: Rows, label: str) -> tuple[Taken, Marks]:
    """Return the reply to a take, and the `Marks` for the next take."""
    if not rows or len(rows[0]) != 8:
        raise strange(rows, label)
    plain, grouped, _, _, retry_us = (int(one or 0) for one in rows[0][:5])
    expired = int(rows[0][5] or 0)
    deliveries = tuple(_delivered(row) for row in rows[1:])
    marks = Marks(grouped, plain, expired)
    return Taken(deliveries, 0.0 if deliveries else retry_us / _US), marks


def _delivered(row: Sequence[bytes | None]) -> Delivered:
    seq, fence, age, attempt = (int(one or 0) for one in row[:4])
    payload = bytes.fromhex((row[7] or b"").decode())
    return Delivered(seq, _hex(row[5]), _hex(row[6]), payload, attempt, fence, age / _US)


def extended(rows: Rows, extends: Sequence[Extend], label: str) -> list[Held | Gone | Exception]:
    """Return the reply to an extend."""
    fences = [int(one) for one in words(rows, label)]
    if len(fences) != len(extends):
        raise strange(rows, label)
    return [
        Held(fence, one.ttl) if fence else Gone(Loss.EXPIRED)
        for fence, one in zip(fences, extends, strict=True)
    ]


def number(rows: Rows, label: str) -> int:
    """Return a reply that is a number."""
    (found,) = words(rows, label)
    return int(found)


def surveyed(rows: Rows) -> list[QueueRecord]:
    """Return the queues of a reply, whose rows are sorted by name."""
    found = []
    for row in rows:
        waiting, taken, dead, groups, oldest, accepted, done = (int(one or 0) for one in row[1:])
        sizes = (waiting, taken, dead, groups, oldest / _US, accepted, done)
        found.append(QueueRecord(_hex(row[0]), *sizes))
    return found


def listed(rows: Rows) -> list[JobRecord]:
    """Return the jobs of a reply, whose rows are in the order of acceptance."""
    found = []
    for row in rows:
        attempts, age, due_in, expires_in = (int(one or 0) for one in row[4:8])
        found.append(
            JobRecord(
                id=_hex(row[0]),
                group=_hex(row[1]),
                state=JobState((row[2] or b"").decode()),
                payload=bytes.fromhex((row[3] or b"").decode()),
                attempts=attempts,
                age=age / _US,
                due_in=due_in / _US,
                expires_in=expires_in / _US,
                owner=_hex(row[8]),
                reason=_hex(row[9]),
            )
        )
    return found


def ids(rows: Rows) -> list[str]:
    """Return a reply that contains only ids."""
    return [_hex(row[0]) for row in rows]


def _hex(raw: bytes | None) -> str:
    return bytes.fromhex((raw or b"").decode()).decode("utf-8", "replace")
