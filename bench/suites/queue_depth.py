"""The time of a job in a deep queue, compared with that in a shallow queue."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path

from holdfast import Client
from holdfast.sync import Queue

from .. import crew, regimes
from ..contenders import Arena
from ..feeds import BODY
from ..model import Case, Column, Metric, Panel, Reading, Target
from ..scale import Scale
from ..stats import median

PLAIN, GROUPED = "holdfast", "holdfast, grouped"
SHALLOW = 1000
#: Number of jobs that are put, taken and acknowledged in one queue before the other queue's turn.
TURN = 10
_BATCH = 1000
_WITHIN_S = 3600.0

COSTS = (
    Metric(Column("shallow", "take µs at a depth of 1,000"), "shallow"),
    Metric(Column("deep", "at 1,000,000"), "deep"),
    Metric(Column("times", "take, x shallow"), "times", median),
    Metric(Column("put", "put, x shallow"), "put", median),
    Metric(Column("ack", "ack, x shallow"), "ack", median),
    Metric(Column("filled", "seconds to fill it"), "filled"),
)


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return one panel. It has one round by default, because each reading fills a new queue."""
    deep, turns = scale.of((1_000_000, 100), (2000, 3))
    kinds = ((PLAIN, 0), (GROUPED, 10))
    return [
        Panel(
            key="queue-depth",
            title="A job in a deep queue and in a shallow one",
            regime=regimes.SPREAD,
            cases=[
                Case(label, functools.partial(read, arena.url, deep, each, turns))
                for label, each in kinds
            ],
            metrics=COSTS,
            reference=PLAIN,
            rounds=scale.rounds_of(1, 1),
            targets=[Target(label, "times", "value", at_most=1.5) for label, _ in kinds],
        )
    ]


def read(url: Callable[[Path], str], deep: int, each: int, turns: int, place: Path) -> Reading:
    """Fill two queues, and measure jobs in them in turns.

    ``deep``: the jobs in the deep queue. ``each``: the jobs of each group; 0: ungrouped jobs."""
    return crew.alone(lambda: _read(url(place), place.name, deep, each, turns), _WITHIN_S)


def _read(url: str, name: str, deep: int, each: int, turns: int) -> Reading:
    with Client(url) as client:
        sides = {
            "shallow": (client.queue(f"{name}:shallow"), SHALLOW),
            "deep": (client.queue(f"{name}:deep"), deep),
        }
        begun = time.perf_counter()
        for queue, depth in sides.values():
            _fill(queue, depth, each)
        filled = time.perf_counter() - begun
        spent: dict[str, list[tuple[float, ...]]] = {side: [] for side in sides}
        for number in range(turns):
            for side, (queue, depth) in sides.items():
                groups = depth // each if each else 0
                for at in range(TURN):
                    spent[side].append(_timed(queue, _group(number * TURN + at, groups)))
    puts, takes, acks = (
        {side: median([one[verb] for one in some]) for side, some in spent.items()}
        for verb in range(3)
    )
    return {
        "filled": [filled],
        "shallow": [takes["shallow"] * 1e6],
        "deep": [takes["deep"] * 1e6],
        "times": [takes["deep"] / takes["shallow"]],
        "put": [puts["deep"] / puts["shallow"]],
        "ack": [acks["deep"] / acks["shallow"]],
    }


def _group(number: int, groups: int) -> str | None:
    return f"g{number % groups}" if groups else None


def _fill(queue: Queue, depth: int, each: int) -> None:
    groups = depth // each if each else 0
    for start in range(0, depth, _BATCH):
        numbers = range(start, min(start + _BATCH, depth))
        queue.put_many({"payload": BODY, "group": _group(one, groups)} for one in numbers)


def _timed(queue: Queue, group: str | None) -> tuple[float, float, float]:
    """Return the seconds of a put, a take and an ack. Together they don't change the depth."""
    begun = time.perf_counter()
    queue.put(BODY, group=group)
    put = time.perf_counter()
    job = queue.take(30)
    taken = time.perf_counter()
    assert job is not None
    job.ack()
    return put - begun, taken - put, time.perf_counter() - taken
