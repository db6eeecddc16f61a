"""Acquire and release without contention: microseconds, processor's time, system calls."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .. import crew, machine, regimes, syscalls
from ..contenders import Arena, Contender, Grip
from ..model import Case, Column, Metric, Panel, Reading
from ..scale import Scale
from ..stats import quantile

WARM_UP = 50
_WITHIN_S = 60.0

METRICS = (
    Metric(Column("pair", "µs", "ratio"), "us"),
    Metric(Column("p99", "p99 µs"), "us", functools.partial(quantile, part=0.99), pooled=True),
    Metric(Column("cpu", "CPU µs"), "cpu_us"),
    Metric(Column("syscalls", "system calls"), "syscalls"),
)


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return one panel, on one core; in an arena with a server, also one on all cores."""
    takers, absent = arena.entered("uncontended")
    pairs = scale.of(200, 40)
    kinds = [("uncontended", regimes.ALONE, "no contention")]
    if machine.companions and not scale.quick:
        kinds.append(("uncontended-warm", regimes.WARM, "no contention, cores kept awake"))
    return [
        Panel(
            key=key,
            title=f"Acquire and release, {words}",
            regime=regime,
            cases=[
                Case(
                    taker.label,
                    functools.partial(read, taker, pairs),
                    functools.partial(count, arena, taker)
                    if regime == regimes.ALONE and not scale.quick
                    else None,
                )
                for taker in takers
            ],
            metrics=METRICS,
            reference=arena.reference_of(key),
            rounds=scale.rounds_of(25, 2),
            targets=arena.targets.get(key, ()),
            absent=absent,
        )
        for key, regime, words in kinds
    ]


def read(taker: Contender, pairs: int, place: Path) -> Reading:
    """Measure ``pairs`` pairs, one after the other, in a new process."""
    return crew.alone(lambda: taker.drive(_timed(taker.open, place, pairs)), _WITHIN_S)


def count(arena: Arena, taker: Contender, _place: Path) -> Reading:
    """Return the number of system calls of a pair, if they can be counted."""
    return syscalls.reading(arena.name, taker.label)


async def _timed(open_: Callable[[Path], Grip], place: Path, pairs: int) -> Reading:
    grip = open_(place)
    pair = grip.pair()
    try:
        waits = inspect.iscoroutinefunction(pair)
        await _awaited(pair, WARM_UP) if waits else _called(pair, WARM_UP)
        cpu = time.process_time_ns()
        took = await _awaited(pair, pairs) if waits else _called(pair, pairs)
        return {
            "us": [ns / 1e3 for ns in took],
            "cpu_us": [(time.process_time_ns() - cpu) / pairs / 1e3],
        }
    finally:
        await grip.close()


def _called(pair: Callable[[], object], pairs: int) -> Sequence[int]:
    clock = time.perf_counter_ns
    took = []
    for _ in range(pairs):
        begun = clock()
        pair()
        took.append(clock() - begun)
    return took


async def _awaited(pair: Callable[[], Any], pairs: int) -> Sequence[int]:
    clock = time.perf_counter_ns
    took = []
    for _ in range(pairs):
        begun = clock()
        await pair()
        took.append(clock() - begun)
    return took
