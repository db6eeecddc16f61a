"""A hot group beside quiet ones: how long their jobs wait, and how long they do without it."""

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
#: Quiet groups, processes that work, and the seconds that a job takes.
QUIET, WORKERS, BODY_S = 100, 4, 0.002
#: While workers have time to spare, a quiet job comes so often.
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
    """How many jobs the quiet groups and the hot one have. ``full``: all are there when the workers
    begin."""

    url: Callable[[Path], str]
    full: bool
    quiet: int
    hot: int


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """One table with workers that have more than they can do, one with workers that wait."""
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
    """One run: how long each quiet job has waited, and how many hot ones were done meanwhile."""
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
    """The hot group's jobs first, and where all are there at once, those of the quiet ones."""
    jobs = [{"payload": -1, "group": "hot"}] * load.hot
    if load.full:
        jobs += [{"payload": 0, "group": f"quiet:{n % QUIET}"} for n in range(load.quiet)]
    with Client(load.url(place)) as client:
        queue = client.queue(name)
        queue.stats()
        for start in range(0, len(jobs), _BATCH):
            queue.put_many(jobs[start : start + _BATCH])


def _work(queue: Queue, left: Synchronized[int], start: float) -> tuple[list[float], int]:
    """Work until no quiet job is left; what a quiet job carries is when it was put, 0: before."""
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
