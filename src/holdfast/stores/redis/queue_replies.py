"""Replies of the scripts of serial queues; see ``replies.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.queue.model import Delivered, JobRecord, JobState
from ...errors import StoreUnavailable
from .queue_keys import Layout, read_row
from .recovery import ASK_RECOVERY, barred
from .replies import read, strange

Reply = Any
#: Seconds until the next take while recovery grants nothing: the default for a reply without a
#: time; the maximum.
_BARRED_S, _BARRED_MAX_S = 0.2, 1.0
#: Number of elements: before the deliveries; of a delivery; of a job; of a job in a scan.
_HEADS, _DELIVERY, _JOB, _SEEN = 3, 4, 8, 4
#: Makes a named tuple without calling its ``__new__``.
_new = tuple.__new__


@read
def accepted(reply: Reply, count: int, label: str) -> tuple[list[bool], int]:
    """The answer to a put: for each job True if it is new; number of waiters in the home shard to
    wake."""
    due = 0
    if type(reply) is list and len(reply) == 2:
        reply, due = reply
    if reply == 1:
        return [True] * count, due
    if reply == -1:
        raise StoreUnavailable(f"{label}: a copy of an earlier put came late, and changes nothing")
    if isinstance(reply, bytes) and len(reply) == count:
        return [one == 49 for one in reply], due
    raise strange(reply, label)


@read
def taken(
    reply: Reply, shard: int, layout: Layout, label: str
) -> tuple[tuple[Delivered, ...], float]:
    """The answer to a take: its deliveries; if none, seconds until the next take is useful."""
    if reply.__class__ is list and reply:
        what, count = reply[0], len(reply)
        if what == 1 and count % _DELIVERY == _HEADS:
            _, fence, now, *rest = reply
            found = [
                _delivered(rest[i : i + _DELIVERY], fence, now, shard, layout)
                for i in range(0, count - _HEADS, _DELIVERY)
            ]
            return tuple(found), 0.0
        if what == 2 and count == 2:
            return (), reply[1] / 1000
        if what == ASK_RECOVERY:
            return (), min(reply[1], _BARRED_MAX_S) if count == 3 else _BARRED_S
    raise strange(reply, label)


def why_none(reply: Reply, label: str) -> str:
    """The reason why recovery grants no job, from the answer to a take; empty: no job was due."""
    told = reply.__class__ is list and len(reply) == 3 and reply[0] == ASK_RECOVERY
    return str(barred(label, *reply[1:])) if told else ""


def _delivered(part: Sequence[Any], fence: int, now: int, shard: int, layout: Layout) -> Delivered:
    field, raw, attempt, place = part
    digits, _, name = field.partition(b":")
    number, group = int(digits), name.decode()
    accepted, id_, payload = read_row(raw)
    seq = number if layout.shards == 1 else layout.seq(shard, group, number)
    age = (now - accepted) / 1e6
    job = (seq, id_, group, payload, attempt, fence + place, max(0.0, age))
    return _new(Delivered, job)


@read
def went_on(
    reply: Reply, count: int, layout: Layout, label: str
) -> tuple[list[bool], tuple[Delivered, ...] | None]:
    """The answer to a settle that also takes: for each settled delivery True if it was still ours;
    the taken jobs, or None if recovery must be asked before a take."""
    if reply.__class__ is list and len(reply) > 1:
        said = reply.pop()
        if said.__class__ is bytes and len(said) == count:
            ours = [one == 49 for one in said]
            return ours, None if reply == [3] else taken(reply, 0, layout, label)[0]
    raise strange(reply, label)


@read
def settled(reply: Reply, count: int, label: str) -> tuple[list[bool], int]:
    """The answer to a settle or an extend: for each delivery True if it was still ours; the number
    of waiters to wake in the home shard."""
    if reply == 1 and count == 1:
        return [True], 0
    if isinstance(reply, list) and len(reply) in (count, count + 1):
        due = reply[count] if len(reply) > count else 0
        return [one == 1 for one in reply[:count]], due
    raise strange(reply, label)


@read
def counted(reply: Reply, label: str) -> tuple[int, int]:
    """The number of jobs (or starts); the number of waiters to wake at home (or ms until the next
    start)."""
    match reply:
        case int():
            return reply, 0
        case [0, int() as count, int() as more]:
            return count, more
    raise strange(reply, label)


@read
def listed(reply: Reply, label: str) -> list[Any]:
    """The elements of the reply to an inspection."""
    match reply:
        case [0, list() as found]:
            return found
    raise strange(reply, label)


@read
def shown(reply: Sequence[Any], label: str) -> list[tuple[float, JobRecord]]:
    """Jobs as records, each with its time of acceptance."""
    now, *rest = reply
    found = []
    for i in range(0, len(rest), _JOB):
        field, raw, state, attempts, due, left, owner, reason = rest[i : i + _JOB]
        row = read_row(raw)
        record = JobRecord(
            id=row.id,
            group=split(field)[1],
            state=JobState(_text(state)),
            payload=row.payload,
            attempts=attempts,
            age=max(0.0, (now - row.accepted) / 1e6),
            due_in=due / 1e6,
            expires_in=left / 1e6,
            owner=_text(owner),
            reason=_text(reason),
        )
        found.append((row.accepted, record))
    return found


@read
def seen(rest: Sequence[Any], label: str) -> list[tuple[bytes, str, float, str]]:
    """One part of a scan, for each job: its field, state, time of acceptance and id."""
    return [
        (rest[i], _text(rest[i + 1]), rest[i + 2], _text(rest[i + 3]))
        for i in range(0, len(rest), _SEEN)
    ]


def split(field: bytes) -> tuple[int, str]:
    """Number and group of a field.

    >>> split(b"7:bank:4001")
    (7, 'bank:4001')
    """
    number, _, group = field.partition(b":")
    return int(number), group.decode()


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
