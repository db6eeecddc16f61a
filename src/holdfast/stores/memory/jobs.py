"""Serial queues as a plain state machine: the meaning of their verbs.

It has no clock, no lock, no input and no output, as in ``line.py``: the caller passes ``now``, and
sends the wake-ups that a verb leaves in ``pokes``. Every other store must answer as this one does.

A **group** is all jobs with one group name, or one ungrouped job alone. Its jobs run one at a time.
A group is *due* at a moment that follows from its first job and its last execution. Due groups are
served in the order of these moments. Named groups and ungrouped jobs take turns, so that neither a
busy group nor many ungrouped jobs delay the rest. A group with a delivered job isn't due.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...core.model import Gone, Held, Loss
from ...core.policy import ASK_AGAIN_S_MAX, TOMB_S
from ...core.queue.model import (
    Delivered,
    Extend,
    Job,
    Pace,
    Put,
    Settle,
    Start,
    Take,
    Taken,
    Verdict,
)
from ...core.queue.policy import EXPIRED_REASON, rate_burst
from ...errors import StoreUnavailable
from .line import TOMBS_LOOK

#: Seconds from the last put of a producer until the producer is forgotten.
LANE_S = 3600.0
#: Seconds after its last use until an empty queue is forgotten, with its counts.
LIFE_S = 5400.0
#: A queue has two orders of due groups: one of named groups, one of ungrouped jobs.
GROUPED, PLAIN = 0, 1


@dataclass(slots=True)
class Row:
    """One job."""

    seq: int
    job: Job
    accepted: float
    not_before: float
    #: The time until which an id that the producer chose is remembered, even if the job has ended.
    known_until: float
    attempts: int = 0
    dead: bool = False
    reason: str = ""


@dataclass(slots=True)
class Loan:
    """A delivery, which is a job that was taken and isn't settled."""

    take: Take
    fence: int
    expires: float


@dataclass(slots=True, eq=False)
class Track:
    """A group, in which only the job of the first row can be delivered."""

    name: str
    lane: int
    rows: deque[Row] = field(default_factory=deque)
    loan: Loan | None = None
    #: The time before which no job may start, because of the last execution.
    due: float = -math.inf
    #: The group's current entry in `Queue.order`: (moment, tie); None if it has no entry.
    place: tuple[float, int] | None = None

    def at(self) -> float:
        """Return the time from which the first job may be delivered; ``inf`` if none may be."""
        if self.loan is not None or not self.rows or self.rows[0].dead:
            return math.inf
        return max(self.due, self.rows[0].not_before)


class Queue:
    """One queue."""

    def __init__(self) -> None:
        self.tracks: dict[str, Track] = {}
        #: The groups of the ungrouped jobs, by the seq of their job.
        self.singles: dict[int, Track] = {}
        #: For `GROUPED` and `PLAIN`, a heap of (moment, tie, group). The tie, a running number,
        #: orders equal moments. An entry that isn't the `place` of its group is outdated.
        self.order: tuple[list[Any], list[Any]] = ([], [])
        self.leases: list[tuple[float, int, Track]] = []
        self.dead: OrderedDict[int, Row] = OrderedDict()
        #: By the id of a job: the time until which it is remembered; ``inf`` until the job ends.
        self.known: dict[str, float] = {}
        self.fading: list[tuple[float, str]] = []
        #: Groups without jobs, each with the moment after which its last execution has no effect.
        self.resting: list[tuple[float, int, Track]] = []
        self.lanes: OrderedDict[str, tuple[int, float, list[bool]]] = OrderedDict()
        self.taken: dict[str, list[Track]] = {}
        self.tombs: dict[str, float] = {}
        self._tombs_look = TOMBS_LOOK
        #: The addresses of the takes that wait for a job, by the id of the take.
        self.idle: OrderedDict[str, Any] = OrderedDict()
        #: The addresses to wake after this verb.
        self.pokes: list[Any] = []
        self.ties = itertools.count(1)
        self.seqs = itertools.count(1)
        self.fences = itertools.count(1)
        self.turn = GROUPED
        self.next_start = -math.inf
        self.accepted = self.done = 0
        #: The time of the last put or the last end of a delivery.
        self.used = -math.inf

    # -- putting ---------------------------------------------------------------------------

    def put(self, put: Put, now: float) -> list[bool]:
        """See :meth:`holdfast.core.queue.ports.Queues.put`."""
        self.used = now
        self._tidy(now)
        number, _, answers = self.lanes.get(put.lane, (0, 0.0, []))
        if put.number < number:
            raise StoreUnavailable("a copy of an earlier put came late, and changes nothing")
        if put.number > number:
            answers = [self._accept(job, put.window, now) for job in put.jobs]
        self.lanes[put.lane] = (put.number, now, answers)
        self.lanes.move_to_end(put.lane)
        return answers

    def _accept(self, job: Job, window: float, now: float) -> bool:
        if job.known and job.id in self.known:
            return False
        row = Row(next(self.seqs), job, now, now + job.delay, now + window)
        if job.known:
            self.known[job.id] = math.inf
        self.accepted += 1
        if job.group:
            track = self.tracks.get(job.group)
            if track is None:
                track = self.tracks[job.group] = Track(job.group, GROUPED)
        else:
            track = self.singles[row.seq] = Track("", PLAIN)
        track.rows.append(row)
        if len(track.rows) == 1:
            self.line_up(track, now)
        return True

    def _tidy(self, now: float) -> None:
        while self.lanes:
            lane, (_, used, _) = next(iter(self.lanes.items()))
            if used + LANE_S > now:
                break
            del self.lanes[lane]
        while self.fading and self.fading[0][0] <= now:
            _, known = heapq.heappop(self.fading)
            if self.known.get(known, math.inf) <= now:
                del self.known[known]
        while self.resting and self.resting[0][0] <= now:
            track = heapq.heappop(self.resting)[2]
            if not track.rows and track.due <= now and self.tracks.get(track.name) is track:
                del self.tracks[track.name]

    # -- taking ----------------------------------------------------------------------------

    def take(self, take: Take, now: float, address: Any = None) -> Taken:
        """See :meth:`holdfast.core.queue.ports.Queues.take`."""
        self.reap(now)
        mine = self.taken.get(take.id)
        given_up = self.tombs.get(take.id, 0.0) > now
        if mine is None and not given_up:
            mine = [*self._lend(take, now)]
            if mine:
                self.taken[take.id] = mine
        if mine:
            self.idle.pop(take.id, None)
            return Taken(tuple(_delivered(track, now) for track in mine), 0.0)
        if take.wait and address is not None and not given_up:
            self.idle[take.id] = address
        else:
            self.idle.pop(take.id, None)
        return Taken((), self._retry_in(take.pace, now))

    def _lend(self, take: Take, now: float) -> Iterator[Track]:
        for _ in range(take.most):
            if not self._may_start(take.pace, now):
                return
            track = self._next(now)
            if track is None:
                return
            track.rows[0].attempts += 1
            track.loan = Loan(take, next(self.fences), now + take.ttl)
            if track.lane == GROUPED and take.pace.start is Start.TAKE:
                track.due = now + take.pace.min_interval
            track.place = None
            heapq.heappush(self.leases, (track.loan.expires, next(self.ties), track))
            if take.pace.rate < math.inf:
                self.next_start = max(self.next_start, now) + 1 / take.pace.rate
            yield track

    def _next(self, now: float) -> Track | None:
        """Return the next group, or None. If named groups and ungrouped jobs are due, they take
        turns."""
        for lane in (self.turn, 1 - self.turn):
            first = self._first(lane)
            if first is not None and first[0] <= now:
                heapq.heappop(self.order[lane])
                self.turn = 1 - lane
                track: Track = first[2]
                return track
        return None

    def _first(self, lane: int) -> Any:
        heap = self.order[lane]
        while heap and heap[0][2].place != heap[0][:2]:
            heapq.heappop(heap)
        return heap[0] if heap else None

    def _may_start(self, pace: Pace, now: float) -> bool:
        return pace.rate == math.inf or self._pause(pace, now) <= 0

    def _pause(self, pace: Pace, now: float) -> float:
        """Seconds until the rate allows another start."""
        return self.next_start - (rate_burst(pace.rate) - 1) / pace.rate - now

    def _retry_in(self, pace: Pace, now: float) -> float:
        firsts = [first[0] for lane in (GROUPED, PLAIN) if (first := self._first(lane))]
        if self.leases:
            firsts.append(self.leases[0][0])
        soonest = min(firsts, default=math.inf) - now
        if pace.rate < math.inf:
            soonest = max(soonest, self._pause(pace, now))
        return min(max(soonest, 0.0), ASK_AGAIN_S_MAX)

    def line_up(self, track: Track, now: float) -> None:
        """Enter the group in the order by the moment at which it is due, and wake a waiter."""
        moment = track.at()
        if moment == math.inf:
            track.place = None
            return
        track.place = (moment, next(self.ties))
        heapq.heappush(self.order[track.lane], (*track.place, track))
        self._wake(moment, now)

    def _wake(self, moment: float, now: float) -> None:
        if self.idle and moment < now + ASK_AGAIN_S_MAX:
            self.pokes.append(self.idle.popitem(last=False)[1])

    # -- settling --------------------------------------------------------------------------

    def reap(self, now: float) -> None:
        """Recover the deliveries whose leases have expired."""
        while self.leases and self.leases[0][0] <= now:
            expires, _, track = heapq.heappop(self.leases)
            loan = track.loan
            if loan is None or loan.expires != expires:
                continue
            row = track.rows[0]
            row.reason = EXPIRED_REASON.format(loan.take.owner)
            verdict = Verdict.RETRY
            if row.attempts >= loan.take.patience.attempts:
                verdict = Verdict.DEAD
            self._end(track, loan, verdict, expires, 0.0, now)

    def give_back(self, take: Take, now: float) -> int:
        """See :meth:`holdfast.core.queue.ports.Queues.give_back`."""
        self.reap(now)
        self._bury(take.id, take.ttl, now)
        tracks = self.taken.get(take.id, [])[:]
        for track in tracks:
            if track.loan is not None:
                self._end(track, track.loan, Verdict.RETURN, now, 0.0, now)
        waited = self.idle.pop(take.id, None) is not None
        if not (tracks or waited):
            self._wake(now + self._retry_in(take.pace, now), now)
        return len(tracks)

    def _bury(self, take: str, ttl: float, now: float) -> None:
        """Make a tombstone, so that a late copy of this take gets no job."""
        if len(self.tombs) >= self._tombs_look:  # rarely, because this reads all tombstones
            self.tombs = {one: until for one, until in self.tombs.items() if until > now}
            self._tombs_look = max(TOMBS_LOOK, 2 * len(self.tombs))
        self.tombs[take] = now + ttl + TOMB_S

    def settle(self, settle: Settle, now: float) -> bool:
        """See :meth:`holdfast.core.queue.ports.Queues.settle`; for one delivery of the batch."""
        self.reap(now)
        track = self._of(settle)
        if track is None or track.loan is None:
            return False
        if settle.suspect:
            self._bury(settle.take, settle.ttl, now)
        if settle.reason:
            track.rows[0].reason = settle.reason
        self._end(track, track.loan, settle.verdict, now, settle.delay, now)
        return True

    def extend(self, extend: Extend, now: float) -> Held | Gone:
        """See :meth:`holdfast.core.queue.ports.Queues.extend`; for one delivery of the batch."""
        self.reap(now)
        track = self._of(extend)
        if track is None or track.loan is None:
            return Gone(Loss.EXPIRED)
        loan = track.loan
        if now + extend.ttl > loan.expires:
            loan.expires = now + extend.ttl
            heapq.heappush(self.leases, (loan.expires, next(self.ties), track))
        return Held(loan.fence, extend.ttl)

    def _of(self, asked: Settle | Extend) -> Track | None:
        for track in self.taken.get(asked.take, ()):
            if track.rows[0].seq == asked.seq:
                return track
        return None

    def _end(
        self, track: Track, loan: Loan, verdict: Verdict, when: float, delay: float, now: float
    ) -> None:
        """End the delivery with this outcome. ``when``: the time at which it ended."""
        self.used = now
        track.loan = None
        mine = self.taken[loan.take.id]
        mine.remove(track)
        if not mine:
            del self.taken[loan.take.id]
        row = track.rows[0]
        if track.lane == GROUPED and loan.take.pace.start is Start.ACK:
            track.due = max(track.due, when + loan.take.pace.min_interval)
        if verdict is Verdict.ACK:
            self.done += 1
            track.rows.popleft()
            self.forget(row)
        elif verdict is Verdict.DEAD:
            row.dead = True
            self.dead[row.seq] = row
            if not (loan.take.patience.blocks and track.lane == GROUPED):
                track.rows.popleft()
        elif verdict is Verdict.RETRY:
            row.not_before = when + delay
        else:  # a released job is placed behind the jobs that are due already
            row.attempts -= 1
            row.not_before = when
        self.rest_or_line_up(track, row, now)

    def rest_or_line_up(self, track: Track, row: Row, now: float) -> None:
        """Update a group in the order, after a job has left it or can be delivered again."""
        track.place = None
        if track.rows:
            self.line_up(track, now)
        elif track.lane == GROUPED:
            heapq.heappush(self.resting, (track.due, next(self.ties), track))
        else:
            self.singles.pop(row.seq, None)

    def forgettable(self, now: float) -> bool:
        """True if the queue is empty, was unused for `LIFE_S`, and has nothing to remember."""
        if self.used + LIFE_S > now:
            return False
        self._tidy(now)
        there = self.tracks or self.singles or self.dead or self.taken
        buried = any(until > now for until in self.tombs.values())
        return not (there or self.idle or self.known or self.lanes or buried)

    def unused(self) -> bool:
        """True if the queue has never accepted a job, and has no waiter and no tombstone."""
        return not (self.accepted or self.idle or self.tombs)

    def mend(self, now: float) -> None:
        """Rebuild the derived state after an interruption in the middle of a verb."""
        self.order, self.leases, self.taken = ([], []), [], {}
        for track in itertools.chain(self.tracks.values(), self.singles.values()):
            if track.loan is not None:
                self.taken.setdefault(track.loan.take.id, []).append(track)
                heapq.heappush(self.leases, (track.loan.expires, next(self.ties), track))
            self.line_up(track, now)

    def forget(self, row: Row) -> None:
        """Forget a job that has ended; its id is remembered for the rest of its dedup window."""
        self.dead.pop(row.seq, None)
        if row.job.known:
            self.known[row.job.id] = row.known_until
            heapq.heappush(self.fading, (row.known_until, row.job.id))


def _delivered(track: Track, now: float) -> Delivered:
    row, loan = track.rows[0], track.loan
    fence = loan.fence if loan is not None else 0
    job = row.job
    age = now - row.accepted
    return Delivered(row.seq, job.id, job.group, job.payload, row.attempts, fence, age)
