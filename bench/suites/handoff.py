"""The time from the call of ``release`` in one process to the return of ``acquire`` in another."""

from __future__ import annotations

import functools
import random
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from .. import crew, regimes
from ..contenders import Arena, Contender
from ..crew import Seat
from ..model import Case, Column, Metric, Panel, Reading
from ..scale import Scale
from ..stats import median, quantile

#: Minimum seconds for which the other process has waited in ``acquire`` before the release.
SETTLE_S = 0.02
_HEAR_S = 30.0
_WITHIN_S = 90.0

METRICS = (
    Metric(Column("p50", "median µs", "ratio"), "us", median, pooled=True),
    Metric(Column("p90", "p90 µs"), "us", functools.partial(quantile, part=0.9), pooled=True),
    Metric(Column("max", "longest µs"), "us", max, max),
)


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return a panel for cores that go idle between hand-offs, and one for cores kept awake."""
    takers, absent = arena.entered("handoff")
    times = scale.of(10, 3)
    return [
        Panel(
            key=key,
            title=f"Hand-off to a process that waits, {words}",
            regime=regime,
            cases=[Case(one.label, functools.partial(read, one, times)) for one in takers],
            metrics=METRICS,
            reference=arena.reference_of(key),
            rounds=scale.rounds_of(8, 1),
            targets=arena.targets.get(key, ()),
            absent=absent,
        )
        for key, regime, words in scale.of(
            (
                ("handoff-idle", regimes.SPREAD, "idle machine"),
                ("handoff-warm", regimes.WARM, "cores kept awake"),
            ),
            (("handoff-idle", regimes.SPREAD, "idle machine"),),
        )
    ]


def read(taker: Contender, times: int, place: Path) -> Reading:
    """Measure ``times`` hand-offs from one process to another."""
    near, far = Pipe()
    with near, far:
        given, got = crew.together(
            [
                lambda seat: taker.drive(_give(taker, place, times, near, seat)),
                lambda seat: taker.drive(_get(taker, place, times, far, seat)),
            ],
            _WITHIN_S,
        )
    return {"us": [(b - a) / 1e3 for a, b in zip(given, got, strict=True)]}


async def _give(
    taker: Contender, place: Path, times: int, wire: Connection, seat: Seat
) -> list[int]:
    """Hold, let the other process wait, release; return the time of the call of each release."""
    grip = taker.open(place)
    seat.ready()
    given = []
    for part in _phases(times):
        await grip.take()
        wire.send("held")
        _hear(wire)
        await taker.pause(SETTLE_S + part * max(taker.period_s, SETTLE_S))
        given.append(time.monotonic_ns())
        await grip.free()
        _hear(wire)
    await grip.close()
    return given


def _phases(times: int) -> list[float]:
    """Return parts of a polling period (0 to 1), evenly spread, so that no phase is favoured."""
    phases = [(number + random.random()) / times for number in range(times)]
    random.shuffle(phases)
    return phases


async def _get(
    taker: Contender, place: Path, times: int, wire: Connection, seat: Seat
) -> list[int]:
    """Wait for the lock each time; return the time of the return of each acquire."""
    grip = taker.open(place)
    seat.ready()
    got = []
    for _ in range(times):
        _hear(wire)
        wire.send("waiting")
        await grip.take()
        got.append(time.monotonic_ns())
        await grip.free()
        wire.send("freed")
    await grip.close()
    return got


def _hear(wire: Connection) -> None:
    if not wire.poll(_HEAR_S):
        raise crew.Failed(f"the other process sent nothing for {_HEAR_S:g} s")
    wire.recv()
