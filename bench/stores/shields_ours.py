"""Our own guards, for any store, on both faces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from holdfast import AsyncClient, Client

from ..shields import Shielder

NAME = "bench"
#: What a process that dies while it computes costs the others.
LEASE_S = 2.0


class Guarded:
    """A guard for threads."""

    def __init__(self, url: str, place: Path, **options: Any) -> None:
        self._client = Client(url)
        self._guard = self._client.guard(f"{NAME}:{place}", **options)

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        return self._guard.get(compute, key=key)

    def close(self) -> None:
        self._client.close()


class GuardedTasks:
    """A guard for asyncio."""

    def __init__(self, url: str, place: Path, **options: Any) -> None:
        self._client = AsyncClient(url)
        self._guard = self._client.guard(f"{NAME}:{place}", **options)

    async def get(self, key: str, compute: Callable[[], Awaitable[Any]]) -> Any:
        return await self._guard.get(compute, key=key)

    async def close(self) -> None:
        await self._client.close()


def _terms(ttl: float, stale: float) -> dict[str, Any]:
    """Where an old value may be served nobody waits for the next one."""
    how = "background" if stale else "foreground"
    return {"ttl": ttl, "stale": stale, "refresh": how, "lease": LEASE_S}


def shielders(url: Callable[[Path], str]) -> list[Shielder]:
    """Ours: as it comes on both faces, and with the layer in the process."""
    return [
        Shielder(
            "holdfast",
            lambda place, ttl, stale: Guarded(url(place), place, **_terms(ttl, stale)),
            stale=True,
        ),
        Shielder(
            "holdfast, asyncio",
            lambda place, ttl, stale: GuardedTasks(url(place), place, **_terms(ttl, stale)),
            face="asyncio",
            stale=True,
        ),
        Shielder(
            "holdfast, in the process",
            lambda place, ttl, stale: Guarded(
                url(place), place, ttl=ttl, stale=stale, local=min(0.5, ttl / 4)
            ),
        ),
    ]
