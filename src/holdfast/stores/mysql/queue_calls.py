"""Verbs of serial queues as statements of SQL, in the same form as in ``statements.py``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar

from ...core.policy import TOMB_S
from ...core.queue.model import BATCH_MAX, Extend, Job, Put, Settle, Start, Take, Verdict
from ...core.queue.policy import rate_burst
from ...runtime import codec
from .queue_looks import Place
from .schema import QUEUE_VERSION
from .statements import ITEM, Row, Statements, ident, literal, micros, sized

_VERDICTS = {Verdict.ACK: b"\0", Verdict.RETRY: b"\1", Verdict.DEAD: b"\2", Verdict.RETURN: b"\3"}
_NANO = 1_000_000_000
_ITEM = ITEM | {
    "bytes": bytes,
    "size4": lambda payload: len(payload).to_bytes(4, "big"),
    "verdict": _VERDICTS.__getitem__,
}
_JOB = codec.packed(
    "known:n1 delay:us id:size group:size payload:size4 id:bare group:bare payload:bytes", _ITEM
)
_SETTLE = codec.packed("group:text seq:n8 take:id verdict:verdict delay:us reason:text", _ITEM)


def _in_parts(items: Sequence[bytes]) -> bytes:
    """Pack items into parts of the size for which the server copies least.

    Each SUBSTRING copies the whole text from which it reads. The server needs one SUBSTRING of the
    list for each part, and about five SUBSTRINGs of a part for each item.
    """
    each = 1 + math.isqrt(len(items) // 5)
    parts = []
    for start in range(0, len(items), each):
        part = b"".join(items[start : start + each])
        parts.append(len(part).to_bytes(4, "big") + part)
    return b"".join(parts)


def _groups(jobs: Sequence[Job]) -> str:
    return literal(b"".join(map(sized, sorted({job.group.encode() for job in jobs} - {b""}))))


def _settles(settles: Iterable[Settle]) -> str:
    """Return two parameters: the deliveries; for each take, its tombstone and its deliveries."""
    places: dict[str, list[int]] = {}
    buried: dict[str, float] = {}
    packed = []
    for at, one in enumerate(settles, 1):
        places.setdefault(one.take, []).append(at)
        if one.suspect:
            buried[one.take] = one.ttl + TOMB_S
        packed.append(_SETTLE(one))
    takes = b"".join(
        ident(take)
        + micros(buried.get(take, 0.0)).to_bytes(8, "big")
        + b"".join(number.to_bytes(2, "big") for number in (len(mine), *mine))
        for take, mine in sorted(places.items())
    )
    return f"{literal(_in_parts(packed))},{literal(takes)}"


def _step(rate: float) -> int:
    """Return the nanoseconds between two deliveries; 0 if the rate is unlimited."""
    return max(1, round(_NANO / rate)) if rate < math.inf else 0


def _burst(rate: float) -> int:
    """Return the nanoseconds by which deliveries may be early; 0 if the rate is unlimited."""
    return round((rate_burst(rate) - 1) * _step(rate)) if rate < math.inf else 0


def _places(found: Iterable[Place]) -> str:
    ordered = sorted(found, key=lambda one: (one[1], one[0]))
    return literal(
        b"".join(
            bytes((dead,)) + seq.to_bytes(8, "big") + sized(group) for seq, group, dead in ordered
        )
    )


class QueueCalls(Statements):
    """The verbs of serial queues. A verb gets deliveries of one queue, sorted by their groups."""

    family, version = "queue_", QUEUE_VERSION
    kinds: ClassVar[dict[str, codec.Pack]] = {
        "groups": _groups,
        "jobs": lambda jobs: literal(_in_parts([*map(_JOB, jobs)])),
        "most": lambda most: min(most, BATCH_MAX),
        "start": lambda start: int(start is Start.TAKE),
        "step": _step,
        "burst": _burst,
        "tombstone": lambda ttl: micros(ttl + TOMB_S),
        "settles": _settles,
        "places": _places,
    }

    put: Row[[Put]] = Row(
        "put.queue:text put.lane:id put.number:n put.window:us put.jobs:groups put.jobs:jobs"
    )
    #: ``turn``: jobs with a group (0) or ungrouped jobs (1) first.
    take: Row[[Take, int]] = Row(
        "take.queue:text take.id:id take.most:most take.ttl:us take.owner:text "
        "take.pace.min_interval:us take.pace.start:start take.pace.rate:step take.pace.rate:burst "
        "take.patience.attempts:n take.patience.blocks:n turn:n $tombstone"
    )
    give_back: Row[[Take]] = Row("take.queue:text take.id:id take.ttl:tombstone", name="return")
    settle: Row[[str, Iterable[Settle]]] = Row("queue:text settles:settles")
    extend: Row[[str, Iterable[Extend]]] = Row(
        "queue:text extends*group:text,seq:n8,take:id,ttl:us"
    )
    #: Tries these dead letters again; the flag of each `Place` is True.
    revive: Row[[str, Iterable[Place]]] = Row("queue:text found:places")
    #: Removes these jobs, given by their places.
    purge: Row[[str, Iterable[Place]]] = Row("queue:text found:places")
    #: Removes records that are no longer needed, at most ``rows`` of each kind.
    sweep: Row[[str, int]] = Row("queue:text rows:n")


def by_track(asked: Sequence[Settle] | Sequence[Extend]) -> list[int]:
    """Return the indexes by queue and by the server's order of groups, to prevent deadlocks."""
    return sorted(
        range(len(asked)),
        key=lambda at: (asked[at].queue.encode(), asked[at].group.encode(), asked[at].seq),
    )
