"""A verb of queues as what is sent: the call of one function of the schema."""

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
    """From which moments on, by the server's clock, a take need look: in `ready`, by lane, and
    for leases that have ended. 0: everywhere."""

    grouped: int = 0
    plain: int = 0
    expired: int = 0


#: More than there are.
_ALL = (1 << 31) - 1


class QueueCalls:
    """Makes the calls for one schema."""

    def __init__(self, settings: Settings) -> None:
        self._schema = quoted(settings.schema)
        self._relaxed = yes(settings.relaxed)
        self._window = guard_window(settings)
        # b: bytes as they are; t: text
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
        """Accept jobs; ``tidy``: remove some of what has expired, too."""
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
        """Take what is due; with an address, wait for more if nothing is.

        ``turn``: the lane that is served first. ``stale``: takes that wait no more.
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
        """Return whatever a take got."""
        values = (take.queue.encode(), take.id.encode(), microseconds(take.ttl))
        return Call(self._give_back, values)

    def settle(self, settles: Sequence[Settle]) -> Call:
        """Settle several; by queue and group in ascending order."""
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
        """Prolong several leases."""
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
        """The queues whose names begin so, or this one."""
        first = prefix.encode()
        return Call(self._survey, (first, first + b"\0" if exact else after(first)))

    def jobs(self, queue: str, state: JobState | None, group: str | None, most: int) -> Call:
        """Some jobs of a queue."""
        where = None if group is None else group.encode()
        return Call(self._jobs, (queue.encode(), _state(state), where, b"%d" % most))

    def letters(self, queue: str) -> Call:
        """The ids of all dead letters."""
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
