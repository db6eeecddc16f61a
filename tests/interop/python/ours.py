"""holdfast itself, with both of its faces."""

from __future__ import annotations

import secrets
from typing import Any

from holdfast import AsyncClient, Client, NotHeld
from holdfast.core.model import Leave
from holdfast.runtime.blocking import run_sync
from holdfast.url import find
from tests.interop.python.client import Loop


def terms(lease: float, watchdog: float) -> dict[str, Any]:
    """The options of a lock: with this lease and no renewal, or renewed if ``lease`` is 0."""
    return {"ttl": lease, "auto_renew": False} if lease else {"ttl": watchdog}


def wish(client: Any, name: str, kind: str, options: dict[str, Any]) -> Any:
    """Return the lock object for a kind of Redisson's locks; the URL selects its representation."""
    if kind in ("read", "write"):
        return getattr(client.rwlock(name, **options), kind)
    if kind in ("permits", "counted"):
        return client.semaphore(name, permits=1, **options)
    return client.lock(name, **options)


class Ours:
    """holdfast for threads."""

    def open(self, server: str, url: str, watchdog: float) -> None:
        self._url, self._watchdog = url, watchdog
        self._client = Client(url)

    def acquire(self, name: str, kind: str, wait: float, lease: float) -> Any:
        lock = wish(self._client, name, kind, terms(lease, self._watchdog))
        return lock.acquire(timeout=wait) if wait else lock.acquire(blocking=False)

    def release(self, hold: Any) -> bool:
        return bool(hold.release())

    def steal(self, name: str, kind: str) -> str:
        """Try the public method, which refuses without a request, and the verb, which sends one."""
        try:
            wish(self._client, name, kind, {}).release()
        except NotHeld as refusal:
            said = str(refusal)
        module, parsed = find(self._url)
        store = module.open_blocking(parsed)
        try:
            there = run_sync(store.leave(Leave(name, secrets.token_hex(16), 1), 5.0))
        finally:
            run_sync(store.close())
        return "" if there else said

    def fence(self, hold: Any) -> int:
        return int(hold.fence) if self._client.supports("fences") else 0

    def close(self) -> None:
        self._client.close()


class OursAsync(Ours):
    """holdfast for asyncio."""

    def __init__(self) -> None:
        self._loop = Loop()

    def open(self, server: str, url: str, watchdog: float) -> None:
        self._url, self._watchdog = url, watchdog

        async def opened() -> AsyncClient:
            return AsyncClient(url)

        self._there = self._loop.run(opened())
        super().open(server, url, watchdog)

    def acquire(self, name: str, kind: str, wait: float, lease: float) -> Any:
        async def acquired() -> Any:
            lock = wish(self._there, name, kind, terms(lease, self._watchdog))
            return await (lock.acquire(timeout=wait) if wait else lock.acquire(blocking=False))

        return self._loop.run(acquired())

    def release(self, hold: Any) -> bool:
        async def released() -> bool:
            return bool(await hold.release())

        return self._loop.run(released())

    def close(self) -> None:
        async def closed() -> None:
            await self._there.close()

        self._loop.run(closed())
        super().close()
