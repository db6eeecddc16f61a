"""Inspect a queue in memory, retry its dead letters, and remove its jobs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ...core.queue.model import BATCH_MAX, JobRecord, JobState, QueueRecord
from .jobs import GROUPED, PLAIN, Queue, Row, Track


def records(queue: Queue, now: float) -> list[JobRecord]:
    """Return all jobs in the order of acceptance."""
    return [_record(track, row, now) for track, row in _rows(queue, now)]


def survey(name: str, queue: Queue, now: float) -> QueueRecord:
    """Return the record of the queue."""
    found = records(queue, now)
    taken = sum(one.state is JobState.TAKEN for one in found)
    dead = sum(one.state is JobState.DEAD for one in found)
    waits = [one.age for one in found if one.state in (JobState.WAITING, JobState.DELAYED)]
    groups = len({one.group for one in found if one.group})
    sizes = (len(waits), taken, dead, groups)
    return QueueRecord(name, *sizes, max(waits, default=0.0), queue.accepted, queue.done)


def letters(queue: Queue, now: float) -> list[str]:
    """See :meth:`holdfast.core.queue.ports.Queues.letters`."""
    queue.reap(now)
    return [row.job.id for row in queue.dead.values()]


def revive(queue: Queue, ids: Sequence[str] | None, now: float) -> int:
    """See :meth:`holdfast.core.queue.ports.Queues.revive`."""
    queue.reap(now)
    wanted = None if ids is None else frozenset(ids)
    letters = (one for one in queue.dead.values() if wanted is None or one.job.id in wanted)
    rows = [*itertools.islice(letters, BATCH_MAX)]
    for row in rows:
        del queue.dead[row.seq]
        row.dead, row.attempts, row.not_before = False, 0, now
        track = _track_for(queue, row)
        if row not in track.rows:
            if track.lane == GROUPED:
                row.seq = next(queue.seqs)
            track.rows.append(row)
        if track.rows[0] is row:
            queue.line_up(track, now)
    return len(rows)


def purge(
    queue: Queue, state: JobState | None, ids: Sequence[str] | None, most: int, now: float
) -> int:
    """See :meth:`holdfast.core.queue.ports.Queues.purge`."""
    gone = 0
    for track, row in _rows(queue, now):
        stands = _record(track, row, now).state
        if stands is JobState.TAKEN or (ids is not None and row.job.id not in ids):
            continue
        if state is None or stands is state:
            _take_out(queue, track, row, now)
            gone += 1
            if gone == min(most, BATCH_MAX):
                break
    return gone


def _rows(queue: Queue, now: float) -> list[tuple[Track | None, Row]]:
    """Return all jobs in the order of acceptance, each with its group, or with None if it is a dead
    letter that has left its group."""
    queue.reap(now)
    found: dict[int, tuple[Track | None, Row]] = {}
    for track in _tracks(queue):
        for row in track.rows:
            found[row.seq] = track, row
    for row in queue.dead.values():
        found.setdefault(row.seq, (None, row))
    return [found[seq] for seq in sorted(found)]


def _tracks(queue: Queue) -> Iterator[Track]:
    return itertools.chain(queue.tracks.values(), queue.singles.values())


def _track_for(queue: Queue, row: Row) -> Track:
    """Return the group of this row; make it if there is none."""
    if row.job.group:
        return queue.tracks.setdefault(row.job.group, Track(row.job.group, GROUPED))
    return queue.singles.setdefault(row.seq, Track("", PLAIN))


def _take_out(queue: Queue, track: Track | None, row: Row, now: float) -> None:
    if track is not None:
        first = track.rows[0] is row
        track.rows.remove(row)
        if first:
            queue.rest_or_line_up(track, row, now)
    queue.forget(row)


def _record(track: Track | None, row: Row, now: float) -> JobRecord:
    state, due_in, expires_in, owner = JobState.WAITING, 0.0, 0.0, ""
    first = track is not None and track.rows[0] is row
    due = max(row.not_before, track.due) if track is not None and first else row.not_before
    if row.dead:
        state = JobState.DEAD
    elif track is not None and track.loan is not None and first:
        state = JobState.TAKEN
        expires_in, owner = track.loan.expires - now, track.loan.take.owner
    elif due > now:
        state, due_in = JobState.DELAYED, due - now
    job = row.job
    age = now - row.accepted
    sizes = (row.attempts, age, due_in, expires_in)
    return JobRecord(job.id, job.group, state, job.payload, *sizes, owner, row.reason)
