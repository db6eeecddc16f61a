"""The verbs of serial queues in one transaction. ``stores/memory/jobs.py`` defines them.

The caller begins and ends the transaction. After the commit, it wakes the number of waiters in
``wakes``.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

from .....core.model import Gone, Held, Loss
from .....core.policy import ASK_AGAIN_S_MAX, TOMB_S
from .....core.queue.model import (
    Delivered,
    Extend,
    Pace,
    Settle,
    Start,
    Take,
    Taken,
    Verdict,
)
from .....core.queue.policy import EXPIRED_REASON, rate_burst
from ..odd import Unsound
from ..sql import jobs as statements
from .books import called
from .rows import GROUPED, PLAIN, Loan, QueueRow

#: Maximum number of deliveries with expired leases that one verb recovers; the next verb continues.
REAP_MAX = 1000
#: Maximum number of sessions of other workers that one take checks.
SESSIONS_MAX = 128
#: Maximum number of expired rows that are removed for each new row that can expire.
FADE = 2

_SQL = statements()


class Jobs:
    """The queues in one transaction; ``now`` is its time on the clock of the queues."""

    def __init__(self, run: Callable[..., sqlite3.Cursor], now: float) -> None:
        self.run = run
        self.now = now
        self._queues: dict[str, QueueRow] = {}
        #: By the name of a queue: the values of its row in the database.
        self._saved: dict[str, tuple[Any, ...]] = {}
        #: By the name of a queue: the number of its waiters to wake.
        self.wakes: dict[str, int] = {}

    # -- queues ----------------------------------------------------------------------------

    def queue(self, name: str) -> QueueRow | None:
        """The queue of this name, if there is one."""
        found = self._queues.get(name)
        if found is None:
            row = self.run(_SQL.queue, (name,)).fetchone()
            if row is not None:
                self._saved[name] = row
                found = self._queues[name] = QueueRow(*row)
        return found

    def have(self, name: str) -> QueueRow:
        """Return the queue of this name; make it if there is none."""
        found = self.queue(name)
        if found is None:
            made = self.run(_SQL.queue_new, (name,)).lastrowid
            assert made is not None
            found = self._queues[name] = QueueRow(made, name)
        return found

    def save(self) -> None:
        """Write the changed rows of the queues; the last step before the commit."""
        for name, queue in self._queues.items():
            row = queue.values()
            if self._saved.get(name) != row:
                self.run(_SQL.queue_save, row)

    def point(self) -> dict[str, QueueRow]:
        """A copy of the current queues, for `back_to`."""
        return {name: copy(queue) for name, queue in self._queues.items()}

    def back_to(self, point: dict[str, QueueRow]) -> None:
        """Restore the queues of this copy."""
        self._queues = point

    def job(self, what: str, job: int) -> Any:
        """Return the row that the statement ``what`` reads for a job; raise if there is no such
        job."""
        row = self.run(what, (job,)).fetchone()
        if row is None:
            names = {queue.id: queue.name for queue in self._queues.values()}
            raise Unsound(f"{called(job, names)} is gone, although it is due or delivered")
        return row

    def group(self, grp: int) -> Any:
        """Return the end of a group's rest, and its number of jobs; raise if the group is gone."""
        row = self.run(_SQL.group_get, (grp,)).fetchone()
        if row is None:
            raise Unsound(f"the group {grp} is gone, although it has jobs")
        return row

    # -- taking ----------------------------------------------------------------------------

    def take(self, take: Take, session: str, dead: Callable[[str], bool]) -> Taken:
        """See :meth:`holdfast.core.queue.ports.Queues.take`. ``dead(session)``: has this session
        ended? The deliveries of an ended session are recovered before their leases expire."""
        queue = self.queue(take.queue)
        if queue is None:
            return Taken((), ASK_AGAIN_S_MAX)
        self.reap(queue)
        mine = self._of_take(queue, take.id)
        if not mine and not self.given_up(take):
            mine = [*self._lend(queue, take, session)]
            if not mine and self._bury(queue, session, dead):
                mine = [*self._lend(queue, take, session)]
        if mine:
            return Taken(tuple(self._delivered(loan) for loan in mine), 0.0)
        return Taken((), self._retry_in(queue, take.pace))

    def given_up(self, take: Take) -> bool:
        """Does this take have a tombstone? Then this request is a late copy."""
        return self.run(_SQL.tomb_there, (take.id, self.now)).fetchone() is not None

    def _of_take(self, queue: QueueRow, take: str) -> list[Loan]:
        found = [Loan(*row) for row in self.run(_SQL.loans_of_take, (take,))]
        return [loan for loan in found if loan.queue == queue.id]

    def _lend(self, queue: QueueRow, take: Take, session: str) -> Iterator[Loan]:
        pace, now, run = take.pace, self.now, self.run
        for _ in range(take.most):
            if pace.rate < math.inf and self._pause(queue, pace) > 0:
                return
            first = self._next(queue)
            if first is None:
                return
            due, job, grp = first
            run(_SQL.ready_drop, (queue.lane(grp), due, job))
            _, attempts, _, _ = self.job(_SQL.job_end, job)
            rest = None if pace.start is Start.TAKE or not grp else pace.min_interval
            if grp and pace.start is Start.TAKE:
                run(_SQL.group_due, (grp, now + pace.min_interval))
            loan = Loan(
                job,
                queue.id,
                grp,
                take.id,
                queue.next_fence(now),
                now + take.ttl,
                attempts + 1,
                rest,
                take.patience.attempts,
                int(take.patience.blocks),
                take.owner,
                session,
            )
            run(_SQL.loan_new, loan)
            queue.waiting -= 1
            queue.taken += 1
            queue.used = now
            if pace.rate < math.inf:
                queue.next_start = max(queue.next_start, now) + 1 / pace.rate
            yield loan

    def _next(self, queue: QueueRow) -> tuple[float, int, int] | None:
        """Return (due, job, group) of the next job, or None. Groups and ungrouped jobs take turns,
        so that neither kind delays the other."""
        for lane in (queue.turn, 1 - queue.turn):
            row: tuple[float, int, int] | None
            row = self.run(_SQL.ready_next, (queue.id * 2 + lane,)).fetchone()
            if row is not None and row[0] <= self.now:
                queue.turn = 1 - lane
                return row
        return None

    def _delivered(self, loan: Loan) -> Delivered:
        job_id, group, payload, _, accepted = self.job(_SQL.job_get, loan.job)
        age = self.now - accepted
        return Delivered(loan.job, job_id, group, payload, loan.attempt, loan.fence, age)

    def _pause(self, queue: QueueRow, pace: Pace) -> float:
        """Seconds until the rate allows another start."""
        return queue.next_start - (rate_burst(pace.rate) - 1) / pace.rate - self.now

    def _retry_in(self, queue: QueueRow, pace: Pace) -> float:
        moments = []
        for lane in (GROUPED, PLAIN):
            row = self.run(_SQL.ready_next, (queue.id * 2 + lane,)).fetchone()
            if row is not None:
                moments.append(row[0])
        (expires,) = self.run(_SQL.loan_next, (queue.id,)).fetchone()
        if expires is not None:
            moments.append(expires)
        soonest: float = min(moments, default=math.inf) - self.now
        if pace.rate < math.inf:
            soonest = max(soonest, self._pause(queue, pace))
        return min(max(soonest, 0.0), ASK_AGAIN_S_MAX)

    # -- settling --------------------------------------------------------------------------

    def reap(self, queue: QueueRow) -> None:
        """Recover the deliveries whose leases have expired."""
        for row in self.run(_SQL.loans_over, (queue.id, self.now, REAP_MAX)).fetchall():
            self._expire(queue, Loan(*row), row[5])

    def _bury(self, queue: QueueRow, own: str, dead: Callable[[str], bool]) -> bool:
        """Recover the deliveries of ended sessions; return True if there was any."""
        found = False
        for (session,) in self.run(_SQL.sessions, (queue.id, SESSIONS_MAX)).fetchall():
            if session != own and dead(session):
                for row in self.run(_SQL.loans_of_session, (queue.id, session)).fetchall():
                    self._expire(queue, Loan(*row), self.now)
                    found = True
        return found

    def _expire(self, queue: QueueRow, loan: Loan, when: float) -> None:
        verdict = Verdict.DEAD if loan.attempt >= loan.last else Verdict.RETRY
        self._end(queue, loan, verdict, when, 0.0, EXPIRED_REASON.format(loan.owner))

    def give_back(self, take: Take) -> int:
        """See :meth:`holdfast.core.queue.ports.Queues.give_back`."""
        self._bar(take.id, take.ttl)
        queue = self.queue(take.queue)
        if queue is None:
            return 0
        self.reap(queue)
        mine = self._of_take(queue, take.id)
        for loan in mine:
            self._end(queue, loan, Verdict.RETURN, self.now, 0.0, None)
        if not mine:  # it may have received a wake-up, which is passed on here
            self.wake(queue, [self.now + self._retry_in(queue, take.pace)])
        return len(mine)

    def _bar(self, take: str, ttl: float) -> None:
        self.run(_SQL.tombs_fade, (self.now, FADE))
        self.run(_SQL.tomb_add, (take, self.now + ttl + TOMB_S))

    def settle(self, settle: Settle) -> bool:
        """See :meth:`holdfast.core.queue.ports.Queues.settle`; for one delivery of the batch."""
        queue = self.queue(settle.queue)
        loan = None if queue is None else self._on_loan(queue, settle)
        if queue is None or loan is None:
            return False
        if settle.suspect:
            self._bar(settle.take, settle.ttl)
        self._end(queue, loan, settle.verdict, self.now, settle.delay, settle.reason or None)
        return True

    def extend(self, extend: Extend) -> Held | Gone:
        """See :meth:`holdfast.core.queue.ports.Queues.extend`; for one delivery of the batch."""
        queue = self.queue(extend.queue)
        loan = None if queue is None else self._on_loan(queue, extend)
        if loan is None:
            return Gone(Loss.EXPIRED)
        if self.now + extend.ttl > loan.expires:
            self.run(_SQL.loan_extend, (loan.job, self.now + extend.ttl))
        return Held(loan.fence, extend.ttl)

    def _on_loan(self, queue: QueueRow, asked: Settle | Extend) -> Loan | None:
        """Return the delivery that a request names, or None if it has ended. A delivery whose lease
        has expired is recovered first."""
        row = self.run(_SQL.loan_get, (asked.seq,)).fetchone()
        if row is None:
            return None
        loan = Loan(*row)
        if loan.take != asked.take or loan.queue != queue.id:
            return None
        if loan.expires <= self.now:
            self.reap(queue)
            return None
        return loan

    def _end(
        self,
        queue: QueueRow,
        loan: Loan,
        verdict: Verdict,
        when: float,
        delay: float,
        reason: str | None,
    ) -> None:
        """End the delivery with this outcome. ``when``: the time at which it ended."""
        run, job, grp = self.run, loan.job, loan.grp
        run(_SQL.loan_drop, (job,))
        queue.taken -= 1
        due, attempts, job_id, until = self.job(_SQL.job_end, job)
        rested, size = self.group(grp) if grp else (0.0, 0)
        if loan.rest is not None:
            rested = max(rested, when + loan.rest)
        if verdict is Verdict.ACK:
            queue.done += 1
            size -= 1
            self._forget(queue, job, job_id, until)
        elif verdict is Verdict.DEAD:
            queue.dead += 1
            apart = not (loan.blocks and grp)
            run(_SQL.job_dead, (job, int(apart), loan.attempt, reason))
        else:
            queue.waiting += 1
            due = max(due, when + delay)  # a released job, too, gets its place by this time
            if verdict is Verdict.RETRY:
                attempts = loan.attempt
            run(_SQL.job_later, (job, due, attempts, reason))
            if not grp:
                self.line_up(queue, due, job, 0)
        if grp:
            self._keep_group(queue, grp, rested, size)
            self._lead(queue, grp, rested)

    def _forget(self, queue: QueueRow, job: int, job_id: str, until: float | None) -> None:
        """Remove a job; an id that its producer chose is remembered until the dedup window ends."""
        self.run(_SQL.job_drop, (job,))
        if until is not None and until > self.now:
            self.run(_SQL.known_add, (queue.id, job_id, until))

    def _keep_group(self, queue: QueueRow, grp: int, rested: float, size: int) -> None:
        """Save a group with ``size`` jobs; an empty one is kept until its interval has passed."""
        queue.groups -= not size
        if not size and rested <= self.now:
            self.run(_SQL.group_drop, (grp,))
        else:
            self.run(_SQL.group_save, (grp, rested, size))

    def drop(self, queue: QueueRow, job: int, grp: int) -> None:
        """Remove a job that isn't delivered and has no place in the order."""
        _, _, job_id, until = self.job(_SQL.job_end, job)
        self._forget(queue, job, job_id, until)
        if grp:
            rested, size = self.group(grp)
            self._keep_group(queue, grp, rested, size - 1)

    # -- the order in which jobs are served --------------------------------------------------

    def line_up_group(self, queue: QueueRow, grp: int) -> None:
        """Enter a group in the order, unless its first job is delivered or it has no job."""
        first = self.run(_SQL.first, (grp,)).fetchone()
        if first is not None and not self.run(_SQL.loan_there, (first[0],)).fetchone():
            rested, _ = self.group(grp)
            self._lead(queue, grp, rested)

    def _lead(self, queue: QueueRow, grp: int, rested: float) -> None:
        """Enter the first job of the group in the order, unless the job is a dead letter."""
        first = self.run(_SQL.first, (grp,)).fetchone()
        if first is not None and not first[2]:
            self.line_up(queue, max(first[1], rested), first[0], grp)

    def line_up(self, queue: QueueRow, moment: float, job: int, grp: int) -> None:
        """Enter a job in the order, and wake a waiter."""
        self.run(_SQL.ready_add, (queue.lane(grp), moment, job, grp))
        self.wake(queue, [moment])

    def take_out(self, queue: QueueRow, job: int, moment: float, grp: int) -> None:
        """Remove a job from the order, if it is there."""
        self.run(_SQL.ready_drop, (queue.lane(grp), moment, job))

    def take_out_group(self, queue: QueueRow, grp: int) -> None:
        """Remove the first job of a group from the order, if it is there."""
        first = self.run(_SQL.first, (grp,)).fetchone()
        if first is not None:
            rested, _ = self.group(grp)
            self.take_out(queue, first[0], max(first[1], rested), grp)

    def wake(self, queue: QueueRow, moments: list[float]) -> None:
        """Plan a wake-up for each of these times at which a job is due, if that time comes soon."""
        soon = self.now + ASK_AGAIN_S_MAX
        count = sum(moment < soon for moment in moments)
        if count:
            self.wakes[queue.name] = self.wakes.get(queue.name, 0) + count
