"""Ways to have a value computed once and read often, in the same clothes, and what is done by them.

A shield is what one process has of one guarded cache. Those for asyncio are opened and used inside
of an event loop.
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

#: What is computed.
VALUE = "x" * 100
#: What the source usually takes for it, in seconds.
COST_S = 0.2


class Shield(Protocol):
    """One process's way to guarded values. For asyncio ``get`` and ``close`` are coroutines."""

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        """The value of the key."""
        ...

    def close(self) -> Any:
        """End what was opened for it."""
        ...


@dataclass(frozen=True)
class Shielder:
    """A way to guard values. ``open`` gives this process's shield, with a ttl and a stale time."""

    label: str
    open: Callable[[Path, float, float], Shield]
    face: Literal["threads", "asyncio"] = "threads"
    package: str = ""
    #: It only reads; nothing is computed by it.
    reads: bool = False
    #: It may serve an old value while the next is computed.
    stale: bool = False
    #: It only shows what it takes to wake so many.
    floor: bool = False

    @property
    def missing(self) -> str:
        """Why it can't take part; empty if it can."""
        if self.package and importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed (pip install --group bench)"
        return ""


class Woken:
    """In each process one caller computes, and wakes the others by an event: nothing is shared
    between processes, so that it is what waking them takes at least."""

    def __init__(self, _place: Path, _ttl: float, _stale: float) -> None:
        self._events: dict[str, threading.Event] = {}
        self._values: dict[str, Any] = {}

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        """The value of the key."""
        event = threading.Event()
        found = self._events.setdefault(key, event)
        if found is event:
            self._values[key] = compute()
            event.set()
        else:
            found.wait()
        return self._values[key]

    def close(self) -> None:
        """Nothing was opened."""


WOKEN = Shielder("an Event, in each process", Woken, floor=True)


class Source:
    """What is guarded: slow, and it writes down when it is asked, in a file of the folder."""

    def __init__(self, place: Path, seconds: float) -> None:
        self._seconds = seconds
        self._log = os.open(place / "asked", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def _note(self) -> None:
        os.write(self._log, f"{time.monotonic():.6f}\n".encode())

    def compute(self) -> str:
        """Asked by a thread."""
        self._note()
        time.sleep(self._seconds)
        return VALUE

    async def acompute(self) -> str:
        """Asked by a task."""
        self._note()
        await asyncio.sleep(self._seconds)
        return VALUE


def asked(place: Path) -> list[float]:
    """When the source of this folder was asked."""
    log = place / "asked"
    return [float(line) for line in log.read_text().split()] if log.exists() else []


def hits(shielder: Shielder, place: Path, count: int) -> list[float]:
    """Read a fresh value so often, one after the other; microseconds of each."""
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
    """One call that is to be made at a moment, for a key; does it count, or only warm up?"""

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
    """Make the calls of each lane in a thread or task of its own, at their moments after the common
    start; milliseconds of each, from its moment. ``terms``: ttl, stale, cost of the source."""
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
    """It, as something that can be awaited."""
    if isinstance(made, Awaitable):
        return made

    async def there() -> Any:
        return made

    return there()
