"""The promises of serial queues, by name, checked while a history runs. A violation ends it."""

from __future__ import annotations

from typing import Any

from ....core.model import Loss
from ....core.queue.delivery import DeliveryBase
from ....core.queue.lease import DeliveryLease
from ....core.queue.model import Start, Verdict
from ....core.queue.queue import Options
from ....stores.memory.jobs import Row, Track
from ..trouble import Trouble, Violation
from ..watch import GRACE_S, UNDONE_S
from ..world import Process, World
from .server import QueueServer, tracks

#: Upper limit of the difference between the rates of two clocks.
RATE_ERROR = 0.01


class Loan:
    """A delivery that the workload got, and its state for the checks."""

    __slots__ = ("begun", "ended", "good", "job", "lost_seen", "process", "track")

    def __init__(self, process: Process, job: DeliveryBase, begun: float) -> None:
        self.process = process
        self.job = job
        self.begun = begun
        lease = self.lease
        #: Queue, and group or ungrouped job. Only one delivery at a time may exist for it.
        self.track = (lease.take.queue, job.group or f"single {lease.job.seq}")
        #: The time at which the worker stopped work on the job; None before that.
        self.ended: float | None = None
        self.lost_seen = False

    @property
    def lease(self) -> DeliveryLease:
        """The lease of the delivery."""
        return self.job._lease

    def believed(self) -> bool:
        """Return True if the delivery counts as valid now for its worker, by the worker's clock."""
        lease = self.lease
        return (
            self.ended is None
            and self.process.alive
            and lease.end is None
            and lease.reason is None
            and self.process.now() < lease.deadline
        )

    def over(self) -> float:
        """Return the time until which the delivery counted as valid for its worker."""
        if not self.process.alive:
            return self.begun
        deadline = (self.lease.deadline - self.process.offset) / self.process.rate
        return deadline if self.ended is None else min(self.ended, deadline)

    def __repr__(self) -> str:
        job = self.job
        what = f"fence {job.fence}, attempt {job.attempt}, {self.process!r}"
        return f"job {job.id} of {self.track[1]!r} ({what})"


class QueueWatch(Trouble):
    """Checks every put, delivery, validity check and settle of a history."""

    def __init__(self, world: World, server: QueueServer, options: dict[str, Options]) -> None:
        super().__init__(world)
        self.server = server
        self.options = options
        self.loans: dict[Any, list[Loan]] = {}
        #: Jobs that the store has accepted: id -> (queue, group, time of the reply).
        self.accepted: dict[str, tuple[str, str, float]] = {}
        #: (queue, group) -> (seq, time of the reply) of each accepted job of the group.
        self.order: dict[Any, list[tuple[int, float]]] = {}
        #: Id of a job -> the least number that its next attempt may have.
        self.attempts: dict[str, int] = {}
        #: Jobs that a worker has made dead letters.
        self.given_up: set[str] = set()
        #: Id of an interrupted take -> the time and the process; the deliveries of the take must
        #: end soon.
        self.abandoned: dict[str, tuple[float, Process]] = {}
        server.after_verb = self.server_side

    # -- the server's side -------------------------------------------------------------------

    def server_side(self) -> None:
        """After each verb, check that no interrupted take has a job, and no job has two acks."""
        now, time = self.server.now(), self.world.time
        # The server forgets a producer after an hour of its clock. If the clock was set forward, a
        # copy of a put counts as a new job.
        if self.server.acked_twice and self.forward < 0:
            raise Violation("acked once", f"job {self.server.acked_twice} was acked twice")
        for take, (since, process) in self.abandoned.items():
            if time < since + UNDONE_S or self.forward >= since - UNDONE_S:
                continue
            left = [
                track.loan
                for queue in self.server.queues.values()
                for track in queue.taken.get(take, ())
                if track.loan is not None and track.loan.expires > now
            ]
            if left and process.alive and not process.paused and not self.troubled(UNDONE_S):
                raise Violation("no leak", f"a take of {process!r} was interrupted, and has a job")

    def _row(self, queue: str, id_: str) -> tuple[Track, Row] | None:
        for track in tracks(self.server.queue(queue)):
            for row in track.rows:
                if row.job.id == id_:
                    return track, row
        return None

    # -- the clients' side -------------------------------------------------------------------

    def put(self, queue: str, group: str, id_: str, begun: float) -> None:
        """Record a job that the store accepted, and check its place; its put began at ``begun``."""
        self.accepted[id_] = (queue, group, self.world.time)
        found = self._row(queue, id_)
        if found is None or not group:
            return
        seq, known = found[1].seq, self.order.setdefault((queue, group), [])
        late = [(other, when) for other, when in known if when < begun and other > seq]
        if late:
            raise Violation("order", f"job {id_} was put after {late}, and comes before")
        known.append((seq, self.world.time))

    def delivered(self, process: Process, job: DeliveryBase, begun: float) -> Loan:
        """Record and check that a take that began at ``begun`` returns this delivery now."""
        loan = Loan(process, job, begun)
        lease = loan.lease
        if not loan.believed():
            raise Violation("local honesty", f"{loan} was returned when its deadline was past")
        known = self.loans.setdefault(loan.track, [])
        outdated = self.outdated(process, lease)
        others = [
            one for one in known if one.believed() and not self.outdated(one.process, one.lease)
        ]
        if others and not outdated:
            raise Violation("one at a time", f"{loan} was returned while {others} are believed")
        earlier = [one for one in known if one.begun < begun]
        newer = [one for one in earlier if one.job.fence >= job.fence and one.over() < begun]
        if newer and not outdated:
            raise Violation("fence order", f"{loan} has no greater fence than {newer}")
        later = [one for one in known if one.lease.job.seq > lease.job.seq]
        if job.group and later and not outdated:
            raise Violation("order", f"{loan} comes after a later one of its group")
        self._interval(loan, known)
        most = self.options[job.queue].patience.attempts
        least = self.attempts.get(job.id, 1)
        if not least <= job.attempt <= most and self.forward < 0:
            raise Violation("attempts", f"{loan} is attempt {job.attempt}, not {least} to {most}")
        if self.server.is_acked(job.id) and self.forward < 0:
            raise Violation("acked once", f"{loan} was acked before")
        known.append(loan)
        self.honest(loan)
        return loan

    def _interval(self, loan: Loan, known: list[Loan]) -> None:
        pace = self.options[loan.job.queue].pace
        if not (pace.min_interval and loan.job.group and known and pace.start is Start.ACK):
            return
        ends = [one.over() for one in known]
        since = self.world.time - max(ends)
        early = any(self.outdated(one.process, one.lease) for one in (loan, *known))
        if early or self.forward > max(ends) - loan.lease.ttl - pace.min_interval:
            return  # the store's clock was set forward, and by it the interval has passed
        if since < pace.min_interval * (1 - RATE_ERROR):
            raise Violation("interval", f"{loan} comes {since:.3f} s after the last one")

    def honest(self, loan: Loan) -> None:
        """Check that the server has a delivery that counts as valid for its worker."""
        lease = loan.lease
        if loan.lost_seen and lease.reason is None:
            raise Violation("no resurrection", f"{loan} was lost and is valid again")
        loan.lost_seen = loan.lost_seen or lease.reason is not None
        if not loan.believed():
            return
        some = self.server.queue(lease.take.queue).taken.get(lease.take.id, ())
        mine = [track.loan for track in some if track.rows and track.rows[0].seq == lease.job.seq]
        if mine and mine[0] is not None and mine[0].expires > self.server.now():
            return
        if self.outdated(loan.process, lease) and not self.told_late(loan.process, lease):
            return
        raise Violation("local honesty", f"{loan} is believed, but the server has no record")

    def looked(self, loan: Loan) -> None:
        """Check the validity of the delivery as its worker sees it now."""
        reason = loan.job.lost
        if reason in (Loss.EXPIRED, Loss.UNREACHABLE) and not loan.lost_seen:
            self._unexcused(loan)
        self.honest(loan)

    def _unexcused(self, loan: Loan) -> None:
        process, lease = loan.process, loan.lease
        total = self.unexplained(process, lease, lease.ttl)
        if total is not None and not self.outdated(process, lease):
            raise Violation("keep-alive", f"{loan} lost after {total:.2f} s of trouble")

    def worked(self, loan: Loan) -> None:
        """Record that the worker stops work on the delivery, after a last check."""
        self.looked(loan)
        self.left(loan)

    def left(self, loan: Loan) -> None:
        """Record that the worker stops work on the delivery, without a last check."""
        if loan.ended is None:
            loan.ended = self.world.time

    def settled(self, loan: Loan, verdict: Verdict, kept: bool) -> None:
        """Check ``kept``, the result of settling the delivery by ``verdict``."""
        lease = loan.lease
        if not kept:
            return
        known = self.server.settled.get((lease.take.id, lease.job.seq))
        if known is None and not self.outdated(loan.process, lease):
            raise Violation("no false answer", f"{loan}: {verdict} counts, but the server has none")
        if verdict is Verdict.DEAD:
            self.given_up.add(loan.job.id)
        least = loan.job.attempt + (verdict is Verdict.RETRY)
        self.attempts[loan.job.id] = max(self.attempts.get(loan.job.id, 1), least)

    def interrupted(self, process: Process, take: str) -> None:
        """Record that a take ended with an exception."""
        self.abandoned[take] = self.world.time, process

    def in_time(self, process: Process, begun: float, timeout: float, stopped: float) -> None:
        """Check that a take with a time-out has returned in time."""
        if self.over:
            return
        took = (self.world.time - begun - (process.stopped_for - stopped)) * process.rate
        if took > timeout + 1.0 + GRACE_S:  # the last request has the limit of a try, a second
            raise Violation("bounded waiting", f"timeout {timeout:.3f} s took {took:.3f} s")

    def at_the_end(self) -> None:
        """Check after all tasks and faults have ended that no accepted job is lost."""
        for name, queue in self.server.queues.items():
            for row in queue.dead.values():
                spent = row.attempts >= self.options[name].patience.attempts
                if not spent and row.job.id not in self.given_up and not row.reason:
                    raise Violation("attempts", f"job {row.job.id} is dead before its time")
        for id_, (name, group, _) in self.accepted.items():
            if self.server.is_acked(id_) or id_ in self._dead(name):
                continue
            track = self.server.queue(name).tracks.get(group)
            if track is not None and track.rows and track.rows[0].dead:
                continue  # it waits behind a dead letter that blocks its group
            raise Violation("nothing lost", f"job {id_} of {group!r} was accepted, and is gone")

    def _dead(self, name: str) -> set[str]:
        return {row.job.id for row in self.server.queue(name).dead.values()}
