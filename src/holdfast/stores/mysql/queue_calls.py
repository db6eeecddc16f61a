"""Verbs of serial queues as statements of SQL, in the same form as in ``statements.py``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ...core.policy import TOMB_S
from ...core.queue.model import (
    BATCH_MAX,
    Extend,
    Job,
    Put,
    Settle,
    Start,
    Take,
    Verdict,
)
from ...core.queue.policy import rate_burst
from .queue_looks import Place
from .schema import QUEUE_VERSION
from .statements import ident, literal, micros

_VERDICTS = {Verdict.ACK: 0, Verdict.RETRY: 1, Verdict.DEAD: 2, Verdict.RETURN: 3}
_NANO = 1_000_000_000


class QueueCalls:
    """Makes the calls, for procedures with this prefix."""

    def __init__(self, prefix: str) -> None:
        self._put = f"CALL {prefix}_queue_put_{QUEUE_VERSION}("
        self._take = f"CALL {prefix}_queue_take_{QUEUE_VERSION}("
        self._return = f"CALL {prefix}_queue_return_{QUEUE_VERSION}("
        self._settle = f"CALL {prefix}_queue_settle_{QUEUE_VERSION}("
        self._extend = f"CALL {prefix}_queue_extend_{QUEUE_VERSION}("
        self._revive = f"CALL {prefix}_queue_revive_{QUEUE_VERSION}("
        self._purge = f"CALL {prefix}_queue_purge_{QUEUE_VERSION}("
        self._sweep = f"CALL {prefix}_queue_sweep_{QUEUE_VERSION}("

    def put(self, put: Put) -> str:
        """Accept jobs."""
        jobs = put.jobs
        groups = b"".join(
            _sized(one) for one in sorted({_bytes(job.group) for job in jobs} - {b""})
        )
        return (
            f"{self._put}{literal(_bytes(put.queue))},{literal(ident(put.lane))},{put.number},"
            f"{micros(put.window)},{literal(groups)},{literal(_in_parts([*map(_job, jobs)]))})"
        )

    def take(self, take: Take, lane: int) -> str:
        """Take due jobs; ``lane``: jobs with a group (0) or ungrouped jobs (1) first."""
        pace = take.pace
        step = burst = 0
        if pace.rate < math.inf:
            step = max(1, round(_NANO / pace.rate))
            burst = round((rate_burst(pace.rate) - 1) * step)
        return (
            f"{self._take}{literal(_bytes(take.queue))},{literal(ident(take.id))},"
            f"{min(take.most, BATCH_MAX)},{micros(take.ttl)},{literal(_bytes(take.owner))},"
            f"{micros(pace.min_interval)},{pace.start is Start.TAKE:d},{step},{burst},"
            f"{take.patience.attempts},{take.patience.blocks:d},{lane},{micros(TOMB_S)})"
        )

    def give_back(self, take: Take) -> str:
        """Release all deliveries of a take."""
        which = f"{literal(_bytes(take.queue))},{literal(ident(take.id))}"
        return f"{self._return}{which},{micros(take.ttl + TOMB_S)})"

    def settle(self, queue: str, settles: Iterable[Settle]) -> str:
        """Settle deliveries of one queue, in the order of their groups."""
        places: dict[str, list[int]] = {}
        buried: dict[str, int] = {}
        packed = []
        for at, one in enumerate(settles, 1):
            places.setdefault(one.take, []).append(at)
            if one.suspect:
                buried[one.take] = micros(one.ttl + TOMB_S)
            verdict = _number(_VERDICTS[one.verdict], 1) + _number(micros(one.delay), 8)
            packed.append(_track(one) + verdict + _sized(_bytes(one.reason)))
        takes = b"".join(
            ident(take)
            + _number(buried.get(take, 0), 8)
            + _number(len(mine), 2)
            + b"".join(_number(at, 2) for at in mine)
            for take, mine in sorted(places.items())
        )
        return (
            f"{self._settle}{literal(_bytes(queue))},{literal(_in_parts(packed))},{literal(takes)})"
        )

    def extend(self, queue: str, extends: Iterable[Extend]) -> str:
        """Renew leases of one queue, in the order of their groups."""
        packed = b"".join(_track(one) + _number(micros(one.ttl), 8) for one in extends)
        return f"{self._extend}{literal(_bytes(queue))},{literal(packed)})"

    def revive(self, queue: str, found: Iterable[Place]) -> str:
        """Try these dead letters again; the flag of each `Place` is True."""
        return f"{self._revive}{literal(_bytes(queue))},{_places(found)})"

    def purge(self, queue: str, found: Iterable[Place]) -> str:
        """Remove these jobs, given by their places."""
        return f"{self._purge}{literal(_bytes(queue))},{_places(found)})"

    def sweep(self, queue: str, rows: int) -> str:
        """Remove records that are no longer needed, at most ``rows`` of each kind."""
        return f"{self._sweep}{literal(_bytes(queue))},{rows})"


def by_track(asked: Sequence[Settle] | Sequence[Extend]) -> list[int]:
    """Return the indexes by queue, in the server's order of groups, so no requests deadlock."""
    return sorted(
        range(len(asked)),
        key=lambda at: (_bytes(asked[at].queue), _bytes(asked[at].group), asked[at].seq),
    )


def _bytes(text: str) -> bytes:
    return text.encode()


def _number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big")


def _sized(value: bytes) -> bytes:
    return _number(len(value), 2) + value


def _track(one: Settle | Extend) -> bytes:
    return _sized(_bytes(one.group)) + _number(one.seq, 8) + ident(one.take)


def _job(job: Job) -> bytes:
    known, group = _bytes(job.id), _bytes(job.group)
    sizes = _number(len(known), 2) + _number(len(group), 2) + _number(len(job.payload), 4)
    return (
        _number(job.known, 1) + _number(micros(job.delay), 8) + sizes + known + group + job.payload
    )


def _in_parts(items: Sequence[bytes]) -> bytes:
    """Pack items into parts of the size for which the server copies least.

    The server reads each item about five times.
    """
    each = 1 + math.isqrt(len(items) // 5)
    parts = []
    for start in range(0, len(items), each):
        part = b"".join(items[start : start + each])
        parts.append(_number(len(part), 4) + part)
    return b"".join(parts)


def _places(found: Iterable[Place]) -> str:
    ordered = sorted(found, key=lambda one: (one[1], one[0]))
    return literal(
        b"".join(_number(dead, 1) + _number(seq, 8) + _sized(group) for seq, group, dead in ordered)
    )
