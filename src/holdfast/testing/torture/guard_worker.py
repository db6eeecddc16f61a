"""A process that reads values through guards, changes their source, and records its actions."""

from __future__ import annotations

import fcntl
import os
import random
import struct
import threading
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import HoldfastError
from ..faces import now
from ..faults.stage import Stage
from .process import Process

KEYS, LANES = 3, 4
#: Part of the turns that change the source; maximum seconds of the pause after a turn, and of each
#: of the two pauses of a computation.
CHANGE_PART, PAUSE_S, COMPUTE_S = 0.1, 0.005, 0.02
#: Maximum seconds from the message to end until each thread or task has ended.
REST_S = 50.0
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"ttl": 0.3},
    "stale": {"ttl": 0.2, "stale": 2.0},
    "behind": {"ttl": 0.2, "stale": 2.0, "refresh": "background"},
    "early": {"ttl": 0.3, "stale": 1.0, "early": 3.0, "jitter": 0.5},
}
_RECORD = struct.Struct("<q")


class Work(NamedTuple):
    """The options that all processes of a run share."""

    store: str
    folder: str
    seed: int


def work(stage: Stage, number: int, face: str, options: list[Any]) -> None:
    """Read and change values until the message to end; the workers of a run execute this."""
    Worker(stage, f"worker-{number}", face, Work(*options)).live()


class Source:
    """The source of the guards' values: a version for each key, in a file for all processes."""

    def __init__(self, place: Path) -> None:
        self._fd = os.open(place / "versions", os.O_RDWR)
        self._alone = threading.Lock()

    def read(self, key: int) -> int:
        """Return the version of a key."""
        data = os.pread(self._fd, _RECORD.size, key * _RECORD.size)
        return int(_RECORD.unpack(data)[0]) if len(data) == _RECORD.size else 0

    def change(self, place: Path, key: int) -> int:
        """Write the next version and return it, one process and one thread at a time.

        A file lock admits all threads of its process, and the close of any of its files frees it.
        """
        with self._alone, open(place / f"lock.{key}", "w", encoding="ascii") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            version = self.read(key) + 1
            os.pwrite(self._fd, _RECORD.pack(version), key * _RECORD.size)
            return version


class Worker(Process):
    """A worker that reads and changes values with ``LANES`` threads or tasks."""

    def __init__(self, stage: Stage, name: str, face: str, options: Work) -> None:
        super().__init__(stage, name, face, options)
        self._source = Source(self._folder)
        self._guards: dict[str, Any] = {
            kind: self._client.guard(f"torture {self._folder}", lease=1.0, timeout=10.0, **given)
            for kind, given in KINDS.items()
        }
        self._ended = False

    async def work(self) -> None:
        """Run all threads or tasks until the message to end."""
        lanes = [self._face.start(self._lane) for _ in range(LANES)]
        while not self.asked_to_end():
            await self._face.sleep(0.02)
        self._ended = True
        for lane in lanes:
            await lane.result(REST_S)

    async def _lane(self) -> None:
        dice = random.Random(self._dice.random())
        while not self._ended:
            key = str(dice.randrange(KEYS))
            try:
                if dice.random() < CHANGE_PART:
                    await self._change(key)
                else:
                    await self._get(key, dice)
            except HoldfastError as failure:
                self._recorder.error(key, failure)
            await self._face.sleep(dice.random() * PAUSE_S)

    async def _get(self, key: str, dice: random.Random) -> None:
        async def compute() -> int:
            await self._face.sleep(dice.random() * COMPUTE_S)
            version = self._source.read(int(key))
            await self._face.sleep(dice.random() * COMPUTE_S)
            self._recorder.computed(key, version)
            return version

        kind, asked = dice.choice(sorted(self._guards)), now()
        value = await self._guards[kind].get(compute, key=key)
        self._recorder.got(asked, key, value, kind)

    async def _change(self, key: str) -> None:
        version = self._source.change(self._folder, int(key))
        await self._guards["plain"].invalidate(key)
        self._recorder.changed(key, version)
