"""holdfast itself, with both of its faces, and the loop on which clients for asyncio run."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast import NotHeld
from holdfast.core.model import Leave
from holdfast.runtime.blocking import run_sync
from holdfast.testing.faces import FACES
from holdfast.url import find


class Loop:
    """An event loop in a separate thread; a client on it keeps running between two calls."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def wish(client: Any, name: str, kind: str, options: dict[str, Any]) -> Any:
    """Return the lock object for a kind of Redisson's locks; the URL selects its representation."""
    if kind in ("read", "write"):
        return getattr(client.rwlock(name, **options), kind)
    if kind in ("permits", "counted"):
        return client.semaphore(name, permits=1, **options)
    return client.lock(name, **options)


class Ours:
    """holdfast with one of its faces."""

    def __init__(self, face: str = "sync") -> None:
        self._face = FACES[face]
        self._run: Callable[[Coroutine[Any, Any, Any]], Any]
        self._run = run_sync if face == "sync" else Loop().run

    def open(self, server: str, url: str, watchdog: float) -> None:
        async def opened() -> Any:
            return self._face.client(url)

        self._url, self._watchdog = url, watchdog
        self._client = self._run(opened())

    def acquire(self, name: str, kind: str, wait: float, lease: float) -> Any:
        async def acquired() -> Any:
            terms = {"ttl": lease, "auto_renew": False} if lease else {"ttl": self._watchdog}
            lock = wish(self._client, name, kind, terms)
            return await (lock.acquire(timeout=wait) if wait else lock.acquire(blocking=False))

        return self._run(acquired())

    def release(self, hold: Any) -> bool:
        async def released() -> bool:
            return bool(await hold.release())

        return bool(self._run(released()))

    def steal(self, name: str, kind: str) -> str:
        """Try the public method, which refuses without a request, and the verb, which sends one."""

        async def stolen() -> str:
            try:
                await wish(self._client, name, kind, {}).release()
            except NotHeld as refusal:
                return str(refusal)
            return ""

        said = str(self._run(stolen()))
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
        async def closed() -> None:
            await self._client.close()

        self._run(closed())
