"""Many threads or tasks of one process, each with a different name: locks per second.

All share one client. Each use makes a new lock object, in ``with``, as in a web server.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path

from .. import crew, regimes
from ..contenders import Arena, Contender, Face, Shared
from ..model import Case, Column, Metric, Panel, Reading
from ..scale import Scale

_AFTER_S = 60.0

METRICS = (
    Metric(Column("rate", "locks/s", "ratio"), "rate"),
    Metric(Column("cpu", "CPU µs per lock"), "cpu_us"),
)


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return a panel for each number of threads, and for each number of tasks."""
    kinds: tuple[tuple[Face, int], ...] = (
        ("asyncio", 100),
        ("asyncio", 1000),
        ("threads", 8),
        ("threads", 32),
    )
    found = []
    for face, count in kinds:
        of = [one for one in arena.contenders if one.shared is not None and one.face == face]
        words = "threads" if face == "threads" else "tasks"
        key = f"{words}-{count}"
        found.append(
            Panel(
                key=key,
                title=f"{count:,} {words} of one process, a name for each",
                regime=regimes.SPREAD,
                cases=[
                    Case(one.label, functools.partial(read, one, count, scale.of(1.5, 0.1)))
                    for one in of
                    if not one.missing
                ],
                metrics=METRICS,
                reference=arena.reference_of(key),
                rounds=scale.rounds_of(7, 1),
                targets=arena.targets.get(key, ()),
                absent={one.label: one.missing for one in of if one.missing},
            )
        )
    return found


def read(taker: Contender, count: int, seconds: float, place: Path) -> Reading:
    """Let ``count`` threads or tasks of a new process take locks for ``seconds`` seconds."""
    assert taker.shared is not None
    make = taker.shared

    def work() -> Reading:
        if taker.face == "asyncio":
            return asyncio.run(_tasks(make, place, count, seconds))
        return _threads(make, place, count, seconds)

    return crew.alone(work, seconds + _AFTER_S)


class Clock:
    """Measures the time and the processor's time from its creation to the call of `reading`."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def reading(self, locks: int) -> Reading:
        """Return the rate and the processor's time per lock, for this number of locks."""
        cpu = time.process_time() - self._cpu
        return {
            "rate": [locks / (time.perf_counter() - self._wall)],
            "cpu_us": [cpu / locks * 1e6],
        }


async def _tasks(
    make: Callable[[Path], Shared], place: Path, count: int, seconds: float
) -> Reading:
    shared = make(place)
    uses = [shared.use(f"{place.name}:{number}") for number in range(count)]
    await asyncio.gather(*(use() for use in uses))
    clock = Clock()
    end = time.monotonic() + seconds

    async def again(use: Callable[[], asyncio.Future[None]]) -> int:
        done = 0
        while time.monotonic() < end:
            await use()
            done += 1
        return done

    reading = clock.reading(sum(await asyncio.gather(*(again(use) for use in uses))))
    await shared.close()
    return reading


def _threads(make: Callable[[Path], Shared], place: Path, count: int, seconds: float) -> Reading:
    shared = make(place)
    counts = [0] * count
    start = threading.Barrier(count + 1)
    end = time.monotonic() + _AFTER_S

    def again(number: int) -> None:
        use = shared.use(f"{place.name}:{number}")
        use()
        start.wait(_AFTER_S)
        done = 0
        while time.monotonic() < end:
            use()
            done += 1
        counts[number] = done

    crowd = [threading.Thread(target=again, args=(number,), daemon=True) for number in range(count)]
    for thread in crowd:
        thread.start()
    end = time.monotonic() + _AFTER_S
    start.wait(_AFTER_S)
    end = time.monotonic() + seconds
    clock = Clock()
    for thread in crowd:
        thread.join(seconds + _AFTER_S)
    if 0 in counts:
        raise crew.Failed(f"{counts.count(0)} of {count} threads came to nothing")
    return clock.reading(sum(counts))
