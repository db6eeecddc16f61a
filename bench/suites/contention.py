"""Many processes take one name in tight loops: the rate, changes of the owner, and fairness.

The number of acquisitions alone means little, because one process can take a lock many times in a
row. The number of changes of the owner shows how well processes share the lock.

Every process writes its number into one shared file while it holds the lock. If it finds another
number there, two processes held the lock at the same time: an overlap. It is also an overlap if the
counter in the file is less than the sum of the processes' counters.
"""

from __future__ import annotations

import functools
import mmap
import time
from pathlib import Path

from .. import crew, regimes
from ..contenders import Arena, Contender, Grip
from ..crew import Seat
from ..model import Case, Column, Metric, Panel, Reading
from ..scale import Scale
from ..stats import jain

_AFTER_S = 90.0
#: Fields of the shared file: the number of the holder (0: none), the number of acquisitions, the
#: last holder. Then the size of the file in bytes.
_INSIDE, _COUNT, _LAST, _SIZE = 0, 1, 2, 24

METRICS = (
    Metric(Column("changes", "owner changes/s", "ratio"), "changes"),
    Metric(Column("acquired", "acquisitions/s"), "acquired"),
    Metric(Column("jain", "Jain's index"), "shares", jain),
    Metric(Column("starved", "starved"), "shares", lambda shares: shares.count(0), max),
    Metric(Column("wait", "longest wait ms"), "waits_ms", max, max),
    Metric(Column("overlaps", "overlaps"), "overlaps", sum, sum),
)


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return a panel for each number of processes."""
    takers, absent = arena.entered("contention")
    return [
        Panel(
            key=f"contention-{count}",
            title=f"{count} processes on one name, a tight loop",
            regime=regimes.SPREAD,
            cases=[
                Case(one.label, functools.partial(read, one, count, scale.of(3.0, 0.2)))
                for one in takers
            ],
            metrics=METRICS,
            reference=arena.reference_of(f"contention-{count}"),
            rounds=scale.rounds_of(3, 1),
            targets=arena.targets.get(f"contention-{count}", ()),
            absent=absent,
        )
        for count in scale.of(arena.crowds, (8,))
    ]


def read(taker: Contender, count: int, seconds: float, place: Path) -> Reading:
    """Let ``count`` processes contend for ``seconds`` seconds."""
    (place / "marks").write_bytes(bytes(_SIZE))
    told = crew.together(
        [lambda seat: taker.drive(_contend(taker, place, seconds, seat))] * count,
        seconds + _AFTER_S,
    )
    shares = [one["acquired"] for one in told]
    lost = sum(one["entered"] for one in told) - _marks(place)[_COUNT]
    return {
        "changes": [sum(one["changes"] for one in told) / seconds],
        "acquired": [sum(shares) / seconds],
        "shares": shares,
        "waits_ms": [one["wait_ms"] for one in told],
        "overlaps": [sum(one["overlaps"] for one in told) + abs(lost)],
    }


async def _contend(taker: Contender, place: Path, seconds: float, seat: Seat) -> dict[str, float]:
    grip = taker.open(place)
    marks = _marks(place)
    end = seat.ready() + seconds
    told = {"acquired": 0.0, "entered": 0.0, "changes": 0.0, "wait_ms": 0.0, "overlaps": 0.0}
    try:
        await _loop(grip, marks, seat.number + 1, end, told)
    finally:
        await grip.close()
    return told


async def _loop(grip: Grip, marks: memoryview, me: int, end: float, told: dict[str, float]) -> None:
    """Take the lock, write the marks, release it, in a loop until ``end``."""
    clock = time.monotonic
    while (asked := clock()) < end:
        await grip.take()
        now = clock()
        told["overlaps"] += marks[_INSIDE] != 0
        marks[_INSIDE] = me
        marks[_COUNT] += 1
        told["entered"] += 1
        told["wait_ms"] = max(told["wait_ms"], (min(now, end) - asked) * 1e3)
        if now < end:
            told["acquired"] += 1
            told["changes"] += marks[_LAST] != me
            marks[_LAST] = me
        told["overlaps"] += marks[_INSIDE] != me
        marks[_INSIDE] = 0
        await grip.free()


def _marks(place: Path) -> memoryview:
    """Return the fields of the shared file as integers in shared memory."""
    with (place / "marks").open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), _SIZE)).cast("q")
