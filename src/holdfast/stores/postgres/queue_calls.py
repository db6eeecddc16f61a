"""Verbs of serial queues as calls: each calls one function of the schema."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ...core.queue.model import Extend, JobState, Put, Settle, Start, Take
from ...core.queue.policy import rate_burst
from .calls import Call, Verb, after, array, blobs, guard_window, microseconds, verb, yes
from .config import Settings
from .ddl import QUEUE_VERSION, quoted


class Marks(NamedTuple):
    """The moments, by the server's clock, from which a take has to search; 0: everywhere.

    ``grouped`` and ``plain``: in `ready`, for jobs with a group and for ungrouped jobs.
    ``expired``: for leases that have expired.
    """

    grouped: int = 0
    plain: int = 0
    expired: int = 0


#: A limit that no number of dead letters reaches.
_ALL = (1 << 31) - 1


class QueueCalls:
    """Makes the calls for one schema."""

    def __init__(self, settings: Settings) -> None:
        self._schema = quoted(settings.schema)
        self._relaxed = yes(settings.relaxed)
        self._window = guard_window(settings)
        # b: raw bytes; t: text
        self._put = self._verb("put", "b" + "t" * 10)
        self._take = self._verb("take", "btttb" + "t" * 14, "* FROM ")
        self._give_back = self._verb("give_back", "btt")
        self._settle = self._verb("settle", "t" * 8)
        self._extend = self._verb("extend", "tttt")
        self._survey = self._verb("survey", "bb", "* FROM ", bounded=False)
        self._jobs = self._verb("jobs", "btbt", "* FROM ", bounded=False)
        letters = self._verb("jobs", "btbt", "id FROM ", bounded=False)
        self._letters = letters._replace(name=b"holdfast_queue_letters")
        self._revive = self._verb("revive", "btt")
        self._purge = self._verb("purge", "btttt")

    def _verb(self, name: str, kinds: str, what: str = "", *, bounded: bool = True) -> Verb:
        call = f"{self._schema}.queue_{name}_{QUEUE_VERSION}"
        return verb(f"queue_{name}", call, kinds, what=what, bounded=bounded)

    def put(self, put: Put, tidy: bool) -> Call:
        """Accept jobs; ``tidy``: also remove some expired records."""
        jobs = put.jobs
        return Call(
            self._put,
            (
                put.queue.encode(),
                put.lane.encode(),
                b"%d" % put.number,
                blobs([job.id.encode() for job in jobs]),
                blobs([job.group.encode() for job in jobs]),
                blobs([job.payload for job in jobs]),
                array([microseconds(job.delay) for job in jobs]),
                array([yes(job.known) for job in jobs]),
                microseconds(put.window),
                yes(tidy),
                self._relaxed,
            ),
        )

    def take(self, take: Take, address: str, turn: int, marks: Marks, stale: Sequence[str]) -> Call:
        """Take due jobs; with an address, wait if none is due.

        ``turn``: 0 serves jobs with a group first, 1 ungrouped jobs. ``stale``: takes that no
        longer wait.
        """
        pace, patience = take.pace, take.patience
        unlimited = pace.rate == math.inf
        return Call(
            self._take,
            (
                take.queue.encode(),
                take.id.encode(),
                b"%d" % take.most,
                microseconds(take.ttl),
                take.owner.encode(),
                microseconds(pace.min_interval),
                yes(pace.start is Start.TAKE),
                b"0" if unlimited else repr(pace.rate).encode(),
                b"0" if unlimited else repr(rate_burst(pace.rate)).encode(),
                b"%d" % patience.attempts,
                yes(patience.blocks),
                address.encode(),
                b"%d" % turn,
                *(b"%d" % mark for mark in marks),
                array([one.encode() for one in stale]),
                self._window,
                self._relaxed,
            ),
        )

    def give_back(self, take: Take) -> Call:
        """Release all deliveries of a take."""
        values = (take.queue.encode(), take.id.encode(), microseconds(take.ttl))
        return Call(self._give_back, values)

    def settle(self, settles: Sequence[Settle]) -> Call:
        """Settle several deliveries, in ascending order of queue and group."""
        return Call(
            self._settle,
            (
                blobs([one.queue.encode() for one in settles]),
                array([one.take.encode() for one in settles]),
                array([b"%d" % one.seq for one in settles]),
                array([one.verdict.encode() for one in settles]),
                array([microseconds(one.delay) for one in settles]),
                blobs([one.reason.encode() for one in settles]),
                array([microseconds(one.ttl) for one in settles]),
                array([yes(one.suspect) for one in settles]),
            ),
        )

    def extend(self, extends: Sequence[Extend]) -> Call:
        """Renew several leases."""
        return Call(
            self._extend,
            (
                array([one.take.encode() for one in extends]),
                array([b"%d" % one.seq for one in extends]),
                array([microseconds(one.ttl) for one in extends]),
                self._relaxed,
            ),
        )

    def survey(self, prefix: str, exact: bool) -> Call:
        """Return the queues with this prefix, or the queue with this name."""
        first = prefix.encode()
        return Call(self._survey, (first, first + b"\0" if exact else after(first)))

    def jobs(self, queue: str, state: JobState | None, group: str | None, most: int) -> Call:
        """Return at most ``most`` jobs of a queue."""
        where = None if group is None else group.encode()
        return Call(self._jobs, (queue.encode(), _state(state), where, b"%d" % most))

    def letters(self, queue: str) -> Call:
        """Return the ids of all dead letters."""
        return Call(self._letters, (queue.encode(), b"dead", None, b"%d" % _ALL))

    def revive(self, queue: str, ids: Sequence[str] | None) -> Call:
        """Try dead letters again."""
        return Call(self._revive, (queue.encode(), _ids(ids), self._relaxed))

    def purge(
        self, queue: str, state: JobState | None, ids: Sequence[str] | None, most: int
    ) -> Call:
        """Remove at most ``most`` jobs."""
        values = (queue.encode(), _state(state), _ids(ids), b"%d" % most, self._relaxed)
        return Call(self._purge, values)


def _state(state: JobState | None) -> bytes | None:
    return None if state is None else state.encode()


def _ids(ids: Sequence[str] | None) -> bytes | None:
    return None if ids is None else blobs([one.encode() for one in ids])
