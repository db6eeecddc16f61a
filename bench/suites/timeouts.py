"""The time from the end of the time-out to the return of ``acquire``, while processes contend."""

from __future__ import annotations

import functools
import random
import time
from pathlib import Path

from .. import crew, regimes
from ..contenders import Arena, Contender
from ..crew import Seat
from ..model import Case, Column, Metric, Panel, Reading
from ..scale import Scale
from ..stats import median, quantile

#: Minimum and maximum of the random time-outs, and of the random times of a hold, in seconds.
TIMEOUT_S, HOLD_S = (0.002, 0.04), (0.0, 0.02)
_AFTER_S = 60.0

METRICS = (
    Metric(Column("p50", "p50 ms over"), "over_ms", median, pooled=True),
    Metric(Column("p99", "p99 ms"), "over_ms", functools.partial(quantile, part=0.99), pooled=True),
    Metric(
        Column("p999", "p99.9 ms"), "over_ms", functools.partial(quantile, part=0.999), pooled=True
    ),
    Metric(Column("max", "longest ms"), "over_ms", max, max),
    Metric(Column("count", "time-outs"), "over_ms", len, sum),
    Metric(Column("acquired", "acquisitions/s"), "acquired"),
)


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return one panel."""
    takers, absent = arena.entered("timeouts")
    processes = scale.of(8, 4)
    low, high = (1e3 * seconds for seconds in TIMEOUT_S)
    return [
        Panel(
            key="timeouts",
            title=(
                f"How much acquire(timeout=T) exceeds T: {processes} processes, "
                f"T from {low:g} to {high:g} ms"
            ),
            regime=regimes.SPREAD,
            cases=[
                Case(one.label, functools.partial(read, one, processes, scale.of(3.0, 0.3)))
                for one in takers
            ],
            metrics=METRICS,
            reference="",
            rounds=scale.rounds_of(4, 1),
            targets=arena.targets.get("timeouts", ()),
            absent=absent,
        )
    ]


def read(taker: Contender, processes: int, seconds: float, place: Path) -> Reading:
    """Let this number of processes contend for ``seconds`` seconds."""
    told = crew.together(
        [lambda seat: taker.drive(_contend(taker, place, seconds, seat))] * processes,
        seconds + _AFTER_S,
    )
    return {
        "over_ms": [over for overs, _ in told for over in overs],
        "acquired": [sum(acquired for _, acquired in told) / seconds],
    }


async def _contend(
    taker: Contender, place: Path, seconds: float, seat: Seat
) -> tuple[list[float], int]:
    """Try and hold in a loop; return the delay of each call that timed out or returned late.

    Also return the number of acquisitions."""
    grip = taker.open(place)
    await grip.take()  # the first call opens the store, which takes too long to be measured
    await grip.free()
    chance = random.Random()
    end = seat.ready() + seconds
    over: list[float] = []
    acquired = 0
    while time.monotonic() < end:
        timeout = chance.uniform(*TIMEOUT_S)
        begun = time.monotonic()
        got = await grip.within(timeout)
        late = time.monotonic() - begun - timeout
        if not got or late > 0:
            over.append(late * 1e3)
        if got:
            acquired += 1
            await taker.pause(chance.uniform(*HOLD_S))
            await grip.free()
    await grip.close()
    return over, acquired
