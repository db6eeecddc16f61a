"""Ways to compute a value once and read it often, with the same interface, and their measurement.

A *shield* is the object by which one process uses one guarded cache. A shield for asyncio is opened
and used inside an event loop.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

#: The value that the source computes.
VALUE = "x" * 100
#: Seconds that the source usually takes to compute it.
COST_S = 0.2


class Shield(Protocol):
    """The object by which one process reads guarded values.

    For asyncio, ``get`` and ``close`` are coroutine functions."""

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return the value of the key; call ``compute`` if there is none."""
        ...

    def close(self) -> Any:
        """Close the client and its connections."""
        ...


@dataclass(frozen=True)
class Shielder:
    """A way to guard values. ``open`` returns a shield with a ttl and a stale time, in seconds."""

    label: str
    open: Callable[[Path, float, float], Shield]
    face: Literal["threads", "asyncio"] = "threads"
    package: str = ""
    #: True if it only reads and never computes.
    reads: bool = False
    #: True if it can serve a stale value while the next one is computed.
    stale: bool = False
    #: True if it is a lower bound: it shows only the time that wake-ups take.
    floor: bool = False

    @property
    def missing(self) -> str:
        """The reason why the contender can't take part; empty if it can."""
        if self.package and importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed (pip install --group bench)"
        return ""


class Woken:
    """A lower bound: in each process one caller computes, and wakes the others by an Event.

    The processes share nothing, so this measures only the minimum time of the wake-ups."""

    def __init__(self, _place: Path, _ttl: float, _stale: float) -> None:
        self._events: dict[str, threading.Event] = {}
        self._values: dict[str, Any] = {}

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return the value of the key."""
        event = threading.Event()
        found = self._events.setdefault(key, event)
        if found is event:
            self._values[key] = compute()
            event.set()
        else:
            found.wait()
        return self._values[key]

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


WOKEN = Shielder("an Event, in each process", Woken, floor=True)


class Source:
    """The slow source of the values. It records the time of each call in a file of the folder."""

    def __init__(self, place: Path, seconds: float) -> None:
        self._seconds = seconds
        self._log = os.open(place / "asked", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def _note(self) -> None:
        os.write(self._log, f"{time.monotonic():.6f}\n".encode())

    def compute(self) -> str:
        """Compute the value in a thread."""
        self._note()
        time.sleep(self._seconds)
        return VALUE

    async def acompute(self) -> str:
        """Compute the value in a task."""
        self._note()
        await asyncio.sleep(self._seconds)
        return VALUE


def asked(place: Path) -> list[float]:
    """Return the times at which the source of this folder was called."""
    log = place / "asked"
    return [float(line) for line in log.read_text().split()] if log.exists() else []


def hits(shielder: Shielder, place: Path, count: int) -> list[float]:
    """Read a fresh value ``count`` times in sequence; return the microseconds of each read."""
    if shielder.face == "asyncio":
        return asyncio.run(_ahits(shielder, place, count))
    shield, source = shielder.open(place, 600.0, 0.0), Source(place, 0.0)
    found = []
    for _ in range(50):
        shield.get("hot", source.compute)
    for _ in range(count):
        begun = time.perf_counter_ns()
        shield.get("hot", source.compute)
        found.append((time.perf_counter_ns() - begun) / 1e3)
    shield.close()
    return found


async def _ahits(shielder: Shielder, place: Path, count: int) -> list[float]:
    shield, source = shielder.open(place, 600.0, 0.0), Source(place, 0.0)
    found = []
    for _ in range(50):
        await shield.get("hot", source.acompute)
    for _ in range(count):
        begun = time.perf_counter_ns()
        await shield.get("hot", source.acompute)
        found.append((time.perf_counter_ns() - begun) / 1e3)
    await shield.close()
    return found


class Call:
    """A planned call: ``when`` is in seconds after the start; ``counts``: it is measured."""

    __slots__ = ("counts", "key", "when")

    def __init__(self, when: float, key: str, counts: bool = True) -> None:
        self.when = when
        self.key = key
        self.counts = counts


def calls(
    shielder: Shielder,
    place: Path,
    lanes: list[list[Call]],
    terms: tuple[float, float, float],
    ready: Callable[[], float],
) -> list[float]:
    """Make the calls of each list in ``lanes`` in a separate thread or task, at their times.

    Return for each the milliseconds from its planned time to its end. ``terms``: ttl, stale time
    and cost of the source, in seconds."""
    if shielder.face == "asyncio":
        return asyncio.run(_acalls(shielder, place, lanes, terms, ready))
    shield, source = shielder.open(place, terms[0], terms[1]), Source(place, terms[2])
    shield.get("warm", lambda: VALUE)
    found: list[float] = []
    start = 0.0
    go = threading.Event()

    def lane(mine: list[Call]) -> None:
        go.wait()
        for call in mine:
            due = start + call.when
            time.sleep(max(0.0, due - time.monotonic()))
            shield.get(call.key, source.compute)
            if call.counts:
                found.append((time.monotonic() - due) * 1e3)

    threads = [threading.Thread(target=lane, args=(mine,)) for mine in lanes]
    for thread in threads:
        thread.start()
    start = ready()
    go.set()
    for thread in threads:
        thread.join()
    shield.close()
    return found


async def _acalls(
    shielder: Shielder,
    place: Path,
    lanes: list[list[Call]],
    terms: tuple[float, float, float],
    ready: Callable[[], float],
) -> list[float]:
    shield, source = shielder.open(place, terms[0], terms[1]), Source(place, terms[2])

    async def warm() -> str:
        return VALUE

    await shield.get("warm", warm)
    found: list[float] = []
    start = ready()

    async def lane(mine: list[Call]) -> None:
        for call in mine:
            due = start + call.when
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await shield.get(call.key, source.acompute)
            if call.counts:
                found.append((time.monotonic() - due) * 1e3)

    await asyncio.gather(*(lane(mine) for mine in lanes))
    await shield.close()
    return found


def awaited(made: Any) -> Awaitable[Any]:
    """Return an awaitable for a result that can be awaitable already."""
    if isinstance(made, Awaitable):
        return made

    async def there() -> Any:
        return made

    return there()
