"""A process that reads through guards, changes their source, and writes down what it saw."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import json
import os
import random
import signal
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ...aio import AsyncClient
from ...errors import HoldfastError
from ...runtime.blocking import boottime, run_sync
from ...sync import Client
from ..histories import Recorder
from .torture import KEYS

LANES = 4
#: A number of Linux's ``prctl``.
PR_SET_PDEATHSIG = 1
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"ttl": 0.3},
    "stale": {"ttl": 0.2, "stale": 2.0},
    "behind": {"ttl": 0.2, "stale": 2.0, "refresh": "background"},
    "early": {"ttl": 0.3, "stale": 1.0, "early": 3.0, "jitter": 0.5},
}
_RECORD = struct.Struct("<q")


class Source:
    """What the guards stand before: a version for each key, in a file that all processes have."""

    def __init__(self, place: Path) -> None:
        self._fd = os.open(place / "versions", os.O_RDWR)

    def read(self, key: int) -> int:
        """The version."""
        data = os.pread(self._fd, _RECORD.size, key * _RECORD.size)
        return int(_RECORD.unpack(data)[0]) if len(data) == _RECORD.size else 0

    def change(self, place: Path, key: int) -> int:
        """The next version; one process at a time."""
        with open(place / f"lock.{key}", "w", encoding="ascii") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            version = self.read(key) + 1
            os.pwrite(self._fd, _RECORD.pack(version), key * _RECORD.size)
            return version


class Worker:
    """One lane of a process; written for asyncio, and run to its end in a thread as well."""

    def __init__(
        self, task: dict[str, Any], client: Any, history: Recorder, number: int, end: float
    ) -> None:
        self._place = Path(task["place"])
        self._end = end
        self._aio = bool(task["aio"])
        self._rng = random.Random(task["seed"] + number)
        self._history = history
        self._source = Source(self._place)
        self._guards = {
            kind: client.guard(f"torture {self._place}", lease=1.0, timeout=10.0, **options)
            for kind, options in KINDS.items()
        }

    async def main(self) -> None:
        """Until the end."""
        while boottime() < self._end:
            key = self._rng.randrange(KEYS)
            try:
                await (self._change(key) if self._rng.random() < 0.1 else self._get(key))
            except HoldfastError as failure:
                self._history.error(str(key), failure)
            await self._pause(0.005)

    async def _pause(self, longest: float) -> None:
        seconds = self._rng.random() * longest
        if self._aio:
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251 - the face that blocks

    async def _compute(self, key: int) -> int:
        await self._pause(0.02)
        version = self._source.read(key)
        await self._pause(0.02)
        self._history.computed(str(key), version)
        return version

    async def _get(self, key: int) -> None:
        kind = self._rng.choice(sorted(self._guards))
        guard, begun = self._guards[kind], boottime()
        if self._aio:
            value = await guard.get(lambda: self._compute(key), key=str(key))
        else:
            value = guard.get(lambda: run_sync(self._compute(key)), key=str(key))
        self._history.got(begun, str(key), value, kind)

    async def _change(self, key: int) -> None:
        version = self._source.change(self._place, key)
        done = self._guards["plain"].invalidate(str(key))
        if self._aio:
            await done
        self._history.changed(str(key), version)


def _end(place: Path) -> float:
    """Wait until it begins; when it ends."""
    while not (place / "end").exists():
        time.sleep(0.01)
    return float((place / "end").read_text(encoding="ascii"))


def _lanes(task: dict[str, Any], client: Any) -> list[Worker]:
    place, who = Path(task["place"]), f"process-{os.getpid()}"
    history = Recorder(place / f"{who}.jsonl", who)  # which says that we are there
    end = _end(place)
    return [Worker(task, client, history, number, end) for number in range(LANES)]


async def _tasks(task: dict[str, Any]) -> None:
    async with AsyncClient(task["store"]) as client:
        lanes = _lanes(task, client)
        await asyncio.gather(*(lane.main() for lane in lanes))


def _threads(task: dict[str, Any]) -> None:
    with Client(task["store"]) as client:
        lanes = _lanes(task, client)
        threads = [threading.Thread(target=run_sync, args=(lane.main(),)) for lane in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def main() -> None:
    """The process; it ends with the one that started it, where the kernel can see to that."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    task = json.loads(sys.argv[1])
    if task["aio"]:
        asyncio.run(_tasks(task))
    else:
        _threads(task)


if __name__ == "__main__":
    main()
