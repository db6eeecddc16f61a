"""The verbs of serial queues as one client runs them, on the caller's thread.

The queues have separate files next to those of the locks, and a separate file mutex: a put waits
for the disk, and must not delay a lock. Each verb takes this file mutex once, for one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from .....core.model import Gone, Held
from .....core.queue.model import (
    Extend,
    JobRecord,
    JobState,
    Put,
    QueueRecord,
    Settle,
    Take,
    Taken,
)
from ..annex import AnnexEngine
from ..database import full
from ..gate import Gate, Replaced
from ..header import Header
from ..odd import UNREADABLE, unreadable
from ..paths import Place
from ..place import QUEUES
from . import look, putting
from .files import JobFiles, remedy
from .jobs import Jobs

A = TypeVar("A")
T = TypeVar("T")


class JobEngine(AnnexEngine[JobFiles]):
    """One client's access to one database of queues, which its first verb opens."""

    suffix = QUEUES
    what = "queues"

    def _made(self, place: Place, gate: Gate, header: Header, now: float) -> JobFiles:
        self.remedy = remedy(self.url)
        return JobFiles(place, gate, header, self.url, now)

    # -- the verbs ---------------------------------------------------------------------------

    def put(self, put: Put, within: float) -> list[bool]:
        """See :meth:`holdfast.core.queue.ports.Queues.put`."""
        return self._do(within, lambda jobs, _: putting.put(jobs, put), durable=True)

    def take(self, take: Take, within: float) -> Taken:
        """See :meth:`holdfast.core.queue.ports.Queues.take`."""

        def work(jobs: Jobs, files: JobFiles) -> Taken:
            session = self._have_session(files, jobs.now)
            taken = jobs.take(take, session, files.others.dead)
            if take.wait and not (taken.deliveries or jobs.given_up(take)):
                self._listen(files, take.queue, take.id, jobs.now)
            else:
                self.unlisten(take.id)
            return taken

        return self._do(within, work)

    def give_back(self, take: Take, within: float) -> int:
        """See :meth:`holdfast.core.queue.ports.Queues.give_back`."""

        def work(jobs: Jobs, _: JobFiles) -> int:
            self.unlisten(take.id)
            return jobs.give_back(take)

        return self._do(within, work)

    def settle(self, settles: Sequence[Settle], within: float) -> list[bool | Exception]:
        """See :meth:`holdfast.core.queue.ports.Queues.settle`."""
        return self._do(
            within, lambda jobs, _: [self._alone(jobs, jobs.settle, one) for one in settles]
        )

    def extend(self, extends: Sequence[Extend], within: float) -> list[Held | Gone | Exception]:
        """See :meth:`holdfast.core.queue.ports.Queues.extend`."""
        return self._do(
            within, lambda jobs, _: [self._alone(jobs, jobs.extend, one) for one in extends]
        )

    def revive(self, queue: str, ids: Sequence[str] | None, within: float) -> int:
        """See :meth:`holdfast.core.queue.ports.Queues.revive`."""
        return self._do(within, lambda jobs, _: look.revive(jobs, queue, ids), durable=True)

    def purge(
        self,
        queue: str,
        state: JobState | None,
        ids: Sequence[str] | None,
        most: int,
        within: float,
    ) -> int:
        """See :meth:`holdfast.core.queue.ports.Queues.purge`."""
        return self._do(
            within, lambda jobs, _: look.purge(jobs, queue, state, ids, most), durable=True
        )

    def survey(self, prefix: str, exact: bool, within: float) -> list[QueueRecord]:
        """See :meth:`holdfast.core.queue.ports.Queues.survey`."""
        return self._see(within, lambda jobs: look.survey(jobs.run, prefix, exact, jobs.now))

    def jobs(
        self, queue: str, state: JobState | None, group: str | None, most: int, within: float
    ) -> list[JobRecord]:
        """See :meth:`holdfast.core.queue.ports.Queues.jobs`."""
        return self._see(within, lambda jobs: look.jobs(jobs, queue, state, group, most))

    def letters(self, queue: str, within: float) -> list[str]:
        """See :meth:`holdfast.core.queue.ports.Queues.letters`."""
        return self._see(within, lambda jobs: look.letters(jobs, queue))

    # -- a transaction -----------------------------------------------------------------------

    def _do(self, within: float, work: Callable[[Jobs, JobFiles], T], durable: bool = False) -> T:
        """Do one transaction inside the file mutex; then wake the waiters for its jobs."""
        answer: T = self._inside(within, self._transact, work, durable)
        return answer

    def _transact(
        self, files: JobFiles, now: float, work: Callable[[Jobs, JobFiles], T], durable: bool
    ) -> T:
        if files.moved():
            raise Replaced
        files.database.sync(durable)
        try:
            answer = self._commit(files, now, work)
        except sqlite3.OperationalError as wrong:
            if files.moved():  # another client may be writing inside a new file mutex
                raise Replaced from wrong
            if durable or not full(wrong):
                raise
            # A full disk accepts no new job, but existing jobs can be settled: the log is copied
            # back into the database, then written from its beginning again, which takes no space.
            files.connection.rollback()
            files.run("PRAGMA wal_checkpoint(RESTART)").fetchall()
            answer = self._commit(files, now, work)
        # This check is last, because a write to a replaced database is lost. If only the file mutex
        # was deleted, other clients find the committed rows.
        if files.replaced():
            raise Replaced
        return answer

    def _commit(self, files: JobFiles, now: float, work: Callable[[Jobs, JobFiles], T]) -> T:
        jobs = Jobs(files.run, now + files.offset)
        files.run("BEGIN")
        answer = work(jobs, files)
        jobs.save()
        self._outbox.extend(jobs.wakes.items())  # before the commit, as an interrupt may follow it
        files.run("COMMIT")
        return answer

    def _alone(self, jobs: Jobs, work: Callable[[A], T], asked: A) -> T | Exception:
        """Do one request of a batch; its error doesn't affect the others."""
        kept = jobs.point()
        jobs.run("SAVEPOINT one")
        try:
            answer: T | Exception = work(asked)
        except UNREADABLE as wrong:
            jobs.run("ROLLBACK TO one")
            jobs.back_to(kept)
            answer = unreadable(wrong, self.label, self.remedy)
        jobs.run("RELEASE one")
        return answer

    def _see(self, within: float, work: Callable[[Jobs], T]) -> T:
        """Read a snapshot; the file mutex is held only while the snapshot begins."""

        def look_in(files: JobFiles, now: float) -> T:
            if files.moved():
                raise Replaced
            jobs = Jobs(files.run, now + files.offset)
            files.run("BEGIN")
            jobs.queue("")
            files.gate.exit()
            return work(jobs)

        return self._inside(within, look_in)

    def _flush(self) -> None:
        """Wake waiters for the jobs that are due, or soon will be."""
        for queue, count in self._unsent():
            files = self._files
            if files is not None:
                files.ears.rouse(queue, count, files.post)
