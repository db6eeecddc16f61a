"""Many holds in one process, all of them renewed: threads, lost holds, and the processor's time."""

from __future__ import annotations

import asyncio
import functools
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path

from holdfast import AsyncClient, AsyncHold, Client, Hold, LockLost

from .. import crew, regimes
from ..contenders import Arena
from ..model import Case, Column, Metric, Panel, Reading
from ..scale import Scale

_AFTER_S = 120.0
#: The part of the ttl after which all holds have been renewed once: a third, and some more for late
#: renewals.
_ONCE = 0.36

METRICS = (
    Metric(Column("held", "holds"), "held"),
    Metric(Column("threads", "threads"), "threads", max, max),
    Metric(Column("connections", "connections beyond the first"), "connections", max, max),
    Metric(Column("lost", "lost"), "lost", sum, sum),
    Metric(Column("cpu", "CPU % of one core"), "cpu"),
    Metric(Column("first", "CPU µs, a hold's first renewal"), "first_us"),
    Metric(Column("acquire", "to acquire one, µs"), "acquire_us"),
    Metric(Column("memory", "memory per hold, bytes"), "bytes"),
)


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return one panel, only with holdfast: the peers don't renew leases."""
    holds, ttl, seconds = scale.of((10_000, 10.0, 10.0), (500, 4.0, 1.2))
    return [
        Panel(
            key="renewal",
            title=f"{holds:,} holds in one process, ttl {ttl:g} s, watched for {seconds:g} s",
            regime=regimes.SPREAD,
            cases=[
                Case("holdfast", functools.partial(_read, arena, in_threads, holds, ttl, seconds)),
                Case(
                    "holdfast, asyncio",
                    functools.partial(_read, arena, in_loop, holds, ttl, seconds),
                ),
            ],
            metrics=METRICS,
            reference="",
            rounds=scale.rounds_of(2, 1),
            targets=arena.targets.get("renewal", ()),
        )
    ]


Counted = Callable[[], int] | None
Renewed = Callable[[str, int, float, float, Counted], Reading]


def _read(
    arena: Arena, renewed: Renewed, holds: int, ttl: float, seconds: float, place: Path
) -> Reading:
    counted = arena.connections
    before = counted() if counted else 0

    def work() -> Reading:
        return renewed(arena.url(place), holds, ttl, seconds, counted)

    reading = crew.alone(work, seconds + _AFTER_S)
    beyond = [count - before - 1 for count in reading["connections"]]
    return {**reading, "connections": beyond}


class Watch:
    """Measures what a process uses for its holds: memory, time, threads and connections.

    The first renewal of a hold also prepares data for the later ones, so it is counted separately.
    """

    def __init__(self, threads: int, counted: Counted) -> None:
        self._threads = threads
        self._counted = counted
        self._memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self._begun = time.perf_counter()

    def held(self) -> None:
        """Note that all holds are acquired now."""
        self._acquired = time.perf_counter()
        self._first = time.process_time()

    def renewed(self) -> None:
        """Note that all holds were renewed once; the steady state begins."""
        self._begun_steady = time.perf_counter()
        self._cpu = time.process_time()

    def over(self) -> None:
        """Note the end of the measured time; later work doesn't count."""
        self._ended, self._spent = time.perf_counter(), time.process_time() - self._cpu

    def reading(self, holds: int, lost: int) -> Reading:
        """Return the reading for this number of holds and of lost holds."""
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self._memory
        return {
            "held": [holds],
            "threads": [threading.active_count() - self._threads],
            "connections": [self._counted()] if self._counted else [],
            "lost": [lost],
            "cpu": [100 * self._spent / (self._ended - self._begun_steady)],
            "first_us": [(self._cpu - self._first) / holds * 1e6],
            "acquire_us": [(self._acquired - self._begun) / holds * 1e6],
            "bytes": [memory * 1024 / holds],
        }


def in_threads(url: str, holds: int, ttl: float, seconds: float, counted: Counted) -> Reading:
    """Acquire the holds, wait, check each, and release them, in threads."""
    watch = Watch(threading.active_count(), counted)
    with Client(url, ttl=ttl) as client:
        held = [client.lock(f"bench:{number}").acquire() for number in range(holds)]
        watch.held()
        time.sleep(ttl * _ONCE)
        watch.renewed()
        time.sleep(seconds)
        watch.over()
        reading = watch.reading(holds, sum(map(_lost, held)))
        for hold in held:
            hold.release()
    return reading


def in_loop(url: str, holds: int, ttl: float, seconds: float, counted: Counted) -> Reading:
    """Do the same as `in_threads` under asyncio."""

    async def work() -> Reading:
        watch = Watch(threading.active_count(), counted)
        async with AsyncClient(url, ttl=ttl) as client:
            held = [await client.lock(f"bench:{number}").acquire() for number in range(holds)]
            watch.held()
            await asyncio.sleep(ttl * _ONCE)
            watch.renewed()
            await asyncio.sleep(seconds)
            watch.over()
            reading = watch.reading(holds, sum(map(_lost, held)))
            for hold in held:
                await hold.release()
        return reading

    return asyncio.run(work())


def _lost(hold: Hold | AsyncHold) -> bool:
    try:
        hold.check()
    except LockLost:
        return True
    return False
