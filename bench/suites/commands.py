"""Counts the commands that a client sends to the server, and the commands that scripts run in it.

Each command that a client sends is a round trip. The server counts them (MONITOR); nothing is
timed. A hand-off includes the commands of the waiter, from the call of ``acquire`` to its return,
and those of the holder's release.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from .. import crew, regimes
from ..contenders import Arena, Contender
from ..model import Case, Column, Metric, Panel, Reading
from ..scale import Scale
from ..servers import Monitor
from ..stores.ours import Kept
from . import handoff

#: Number of pairs (acquire and release) that aren't counted; number of pairs that are.
WARM_UP, PAIRS = 5, 20
_WITHIN_S = 60.0

METRICS = (
    Metric(Column("acquire", "acquire"), "acquire"),
    Metric(Column("release", "release"), "release"),
    Metric(Column("reentry", "re-entry"), "reentry"),
    Metric(Column("handoff", "hand-off"), "handoff"),
    Metric(Column("inside", "by scripts, acquire and release"), "inside"),
    Metric(Column("inside_handoff", "by scripts, hand-off"), "inside_handoff"),
)


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return one panel."""
    takers, absent = arena.entered("uncontended")
    few, more = scale.of((2, 12), (1, 3))
    return [
        Panel(
            key="commands",
            title="Commands to the server",
            regime=regimes.SPREAD,
            cases=[Case(one.label, functools.partial(read, one, few, more)) for one in takers],
            metrics=METRICS,
            reference="",
            rounds=scale.rounds_of(1, 1),
            targets=arena.targets.get("commands", ()),
            absent=absent,
        )
    ]


def read(taker: Contender, few: int, more: int, place: Path) -> Reading:
    """Count the commands of pairs; then those of two runs with ``few`` and ``more`` hand-offs.

    The difference of the two runs belongs to the additional hand-offs."""
    pairs = crew.alone(lambda: taker.drive(_pairs(taker, place)), _WITHIN_S)
    if "handoff" not in taker.parts:
        return pairs
    sent, inside = (
        (b - a) / (more - few)
        for a, b in zip(_handoffs(taker, few, place), _handoffs(taker, more, place), strict=True)
    )
    # With each hand-off, `handoff.read` also does an acquire and a release without contention.
    return {
        **pairs,
        "handoff": [round(sent - pairs["acquire"][0] - pairs["release"][0], 1)],
        "inside_handoff": [round(inside - pairs["inside"][0], 1)],
    }


async def _pairs(taker: Contender, place: Path) -> Reading:
    """Count the commands of one pair, repeated `PAIRS` times."""
    grip = taker.open(place)
    monitor = Monitor()
    counts = {"acquire": 0, "release": 0}
    inside = 0
    try:
        for number in range(-WARM_UP, PAIRS):
            if number == 0:
                counts, inside = dict.fromkeys(counts, 0), 0
            monitor.seen()
            for half, step in (("acquire", grip.take), ("release", grip.free)):
                await step()
                sent, scripted = monitor.seen()
                counts[half] += sent
                inside += scripted
        found = {half: [count / PAIRS] for half, count in counts.items()}
        if isinstance(grip, Kept):
            again = grip.entered()
            found["reentry"] = [_counted(monitor, again)]
            await grip.free()
    finally:
        monitor.close()
        await grip.close()
    return {**found, "inside": [inside / PAIRS]}


def _counted(monitor: Monitor, work: Callable[[], object]) -> float:
    monitor.seen()
    for _ in range(PAIRS):
        work()
    return monitor.seen()[0] / PAIRS


def _handoffs(taker: Contender, times: int, place: Path) -> tuple[int, int]:
    """Return the number of commands of ``times`` hand-offs, including start and end of the run."""
    monitor = Monitor()
    try:
        handoff.read(taker, times, place)
        return monitor.seen()
    finally:
        monitor.close()
