"""The lock clients of other Python libraries, called as their users call them."""

from __future__ import annotations

import logging
from typing import Any

import pottery
import redis
import redis.asyncio
import redis_lock
from redis.exceptions import LockError

from tests.interop.python.client import Loop

#: Seconds between two polls of a client that polls and has this option.
LOOK_S = 0.005


class Plain:
    """The parts that most of the clients share."""

    def open(self, server: str, url: str, watchdog: float) -> None:
        # Some clients wait inside one command, for longer than the usual time-out of a command.
        self._client = redis.Redis.from_url(server, socket_timeout=None)
        self._watchdog = watchdog

    def fence(self, hold: Any) -> int:
        return 0

    def close(self) -> None:
        self._client.close()


class RedisPy(Plain):
    """redis-py's ``Lock``; without a lease the hold doesn't expire."""

    def acquire(self, name: str, kind: str, wait: float, lease: float) -> Any:
        lock = self._client.lock(name, timeout=lease or None, sleep=LOOK_S)
        return lock if lock.acquire(blocking=wait > 0, blocking_timeout=wait or None) else None

    def release(self, hold: Any) -> bool:
        try:
            hold.release()
        except LockError:
            return False
        return True

    def steal(self, name: str, kind: str) -> str:
        lock = self._client.lock(name)
        lock.local.token = b"somebody's"
        try:
            lock.release()
        except LockError as refusal:
            return str(refusal)
        return ""


class RedisPyAsync:
    """redis-py's ``Lock`` for asyncio."""

    def __init__(self) -> None:
        self._loop = Loop()

    def open(self, server: str, url: str, watchdog: float) -> None:
        async def opened() -> redis.asyncio.Redis:
            return redis.asyncio.Redis.from_url(server)

        self._client = self._loop.run(opened())

    def acquire(self, name: str, kind: str, wait: float, lease: float) -> Any:
        async def acquired() -> Any:
            lock = self._client.lock(name, timeout=lease or None, sleep=LOOK_S)
            held = await lock.acquire(blocking=wait > 0, blocking_timeout=wait or None)
            return lock if held else None

        return self._loop.run(acquired())

    def release(self, hold: Any) -> bool:
        try:
            self._loop.run(hold.release())
        except LockError:
            return False
        return True

    def steal(self, name: str, kind: str) -> str:
        async def stolen() -> str:
            lock = self._client.lock(name)
            lock.local.token = b"somebody's"
            try:
                await lock.release()
            except LockError as refusal:
                return str(refusal)
            return ""

        return self._loop.run(stolen())

    def fence(self, hold: Any) -> int:
        return 0

    def close(self) -> None:
        self._loop.run(self._client.aclose())


class PythonRedisLock(Plain):
    """python-redis-lock, which takes whole seconds and waits no longer than its lease."""

    def acquire(self, name: str, kind: str, wait: float, lease: float) -> Any:
        whole = max(1, int(lease or self._watchdog))
        lock = redis_lock.Lock(self._client, name, expire=whole, auto_renewal=not lease)
        if not wait:
            return lock if lock.acquire(blocking=False) else None
        return lock if lock.acquire(timeout=max(1, min(int(wait), whole))) else None

    def release(self, hold: Any) -> bool:
        try:
            hold.release()
        except redis_lock.NotAcquired:
            return False
        return True

    def steal(self, name: str, kind: str) -> str:
        try:
            redis_lock.Lock(self._client, name, id="somebody's").release()
        except redis_lock.NotAcquired as refusal:
            return str(refusal)
        return ""


class Pottery(Plain):
    """pottery's ``Redlock`` with one master, which polls at least every 200 ms."""

    def open(self, server: str, url: str, watchdog: float) -> None:
        super().open(server, url, watchdog)
        logging.getLogger("pottery").setLevel(logging.CRITICAL)

    def acquire(self, name: str, kind: str, wait: float, lease: float) -> Any:
        lock = pottery.Redlock(
            key=name, masters={self._client}, auto_release_time=lease or self._watchdog
        )
        return lock if lock.acquire(blocking=wait > 0, timeout=wait or -1) else None

    def release(self, hold: Any) -> bool:
        try:
            hold.release()
        except pottery.ReleaseUnlockedLock:
            return False
        return True

    def steal(self, name: str, kind: str) -> str:
        lock = pottery.Redlock(key=name, masters={self._client})
        lock._uuid = "somebody's"
        try:
            lock.release()
        except pottery.ReleaseUnlockedLock as refusal:
            return str(refusal) or type(refusal).__name__
        return ""


class Careless(Plain):
    """A lock that deletes whatever is at the key; the tests must notice it."""

    def acquire(self, name: str, kind: str, wait: float, lease: float) -> Any:
        self._client.delete(name)
        return name

    def release(self, hold: Any) -> bool:
        self._client.delete(hold)
        return True

    def steal(self, name: str, kind: str) -> str:
        self._client.delete(name)
        return ""
