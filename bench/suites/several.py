"""The time to acquire ten names together, compared with ten locks that are taken one by one."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from pathlib import Path

from .. import crew, regimes
from ..contenders import Arena, Contender
from ..model import Case, Column, Metric, Panel, Reading
from ..scale import Scale
from ..stores.ours import SEVERAL

WARM_UP = 5
_WITHIN_S = 60.0

METRICS = (
    Metric(Column("pair", "µs", "ratio"), "us"),
    Metric(Column("cpu", "CPU µs"), "cpu_us"),
)


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return one panel."""
    of = [one for one in arena.contenders if one.several is not None]
    return [
        Panel(
            key="several",
            title=f"{SEVERAL} names held together, no contention",
            regime=regimes.WARM,
            cases=[
                Case(one.label, functools.partial(read, one, scale.of(50, 5)))
                for one in of
                if not one.missing
            ],
            metrics=METRICS,
            reference=arena.reference_of("several"),
            rounds=scale.rounds_of(15, 1),
            targets=arena.targets.get("several", ()),
            absent={one.label: one.missing for one in of if one.missing},
        )
    ]


def read(taker: Contender, times: int, place: Path) -> Reading:
    """Take and release the names ``times`` times, in a new process."""
    return crew.alone(lambda: _driven(taker, times, place), _WITHIN_S)


def _driven(taker: Contender, times: int, place: Path) -> Reading:
    if taker.face == "asyncio":
        return asyncio.run(_timed(taker, times, place))
    return taker.drive(_timed(taker, times, place))


async def _timed(taker: Contender, times: int, place: Path) -> Reading:
    assert taker.several is not None
    shared = taker.several(place)
    use = shared.use(place.name)
    took = []
    cpu = time.process_time_ns()
    for number in range(-WARM_UP, times):
        if number == 0:
            cpu = time.process_time_ns()
        begun = time.perf_counter_ns()
        answer = use()
        if inspect.isawaitable(answer):
            await answer
        if number >= 0:
            took.append((time.perf_counter_ns() - begun) / 1e3)
    cpu = time.process_time_ns() - cpu
    await shared.close()
    return {"us": took, "cpu_us": [cpu / times / 1e3]}
