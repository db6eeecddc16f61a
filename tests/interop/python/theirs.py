"""The lock clients of other Python libraries, called as their users call them."""

from __future__ import annotations

import logging
from typing import Any

import pottery
import redis
import redis.asyncio
import redis_lock
from redis.exceptions import LockError

from tests.interop.python.ours import Loop

#: Seconds between two polls of a client that polls and has this option.
LOOK_S = 0.005


class Plain:
    """The parts that most of the clients share."""

    #: The library's error for a release of what is not held.
    refusal: type[Exception] = LockError

    def open(self, server: str, url: str, watchdog: float) -> None:
        # Some clients wait inside one command, for longer than the usual time-out of a command.
        self._client: Any = redis.Redis.from_url(server, socket_timeout=None)
        self._watchdog = watchdog

    def stranger(self, name: str) -> Any:
        """A lock object of another client, which doesn't hold."""
        raise NotImplementedError

    def release(self, hold: Any) -> bool:
        try:
            hold.release()
        except self.refusal:
            return False
        return True

    def steal(self, name: str, kind: str) -> str:
        try:
            self.stranger(name).release()
        except self.refusal as refusal:
            return str(refusal) or type(refusal).__name__
        return ""

    def fence(self, hold: Any) -> int:
        return 0

    def close(self) -> None:
        self._client.close()


class RedisPy(Plain):
    """redis-py's ``Lock``; without a lease the hold doesn't expire."""

    def acquire(self, name: str, kind: str, wait: float, lease: float) -> Any:
        lock = self._client.lock(name, timeout=lease or None, sleep=LOOK_S)
        return lock if lock.acquire(blocking=wait > 0, blocking_timeout=wait or None) else None

    def stranger(self, name: str) -> Any:
        lock = self._client.lock(name)
        lock.local.token = b"somebody's"
        return lock


class RedisPyAsync(Plain):
    """redis-py's ``Lock`` for asyncio; its token belongs to the thread of the loop."""

    def __init__(self) -> None:
        self._run = Loop().run

    def open(self, server: str, url: str, watchdog: float) -> None:
        self._client = redis.asyncio.Redis.from_url(server)

    def acquire(self, name: str, kind: str, wait: float, lease: float) -> Any:
        async def acquired() -> Any:
            lock = self._client.lock(name, timeout=lease or None, sleep=LOOK_S)
            held = await lock.acquire(blocking=wait > 0, blocking_timeout=wait or None)
            return Waited(self._run, lock.release) if held else None

        return self._run(acquired())

    def stranger(self, name: str) -> Any:
        async def release() -> None:
            lock = self._client.lock(name)
            lock.local.token = b"somebody's"
            await lock.release()

        return Waited(self._run, release)

    def close(self) -> None:
        self._run(self._client.aclose())


class Waited:
    """A lock whose release is a coroutine function."""

    def __init__(self, run: Any, release: Any) -> None:
        async def released() -> None:
            await release()

        self.release = lambda: run(released())


class PythonRedisLock(Plain):
    """python-redis-lock, which takes whole seconds and waits no longer than its lease."""

    refusal = redis_lock.NotAcquired

    def acquire(self, name: str, kind: str, wait: float, lease: float) -> Any:
        whole = max(1, int(lease or self._watchdog))
        lock = redis_lock.Lock(self._client, name, expire=whole, auto_renewal=not lease)
        if not wait:
            return lock if lock.acquire(blocking=False) else None
        return lock if lock.acquire(timeout=max(1, min(int(wait), whole))) else None

    def stranger(self, name: str) -> Any:
        return redis_lock.Lock(self._client, name, id="somebody's")


class Pottery(Plain):
    """pottery's ``Redlock`` with one master, which polls at least every 200 ms."""

    refusal = pottery.ReleaseUnlockedLock

    def open(self, server: str, url: str, watchdog: float) -> None:
        super().open(server, url, watchdog)
        logging.getLogger("pottery").setLevel(logging.CRITICAL)

    def acquire(self, name: str, kind: str, wait: float, lease: float) -> Any:
        lock = pottery.Redlock(
            key=name, masters={self._client}, auto_release_time=lease or self._watchdog
        )
        return lock if lock.acquire(blocking=wait > 0, timeout=wait or -1) else None

    def stranger(self, name: str) -> Any:
        lock = pottery.Redlock(key=name, masters={self._client})
        lock._uuid = "somebody's"
        return lock
