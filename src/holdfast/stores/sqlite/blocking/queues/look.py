"""The verbs that inspect queues, retry dead letters and remove jobs.

``stores/memory/jobs_look.py`` defines them.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .....core.queue.model import BATCH_MAX, JobRecord, JobState, QueueRecord
from ..look import names
from ..sql import jobs as statements
from .jobs import Jobs
from .rows import QueueRow

_SQL = statements()
_STANDS = {
    None: "",
    JobState.WAITING: _SQL.listed_waiting,
    JobState.DELAYED: _SQL.listed_delayed,
    JobState.TAKEN: _SQL.listed_taken,
    JobState.DEAD: _SQL.listed_dead,
}
#: The rows of ``listed`` without the payloads, which can be large.
_BARE = _SQL.listed.replace("j.payload", "NULL")
#: Indices of columns in a row of ``listed``.
_JOB, _DUE, _DEAD, _GROUP = 0, 6, 10, 11


def survey(
    run: Callable[..., sqlite3.Cursor], prefix: str, exact: bool, now: float
) -> list[QueueRecord]:
    """See :meth:`holdfast.core.queue.ports.Queues.survey`."""
    found = [QueueRow(*row) for row in run(_SQL.queues_from, names(prefix, exact)).fetchall()]
    return [_survey(run, queue, now) for queue in found]


def _survey(run: Callable[..., sqlite3.Cursor], queue: QueueRow, now: float) -> QueueRecord:
    oldest = run(_SQL.oldest, queue.range()).fetchone() if queue.waiting else None
    waiting, taken, dead, groups, accepted, done = map(
        int, (queue.waiting, queue.taken, queue.dead, queue.groups, queue.accepted, queue.done)
    )
    age = now - oldest[0] if oldest else 0.0
    return QueueRecord(queue.name, waiting, taken, dead, groups, age, accepted, done)


def jobs(
    jobs: Jobs, name: str, state: JobState | None, group: str | None, most: int
) -> list[JobRecord]:
    """See :meth:`holdfast.core.queue.ports.Queues.jobs`."""
    queue = jobs.queue(name)
    if queue is None:
        return []
    where, value = _STANDS[state], None
    if group is not None:
        row = jobs.run(_SQL.group_find, (queue.id, group)).fetchone() if group else (0,)
        if row is None:
            return []
        where, value = f"{where} {_SQL.listed_in_group if group else _SQL.listed_by_group}", row[0]
    found = _listed(jobs, queue, _SQL.listed, where, value, most)
    return [_record(row, jobs.now) for row in found]


def _listed(
    jobs: Jobs, queue: QueueRow, what: str, where: str, value: object, most: int
) -> list[tuple[Any, ...]]:
    sql = f"{what} {where} {_SQL.listed_order}"  # constants, all of them
    return jobs.run(sql, (*queue.range(), jobs.now, value, most)).fetchall()


def _record(row: tuple[Any, ...], now: float) -> JobRecord:
    _, job_id, group, payload, attempts, accepted, due, expires, owner, reason, dead, _ = row
    state, due_in, expires_in = JobState.WAITING, 0.0, 0.0
    if dead:
        state = JobState.DEAD
    elif expires is not None:
        state, expires_in = JobState.TAKEN, max(expires - now, 0.0)
    elif due > now:
        state, due_in = JobState.DELAYED, due - now
    times = (attempts, now - accepted, due_in, expires_in)
    return JobRecord(job_id, group, state, payload, *times, owner, reason)


def letters(jobs: Jobs, name: str) -> list[str]:
    """See :meth:`holdfast.core.queue.ports.Queues.letters`."""
    queue = jobs.queue(name)
    if queue is None:
        return []
    return [one for (one,) in jobs.run(_SQL.letters, queue.range()).fetchall()]


def revive(jobs: Jobs, name: str, ids: Sequence[str] | None) -> int:
    """See :meth:`holdfast.core.queue.ports.Queues.revive`."""
    queue = jobs.queue(name)
    if queue is None:
        return 0
    jobs.reap(queue)
    found = _meant(jobs, queue, _SQL.listed_dead, ids, BATCH_MAX)
    for row in found:
        job, grp = row[_JOB], row[_GROUP]
        (apart,) = jobs.run(_SQL.job_apart, (job,)).fetchone()
        number = queue.next_job() if grp and apart else job
        jobs.run(_SQL.job_revive, (job, number, jobs.now))
        queue.dead -= 1
        queue.waiting += 1
        if grp:
            jobs.line_up_group(queue, grp)
        else:
            jobs.line_up(queue, jobs.now, number, 0)
    return len(found)


def purge(
    jobs: Jobs, name: str, state: JobState | None, ids: Sequence[str] | None, most: int
) -> int:
    """See :meth:`holdfast.core.queue.ports.Queues.purge`."""
    queue = jobs.queue(name)
    if queue is None or state is JobState.TAKEN:
        return 0
    jobs.reap(queue)
    where = f"{_STANDS[state]} {_SQL.listed_not_taken}"
    found = _meant(jobs, queue, where, ids, min(most, BATCH_MAX))
    groups = {row[_GROUP] for row in found if row[_GROUP]}
    for grp in groups:
        jobs.take_out_group(queue, grp)
    for row in found:
        job, grp = row[_JOB], row[_GROUP]
        if not grp:
            jobs.take_out(queue, job, row[_DUE], 0)
        if row[_DEAD]:
            queue.dead -= 1
        else:
            queue.waiting -= 1
        jobs.drop(queue, job, grp)
    for grp in groups:
        jobs.line_up_group(queue, grp)
    return len(found)


def _meant(
    jobs: Jobs, queue: QueueRow, where: str, ids: Sequence[str] | None, most: int
) -> list[tuple[Any, ...]]:
    """Return the rows of at most ``most`` jobs, with these ids, or with any id if ``ids`` is
    None."""
    if ids is None:
        return _listed(jobs, queue, _BARE, where, None, most)
    return list(itertools.islice(_by_ids(jobs, queue, where, ids), most))


def _by_ids(
    jobs: Jobs, queue: QueueRow, where: str, ids: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    for job_id in dict.fromkeys(ids):
        yield from _listed(jobs, queue, _BARE, f"{where} {_SQL.listed_by_id}", job_id, 1)
