"""The delay of a 1 ms ticker in an event loop that also takes locks.

Other processes (neighbours) contend for the same name all the time, so a part of the delay is due
to the busy machine. Two more rows show that part: the same ticker and neighbours without a lock in
the loop, and the ticker alone.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from .. import crew, regimes
from ..contenders import Arena, Contender
from ..crew import Seat
from ..model import Case, Column, Metric, Panel, Reading
from ..scale import Scale
from ..stats import median, quantile

TICK_S = 0.001
#: Number of processes that contend, including that of the event loop.
PROCESSES = 8
_AFTER_S = 90.0
NO_LOCK, ALONE = "no lock in the loop, same neighbours", "no lock in the loop, no neighbours"

METRICS = (
    Metric(Column("p50", "p50 ms late"), "late_ms", median, pooled=True),
    Metric(Column("p99", "p99 ms"), "late_ms", functools.partial(quantile, part=0.99), pooled=True),
    Metric(
        Column("p999", "p99.9 ms"), "late_ms", functools.partial(quantile, part=0.999), pooled=True
    ),
    Metric(Column("max", "longest ms"), "late_ms", max, max),
    Metric(Column("ticks", "ticks"), "late_ms", len, sum),
    Metric(Column("acquired", "acquisitions/s"), "acquired"),
)


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return one panel: each contender for asyncio, and two rows without a lock in the loop."""
    takers, absent = arena.entered("uncontended")
    neighbour = next(one for one in takers if one.face == "threads")
    seconds = scale.of(3.0, 0.3)
    cases = [
        Case(one.label, functools.partial(read, one, _beside(one, takers), seconds))
        for one in takers
        if one.face == "asyncio"
    ]
    cases.append(Case(NO_LOCK, functools.partial(read, None, neighbour, seconds)))
    cases.append(Case(ALONE, functools.partial(read, None, None, seconds)))
    return [
        Panel(
            key="loop",
            title=f"Lateness of a 1 ms ticker while {PROCESSES} processes contend",
            regime=regimes.SPREAD,
            cases=cases,
            metrics=METRICS,
            reference=NO_LOCK,
            rounds=scale.rounds_of(6, 1),
            targets=arena.targets.get("loop", ()),
            absent={label: why for label, why in absent.items() if "sync" in label.lower()},
        )
    ]


def _beside(taker: Contender, takers: list[Contender]) -> Contender:
    """Return the blocking contender of the same package, for the neighbours."""
    return next(one for one in takers if one.face == "threads" and one.package == taker.package)


Told = tuple[list[float], int]


def read(
    taker: Contender | None, neighbour: Contender | None, seconds: float, place: Path
) -> Reading:
    """Measure one loop with a ticker while its neighbours contend."""
    others = 0 if neighbour is None else PROCESSES - 1
    told = crew.together(
        [lambda seat: asyncio.run(_tick(taker, place, seconds, seat))]
        + [functools.partial(_neighbour, neighbour, place, seconds)] * others,
        seconds + _AFTER_S,
    )
    late, acquired = told[0]
    return {"late_ms": late, "acquired": [acquired / seconds] if taker else []}


async def _tick(taker: Contender | None, place: Path, seconds: float, seat: Seat) -> Told:
    """Tick and take locks in the same loop; return the delays in ms, and the number of locks."""
    counter = [0]
    grip = taker.open(place) if taker is not None else None
    if grip is not None:
        await grip.take()
        await grip.free()
    end = seat.ready() + seconds
    locking = None
    if grip is not None:
        locking = asyncio.ensure_future(_take(grip.take, grip.free, end, counter))
    late = []
    while (now := time.monotonic()) < end:
        await asyncio.sleep(TICK_S)
        late.append((time.monotonic() - now - TICK_S) * 1e3)
    if grip is not None and locking is not None:
        await locking
        await grip.close()
    return late, counter[0]


async def _take(
    take: Callable[[], Awaitable[object]],
    free: Callable[[], Awaitable[object]],
    end: float,
    counter: list[int],
) -> None:
    while time.monotonic() < end:
        await take()
        counter[0] += 1
        await free()


def _neighbour(neighbour: Contender | None, place: Path, seconds: float, seat: Seat) -> Told:
    """Contend for the name in a tight loop."""
    assert neighbour is not None
    counter = [0]

    async def work() -> None:
        grip = neighbour.open(place)
        end = seat.ready() + seconds
        await _take(grip.take, grip.free, end, counter)
        await grip.close()

    neighbour.drive(work())
    return [], counter[0]
