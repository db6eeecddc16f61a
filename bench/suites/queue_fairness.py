"""The wait of jobs of quiet groups, with and without a hot group that has many jobs."""

from __future__ import annotations

import functools
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import NamedTuple

from holdfast import Client
from holdfast.sync import Queue

from .. import crew, regimes
from ..contenders import Arena
from ..crew import Seat
from ..model import Case, Column, Metric, Panel, Reading, Target
from ..scale import Scale
from ..stats import mean, quantile

WITHOUT = "holdfast, quiet groups alone"
BESIDE = "holdfast, next to a hot group"
#: Number of quiet groups; number of worker processes; seconds that a job takes.
QUIET, WORKERS, BODY_S = 100, 4, 0.002
#: Seconds between two puts of quiet jobs in the panel in which workers have time to spare.
EVERY_S = 0.01
_BATCH = 1000
_LOOK_S = 0.2
_WITHIN_S = 600.0
_FORK = multiprocessing.get_context("fork")

WAITS = (
    Metric(Column("mean", "mean ms", "ratio"), "ms", mean),
    Metric(Column("p50", "median ms", "ratio"), "ms", functools.partial(quantile, part=0.5)),
    Metric(Column("p90", "p90 ms", "ratio"), "ms", functools.partial(quantile, part=0.9)),
    Metric(Column("max", "longest ms"), "ms", max, max),
    Metric(Column("hot", "hot jobs done meanwhile"), "hot", sum),
)
TARGETS = (Target(BESIDE, "mean", "ratio", at_most=1.5),)


class Load(NamedTuple):
    """The number of jobs of the quiet groups together, and of the hot group.

    ``full``: all jobs are put before the workers begin."""

    url: Callable[[Path], str]
    full: bool
    quiet: int
    hot: int


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return a panel with a backlog, and one with workers that have time to spare."""
    quiet, hot = scale.of((500, 50_000), (30, 500))
    kinds = (
        (True, "queue-fairness-full", "A backlog: from the start of the workers to that of a job"),
        (False, "queue-fairness-spare", "Workers to spare: from the call of put to the start"),
    )
    return [
        Panel(
            key=key,
            title=title,
            regime=regimes.SPREAD,
            cases=[
                Case(label, functools.partial(read, Load(arena.url, full, quiet, many)))
                for label, many in ((WITHOUT, 0), (BESIDE, hot))
            ],
            metrics=WAITS,
            reference=WITHOUT,
            rounds=scale.rounds_of(7, 1),
            targets=TARGETS,
        )
        for full, key, title in kinds
    ]


def read(load: Load, place: Path) -> Reading:
    """Measure the wait of each quiet job, and the number of hot jobs done in the same time."""
    name = f"bench:{place.name}"
    crew.alone(lambda: _fill(load, place, name), _WITHIN_S)
    left = _FORK.Value("i", load.quiet)

    def work(seat: Seat) -> tuple[list[float], int]:
        with Client(load.url(place)) as client:
            return _work(client.queue(name), left, seat.ready())

    def put(seat: Seat) -> tuple[list[float], int]:
        with Client(load.url(place)) as client:
            queue = client.queue(name)
            queue.stats()
            seat.ready()
            for number in range(load.quiet):
                queue.put(time.monotonic(), group=f"quiet:{number % QUIET}")
                time.sleep(EVERY_S)
        return [], 0

    found = crew.together([*[work] * WORKERS, *([] if load.full else [put])], _WITHIN_S)
    waits = [wait for some, _ in found for wait in some]
    return {"ms": [wait * 1e3 for wait in waits], "hot": [hot for _, hot in found]}


def _fill(load: Load, place: Path, name: str) -> None:
    """Put the jobs of the hot group; after them those of the quiet groups, if ``load.full``."""
    jobs = [{"payload": -1, "group": "hot"}] * load.hot
    if load.full:
        jobs += [{"payload": 0, "group": f"quiet:{n % QUIET}"} for n in range(load.quiet)]
    with Client(load.url(place)) as client:
        queue = client.queue(name)
        queue.stats()
        for start in range(0, len(jobs), _BATCH):
            queue.put_many(jobs[start : start + _BATCH])


def _work(queue: Queue, left: Synchronized[int], start: float) -> tuple[list[float], int]:
    """Work until no quiet job is left; return the waits of quiet jobs, and the hot jobs done.

    The payload of a quiet job is the time of its put; 0: it was put before the start."""
    waits, hot = [], 0
    while left.value > 0:
        job = queue.take(_LOOK_S)
        if job is None:
            continue
        if job.payload < 0:
            hot += 1
        else:
            waits.append(time.monotonic() - (job.payload or start))
            with left.get_lock():
                left.value -= 1
        time.sleep(BODY_S)
        job.ack()
    return waits, hot
