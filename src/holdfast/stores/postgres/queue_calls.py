"""Verbs of serial queues as calls: each calls one function of the schema."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from ...core.queue.model import Extend, JobState, Put, Settle, Start, Take
from ...core.queue.policy import rate_burst
from ...runtime import codec
from .calls import Calls, Row, blobs
from .ddl import QUEUE_VERSION


class Marks(NamedTuple):
    """Times of the server, in microseconds, from which a take has to search; 0: from the beginning.

    ``grouped`` and ``plain``: for jobs with a group and for ungrouped jobs, in the table `ready`.
    ``expired``: for expired leases.
    """

    grouped: int = 0
    plain: int = 0
    expired: int = 0


#: A limit that no number of dead letters reaches.
ALL = (1 << 31) - 1


def _ids(ids: Sequence[str] | None) -> bytes | None:
    return None if ids is None else blobs([one.encode() for one in ids])


class QueueCalls(Calls):
    """The verbs of serial queues."""

    family, version = "queue_", QUEUE_VERSION
    kinds: ClassVar[dict[str, codec.Pack]] = {
        "start": lambda start: b"t" if start is Start.TAKE else b"f",
        "rate": lambda rate: b"0" if rate == math.inf else repr(rate).encode(),
        "burst": lambda rate: b"0" if rate == math.inf else repr(rate_burst(rate)).encode(),
        "ids?": _ids,
    }

    #: With ``tidy``, the call also removes some expired records.
    put: Row[[Put, bool]] = Row(
        "put.queue:b put.lane:t put.number:n put.jobs*id:b put.jobs*group:b put.jobs*payload:bytes "
        "put.jobs*delay:us put.jobs*known:yes put.window:us tidy:yes $relaxed"
    )
    #: With an address, the take becomes a waiter if no job is due. ``turn``: 0 serves jobs with a
    #: group first, 1 ungrouped jobs. The next three arguments are the `Marks`. ``stale``: takes
    #: that no longer wait.
    take: Row[[Take, str, int, int, int, int, Sequence[str]]] = Row(
        "take.queue:b take.id:t take.most:n take.ttl:us take.owner:b take.pace.min_interval:us "
        "take.pace.start:start take.pace.rate:rate take.pace.rate:burst take.patience.attempts:n "
        "take.patience.blocks:yes address:t turn:n grouped:n plain:n expired:n stale*:t "
        "$window $relaxed",
        "SELECT * FROM {call}",
    )
    give_back: Row[[Take]] = Row("take.queue:b take.id:t take.ttl:us")
    #: The deliveries must be in ascending order of queue and group.
    settle: Row[[Sequence[Settle]]] = Row(
        "settles*queue:b settles*take:t settles*seq:n settles*verdict:t settles*delay:us "
        "settles*reason:b settles*ttl:us settles*suspect:yes"
    )
    extend: Row[[Sequence[Extend]]] = Row("extends*take:t extends*seq:n extends*ttl:us $relaxed")
    survey: Row[[bytes, bytes | None]] = Row(
        "first:bytes end:bytes", "SELECT * FROM {call}", bounded=False
    )
    jobs: Row[[str, JobState | None, str | None, int]] = Row(
        "queue:b state:t? group:b? most:n", "SELECT * FROM {call}", bounded=False
    )
    #: Selects the same jobs as `jobs`, but returns only their ids.
    letters: Row[[str, JobState | None, str | None, int]] = Row(
        "queue:b state:t? group:b? most:n",
        "SELECT id FROM {schema}.queue_jobs_{version}({marks})",
        bounded=False,
    )
    revive: Row[[str, Sequence[str] | None]] = Row("queue:b ids:ids? $relaxed")
    purge: Row[[str, JobState | None, Sequence[str] | None, int]] = Row(
        "queue:b state:t? ids:ids? most:n $relaxed"
    )
