"""Grips on the locks of other libraries, each used in the way that its documentation shows."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..contenders import peer

#: Time-out in seconds for peers that need one; it is never reached.
LONG_S = 60.0


class Flock:
    """The bare system call on a descriptor that stays open."""

    def __init__(self, place: Path) -> None:
        self._fd = os.open(place / "flock", os.O_RDWR | os.O_CREAT, 0o600)

    async def take(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    async def within(self, seconds: float) -> bool:
        raise RuntimeError("flock(2) has no time-out")

    async def free(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    async def close(self) -> None:
        os.close(self._fd)

    def pair(self) -> Callable[[], object]:
        fd, flock, take, free = self._fd, fcntl.flock, fcntl.LOCK_EX, fcntl.LOCK_UN

        def pair() -> None:
            flock(fd, take)
            flock(fd, free)

        return pair


class _Peer:
    """A grip on a lock object that has ``acquire`` and ``release``."""

    lock: Any

    async def take(self) -> object:
        return self.lock.acquire()

    async def within(self, seconds: float) -> bool:
        return bool(self.lock.acquire(timeout=seconds))

    async def free(self) -> object:
        return self.lock.release()

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    def pair(self) -> Callable[[], object]:
        acquire, release = self.lock.acquire, self.lock.release

        def pair() -> None:
            acquire()
            release()

        return pair


class FileLock(_Peer):
    """filelock's ``FileLock``, which polls every 50 ms."""

    def __init__(self, place: Path) -> None:
        filelock = peer("filelock")
        self.lock = filelock.FileLock(str(place / "filelock"))
        self._busy: type[Exception] = filelock.Timeout

    async def within(self, seconds: float) -> bool:
        try:
            self.lock.acquire(timeout=seconds)
        except self._busy:
            return False
        return True


class AsyncFileLock:
    """filelock's ``AsyncFileLock``, which works in the loop's executor."""

    def __init__(self, place: Path) -> None:
        filelock = peer("filelock")
        self._lock = filelock.AsyncFileLock(str(place / "filelock"))
        self._busy: type[Exception] = filelock.Timeout

    async def take(self) -> object:
        return await self._lock.acquire()

    async def within(self, seconds: float) -> bool:
        try:
            await self._lock.acquire(timeout=seconds)
        except self._busy:
            return False
        return True

    async def free(self) -> object:
        return await self._lock.release()

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    def pair(self) -> Callable[[], object]:
        lock = self._lock

        async def pair() -> None:
            await lock.acquire()
            await lock.release()

        return pair


class Fasteners(_Peer):
    """fasteners' ``InterProcessLock``, which polls with pauses that grow from 10 to 100 ms."""

    def __init__(self, place: Path) -> None:
        self.lock = peer("fasteners").InterProcessLock(str(place / "fasteners"))


class DiskCache(_Peer):
    """diskcache's ``Lock``, a row in SQLite, which polls every millisecond and has no time-out."""

    def __init__(self, place: Path) -> None:
        diskcache = peer("diskcache")
        self._cache = diskcache.Cache(str(place / "diskcache"))
        self.lock = diskcache.Lock(self._cache, "bench", expire=LONG_S)

    async def close(self) -> None:
        self._cache.close()


class PortaLocker(_Peer):
    """portalocker's ``Lock``, which polls every 250 ms."""

    def __init__(self, place: Path) -> None:
        portalocker = peer("portalocker")
        self.lock = portalocker.Lock(str(place / "portalocker"), timeout=LONG_S)
        self._busy: type[Exception] = portalocker.exceptions.LockException

    async def within(self, seconds: float) -> bool:
        try:
            self.lock.acquire(timeout=seconds)
        except self._busy:
            return False
        return True
