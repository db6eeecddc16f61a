"""Repairs of a queue by hand: of the jobs in a state at the start; a purge takes no more, oldest
first.

Jobs die again, and are put, while this continues; so what is to be done is known before the first
request that does something. Else one call would try the same jobs again and again, and a purge
beside producers would not end.
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
    """Try dead letters again, these or all, each once; how many. ``told`` hears how many by now."""
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
    """Remove jobs, these or as many as there are, the oldest first; how many."""
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
    # A job on loan stays; a job that is released meanwhile gets a later place. What is delayed is
    # counted with what waits.
    most = sum(one.waiting + (0 if state else one.dead) for one in records)
    while done < most and (more := await queues.purge(queue, state, None, most - done, REQUEST_S)):
        done += more
        told(done)
    return done
