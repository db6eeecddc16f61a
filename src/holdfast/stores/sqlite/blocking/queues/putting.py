"""Accept jobs: all their rows are written in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .....core.queue.model import Job, Put
from .....errors import StoreUnavailable
from ..sql import jobs as statements
from .jobs import FADE, Jobs
from .rows import QueueRow

#: Seconds from the last put of a producer until the producer is forgotten.
LANE_S = 3600.0
_SQL = statements()


@dataclass(slots=True)
class _Group:
    """A group, for the length of one put."""

    id: int = 0
    due: float = 0.0
    size: int = 0
    #: Does the group have a first job already?
    led: bool = False


def put(jobs: Jobs, put: Put) -> list[bool]:
    """See :meth:`holdfast.core.queue.ports.Queues.put`."""
    queue = jobs.have(put.queue)
    lane = f"{queue.id}:{put.lane}"
    number, answers = jobs.run(_SQL.lane_get, (lane,)).fetchone() or (0, "")
    if put.number < number:
        raise StoreUnavailable("a copy of an earlier put came late, and changes nothing")
    if put.number > number:
        _fade(jobs, len(put.jobs))
        answers = _accept(jobs, queue, put)
    jobs.run(_SQL.lane_save, (lane, put.number, jobs.now, answers))
    queue.used = jobs.now
    return [one == "1" for one in answers]


def _fade(jobs: Jobs, count: int) -> None:
    """Remove some expired records: more than this put adds."""
    jobs.run(_SQL.lanes_fade, (jobs.now - LANE_S, FADE))
    jobs.run(_SQL.known_fade, (jobs.now, FADE * count))
    jobs.run(_SQL.groups_rested, (jobs.now, FADE * count))


def _accept(jobs: Jobs, queue: QueueRow, put: Put) -> str:
    """Accept the jobs; return for each one, in order, 1 if it is new, else 0."""
    groups: dict[str, _Group] = {}
    moments: list[float] = []
    answers = ""
    for job in put.jobs:
        if job.known and _is_known(jobs, queue, job):
            answers += "0"
            continue
        number, due = queue.next_job(), jobs.now + job.delay
        group = groups.get(job.group)
        if group is None:
            group = groups[job.group] = _group(jobs, queue, job.group)
        until = jobs.now + put.window if job.known else None
        row = (number, job.id, group.id, jobs.now, due, until, job.payload)
        jobs.run(_SQL.job_new, row)
        group.size += 1
        if not group.led:
            moments.append(max(due, group.due))
            jobs.run(_SQL.ready_add, (queue.lane(group.id), moments[-1], number, group.id))
            group.led = bool(job.group)
        answers += "1"
        queue.accepted += 1
        queue.waiting += 1
    for name, group in groups.items():
        if name:
            jobs.run(_SQL.group_save, (group.id, group.due, group.size))
    jobs.wake(queue, moments)
    return answers


def _is_known(jobs: Jobs, queue: QueueRow, job: Job) -> bool:
    values: tuple[Any, ...] = (queue.id, job.id, *queue.range(), jobs.now)
    return jobs.run(_SQL.known_there, values).fetchone() is not None


def _group(jobs: Jobs, queue: QueueRow, name: str) -> _Group:
    """Return the group of this name; make it if necessary. For the name '', return a placeholder,
    because an ungrouped job has no row of a group."""
    if not name:
        return _Group()
    row = jobs.run(_SQL.group_find, (queue.id, name)).fetchone()
    if row is None:
        made = jobs.run(_SQL.group_new, (queue.id, name, 0.0)).lastrowid
        queue.groups += 1
        assert made is not None
        return _Group(made)
    group = _Group(*row)
    if group.size:
        group.led = jobs.run(_SQL.first, (group.id,)).fetchone() is not None
    else:
        queue.groups += 1
    return group
