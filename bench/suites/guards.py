"""The time to read a guarded value, and the number of times that it is computed under load."""

from __future__ import annotations

import functools
import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from .. import crew, regimes
from ..contenders import Arena
from ..crew import Seat
from ..model import Case, Column, Metric, Panel, Reading
from ..scale import Scale
from ..shields import COST_S, Call, Shielder, asked, calls, hits
from ..stats import median, quantile

_WITHIN_S = 180.0
#: Seconds that the source takes in the panel ``guard-traffic``.
QUERY_S = 0.02
#: Seconds between a first call, which isn't measured, and the measured call.
APART_S = 6.0
P99 = functools.partial(quantile, part=0.99)

HITS = (
    Metric(Column("p50", "median µs", "ratio"), "us", median, pooled=True),
    Metric(Column("p99", "p99 µs"), "us", P99, pooled=True),
)
CALLS = (
    Metric(Column("computes", "times computed"), "computes", sum),
    Metric(Column("p50", "median ms"), "ms", median, pooled=True),
    Metric(Column("p99", "p99 ms", "ratio"), "ms", P99, pooled=True),
    Metric(Column("max", "longest ms"), "ms", max, max),
)


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return five panels: a fresh value, a missing value, expiry, a killed process, traffic."""
    panel = functools.partial(_panel, arena, scale)
    here = [one for one in arena.shielders if not one.missing and not one.floor]
    floors = [one for one in arena.shielders if one.floor]
    guards = [one for one in here if not one.reads]
    reads, processes, callers = scale.of((3000, 16, 50), (50, 2, 3))
    expiry_s, traffic_s, apart_s = scale.of((60.0, 10.0, APART_S), (0.5, 0.2, 0.5))
    lanes = scale.of(16, 4)
    return [
        panel(
            "guard-hit",
            "A fresh value, read one time after the other",
            regimes.ALONE,
            [Case(one.label, functools.partial(hit, one, reads)) for one in here],
            HITS,
            7,
        ),
        panel(
            "guard-miss",
            f"{processes} processes with {callers} callers each want one missing value, "
            f"{COST_S * 1000:g} ms to compute",
            regimes.SPREAD,
            [
                Case(one.label, functools.partial(miss, one, processes, callers, apart_s))
                for one in (*guards, *floors)
            ],
            CALLS,
            3,
        ),
        panel(
            "guard-expiry",
            f"Reads under load for {expiry_s:g} s, of a value that expires every 2 s and may be "
            "served stale, next to a plain read",
            regimes.SPREAD,
            [
                Case(one.label, functools.partial(expiry, one, expiry_s))
                for one in here
                if one.stale or one.reads
            ],
            CALLS,
            1,
        ),
        panel(
            "guard-death",
            "The process that computes is killed; its lease has 2 s: the others' wait after that",
            regimes.SPREAD,
            [Case(one.label, functools.partial(death, one)) for one in guards if one.stale],
            CALLS,
            3,
        ),
        panel(
            "guard-traffic",
            f"2,000 reads per second of 100 keys with a ttl of 1 s, {traffic_s:g} s, by two "
            f"processes; a query takes {QUERY_S * 1000:g} ms",
            regimes.SPREAD,
            [Case(one.label, functools.partial(traffic, one, traffic_s, lanes)) for one in guards],
            CALLS,
            3,
        ),
    ]


def _panel(
    arena: Arena,
    scale: Scale,
    key: str,
    title: str,
    regime: str,
    cases: Sequence[Case],
    metrics: Sequence[Metric],
    rounds: int,
) -> Panel:
    return Panel(
        key=key,
        title=title,
        regime=regime,
        cases=cases,
        metrics=metrics,
        reference=arena.reference_of(key),
        rounds=scale.rounds_of(rounds, 1),
        targets=arena.targets.get(key, ()),
        absent={one.label: one.missing for one in arena.shielders if one.missing},
    )


def hit(shielder: Shielder, reads: int, place: Path) -> Reading:
    """Read a fresh value ``reads`` times, in a new process."""
    return {"us": crew.alone(lambda: hits(shielder, place, reads), _WITHIN_S)}


def _together(
    shielder: Shielder,
    place: Path,
    plans: Sequence[list[list[Call]]],
    terms: tuple[float, float, float],
) -> Reading:
    def work(mine: list[list[Call]], seat: Seat) -> list[float]:
        return calls(shielder, place, mine, terms, seat.ready)

    found = crew.together([functools.partial(work, mine) for mine in plans], _WITHIN_S)
    return {"ms": [one for some in found for one in some], "computes": [len(asked(place))]}


def miss(shielder: Shielder, processes: int, callers: int, apart_s: float, place: Path) -> Reading:
    """Read one missing value by all callers at the same time.

    Before that, they read another value, so that the time to start up isn't measured."""
    lane = [Call(0.0, "before", counts=False), Call(apart_s, "cold")]
    plans = [[lane for _ in range(callers)] for _ in range(processes)]
    found = _together(shielder, place, plans, (60.0, 0.0, COST_S))
    times = asked(place)
    return {**found, "computes": [sum(one > min(times) + apart_s - COST_S for one in times)]}


def expiry(shielder: Shielder, seconds: float, place: Path) -> Reading:
    """Let two processes read one value all the time, which expires every 2 seconds."""
    seed, lanes = random.Random(7), 10
    plans = [
        [
            [Call((at + seed.random()) * 0.05, "hot") for at in range(int(seconds * 20))]
            for _ in range(lanes)
        ]
        for _ in range(2)
    ]
    return _together(shielder, place, plans, (2.0, 60.0, COST_S))


def traffic(shielder: Shielder, seconds: float, lanes: int, place: Path) -> Reading:
    """Let two processes do half of the reads each, at random times that are fixed in advance."""
    seed = random.Random(11)
    total = int(2000 * seconds / 2)
    plans = []
    for _ in range(2):
        moments = sorted(seed.uniform(0, seconds) for _ in range(total))
        plan: list[list[Call]] = [[] for _ in range(lanes)]
        for at, when in enumerate(moments):
            plan[at % lanes].append(Call(when, f"key {seed.randrange(100)}"))
        plans.append(plan)
    return _together(shielder, place, plans, (1.0, 0.0, QUERY_S))


def death(shielder: Shielder, place: Path) -> Reading:
    """Kill a process while it computes a value for which three others wait; measure their wait."""
    terms = (60.0, 0.0, COST_S)

    def victim(seat: Seat) -> list[float]:
        child = os.fork()
        if not child:
            try:
                calls(shielder, place, [[Call(0.0, "cold")]], (60.0, 0.0, 3600.0), time.monotonic)
            finally:
                os._exit(0)
        while not asked(place):
            time.sleep(0.002)
        seat.ready()
        time.sleep(0.3)
        os.kill(child, signal.SIGKILL)
        killed = time.monotonic()
        os.waitpid(child, 0)
        return [killed]

    def waits(seat: Seat) -> list[float]:
        start = 0.0

        def ready() -> float:
            nonlocal start
            start = seat.ready()
            return start

        (took,) = calls(shielder, place, [[Call(0.0, "cold")]], terms, ready)
        return [start + took / 1e3]

    (killed,), *ended = crew.together([victim, waits, waits, waits], _WITHIN_S)
    waited = [(one - killed) * 1e3 for (one,) in ended]
    return {"ms": waited, "computes": [len(asked(place))]}
