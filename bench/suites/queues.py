"""The time of a job in a queue, and the time until an idle worker begins it."""

from __future__ import annotations

import functools
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from .. import crew, regimes
from ..contenders import Arena
from ..crew import Seat
from ..feeds import Feeder
from ..model import Case, Column, Metric, Panel, Reading
from ..scale import Scale
from ..stats import median, quantile

#: Seconds for which the worker has waited when the job is put.
SETTLE_S = 0.03
_WITHIN_S = 120.0
_HEAR_S = 30.0

COSTS = (
    Metric(Column("rate", "jobs/s", "ratio"), "rate"),
    Metric(Column("put", "put µs"), "put_us"),
    Metric(Column("work", "take and ack µs"), "work_us"),
)
WAITING = (Metric(Column("rate", "jobs/s", "ratio"), "rate"),)
WAKES = (
    Metric(Column("p50", "median µs", "ratio"), "us", median, pooled=True),
    Metric(Column("p90", "p90 µs"), "us", functools.partial(quantile, part=0.9), pooled=True),
    Metric(Column("max", "longest µs"), "us", max, max),
)


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return a panel for the time of a job, and one for the time until it begins.

    In some arenas there is a third panel, for a queue with many waiting jobs."""
    absent = {one.label: one.missing for one in arena.feeders if one.missing}
    here = [one for one in arena.feeders if not one.missing]
    jobs, times = scale.of((3000, 10), (200, 2))
    deep = [_deep(arena, here, absent, scale)] if "queue-deep" in arena.references else []
    return [
        *deep,
        Panel(
            key="queue",
            title="A job: put, taken and acknowledged",
            regime=regimes.ALONE,
            cases=[Case(one.label, functools.partial(cost, one, jobs)) for one in here],
            metrics=COSTS,
            reference=arena.reference_of("queue"),
            rounds=scale.rounds_of(7, 1),
            targets=arena.targets.get("queue", ()),
            absent=absent,
        ),
        Panel(
            key="queue-wake",
            title="From the call of put to the start of the job in another process",
            regime=regimes.SPREAD,
            cases=[
                Case(one.label, functools.partial(wake, one, times)) for one in here if one.waits
            ],
            metrics=WAKES,
            reference=arena.reference_of("queue-wake"),
            rounds=scale.rounds_of(8, 1),
            targets=arena.targets.get("queue-wake", ()),
            absent=absent,
        ),
    ]


def _deep(arena: Arena, here: list[Feeder], absent: dict[str, str], scale: Scale) -> Panel:
    behind, jobs = scale.of((1000, 400), (100, 50))
    one_by_one = [one for one in here if "batches" not in one.label]
    return Panel(
        key="queue-deep",
        title=f"A job taken and acknowledged, with {behind:,} waiting behind it",
        regime=regimes.ALONE,
        cases=[Case(one.label, functools.partial(deep, one, behind, jobs)) for one in one_by_one],
        metrics=WAITING,
        reference=arena.reference_of("queue-deep"),
        rounds=scale.rounds_of(7, 1),
        targets=arena.targets.get("queue-deep", ()),
        absent=absent,
    )


def deep(feeder: Feeder, behind: int, jobs: int, place: Path) -> Reading:
    """Execute ``jobs`` jobs in a new process, while ``behind`` other jobs wait in the queue."""

    def timed() -> Reading:
        feed = feeder.open(place)
        feed.put(behind + 2 * jobs)
        feed.work(jobs)  # to warm up the server
        begun = time.perf_counter()
        feed.work(jobs)
        end = time.perf_counter()
        feed.close()
        return {"rate": [jobs / (end - begun)]}

    return crew.alone(timed, _WITHIN_S)


def cost(feeder: Feeder, jobs: int, place: Path) -> Reading:
    """Put and execute ``jobs`` jobs, fewer if the feeder is slow, in a new process."""
    return crew.alone(lambda: _timed(feeder, max(jobs // feeder.slow, 100), place), _WITHIN_S)


def _timed(feeder: Feeder, jobs: int, place: Path) -> Reading:
    feed = feeder.open(place)
    feed.put(100)
    feed.work(100)
    begun = time.perf_counter()
    feed.put(jobs)
    put = time.perf_counter()
    feed.work(jobs)
    end = time.perf_counter()
    feed.close()
    return {
        "rate": [jobs / (end - begun)],
        "put_us": [(put - begun) / jobs * 1e6],
        "work_us": [(end - put) / jobs * 1e6],
    }


def wake(feeder: Feeder, times: int, place: Path) -> Reading:
    """Put ``times`` jobs in one process while another process waits for each of them."""
    near, far = Pipe()
    with near, far:
        put, begun = crew.together(
            [
                lambda seat: _put(feeder, place, times, near, seat),
                lambda seat: _begin(feeder, place, times, far, seat),
            ],
            _WITHIN_S,
        )
    return {"us": [(b - a) / 1e3 for a, b in zip(put, begun, strict=True)]}


def _put(feeder: Feeder, place: Path, times: int, wire: Connection, seat: Seat) -> list[int]:
    feed = feeder.open(place)
    seat.ready()
    found = []
    for _ in range(times):
        _hear(wire)
        time.sleep(SETTLE_S)
        found.append(time.monotonic_ns())
        feed.put(1)
    _hear(wire)
    feed.close()
    return found


def _begin(feeder: Feeder, place: Path, times: int, wire: Connection, seat: Seat) -> list[int]:
    feed = feeder.open(place)
    seat.ready()
    found = []
    for _ in range(times):
        wire.send("waiting")
        done = feed.take()
        found.append(time.monotonic_ns())
        done()
    wire.send("over")
    feed.close()
    return found


def _hear(wire: Connection) -> None:
    if not wire.poll(_HEAR_S):
        raise crew.Failed(f"the other process sent nothing for {_HEAR_S:g} s")
    wire.recv()
