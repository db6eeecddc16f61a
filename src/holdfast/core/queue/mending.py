"""Revive or purge jobs of a queue on demand.

Producers and workers continue at the same time: jobs are put, and jobs die again. So the set of
jobs is fixed before the first change: the ids of the dead letters, or the number of jobs to remove,
oldest first. Otherwise one call could retry the same jobs again and again, and a purge would never
end while producers put jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..policy import REQUEST_S
from .model import BATCH_MAX, JobState
from .ports import Queues

#: The time-out of the request that reads the ids of all dead letters, in seconds.
LIST_S = 60.0


def _quiet(done: int) -> None:
    """Report no progress."""


async def revive(
    queues: Queues,
    queue: str,
    ids: Sequence[str] | None,
    told: Callable[[int], None] = _quiet,
    batch: int = BATCH_MAX,
) -> int:
    """Retry the dead letters with these ids (None: all), each once; return their number. ``told``
    is called with the number so far, after each batch."""
    wanted = await queues.letters(queue, LIST_S) if ids is None else ids
    done = 0
    for start in range(0, len(wanted), batch):
        done += await queues.revive(queue, wanted[start : start + batch], REQUEST_S)
        told(done)
    return done


async def purge(
    queues: Queues,
    queue: str,
    state: JobState | None,
    ids: Sequence[str] | None,
    told: Callable[[int], None] = _quiet,
) -> int:
    """Remove the jobs with these ids; None: all that are in the queue now, oldest first. Return
    their number."""
    done = 0
    if state is JobState.DEAD and ids is None:
        ids = await queues.letters(queue, LIST_S)
    if ids is not None:
        for start in range(0, len(ids), BATCH_MAX):
            some = ids[start : start + BATCH_MAX]
            done += await queues.purge(queue, state, some, BATCH_MAX, REQUEST_S)
            told(done)
        return done
    records = await queues.survey(queue, REQUEST_S, exact=True)
    # Taken jobs aren't counted. If a taken job is released before the purge ends, it can be removed
    # in place of a later job. `waiting` includes delayed jobs.
    most = sum(one.waiting + (0 if state else one.dead) for one in records)
    while done < most and (more := await queues.purge(queue, state, None, most - done, REQUEST_S)):
        done += more
        told(done)
    return done
