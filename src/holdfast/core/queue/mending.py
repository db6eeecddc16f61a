"""Revive or purge jobs of a queue on demand.

Producers and workers continue while this runs: jobs are put and die again. So the work is fixed
before the first change: the ids of the dead letters, or the number of jobs to remove, oldest first.
Otherwise one call would retry the same jobs again and again, and a purge would never end while
producers put jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..policy import REQUEST_S
from .model import BATCH_MAX, JobState
from .ports import Queues

#: Seconds that reading the ids of all dead letters may take.
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
    """Retry dead letters, these or all, each once; return how many. ``told`` gets the count so
    far."""
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
    """Remove jobs, these or as many as there are now, oldest first; return how many."""
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
    # Taken jobs aren't counted; one that is released while this runs can be removed in place of a
    # later one. `waiting` includes delayed jobs.
    most = sum(one.waiting + (0 if state else one.dead) for one in records)
    while done < most and (more := await queues.purge(queue, state, None, most - done, REQUEST_S)):
        done += more
        told(done)
    return done
