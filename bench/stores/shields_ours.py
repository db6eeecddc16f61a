"""holdfast's guards, for any store, on both faces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from holdfast import AsyncClient, Client

from ..model import Target
from ..shields import WOKEN, Shielder

OURS, OURS_ASYNC, NEAR = "holdfast", "holdfast, asyncio", "holdfast, in the process"
NAME = "bench"
#: The refresh lease in seconds: waiters wait for its end if the computing process dies.
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
    """Return the guard's options: with a stale time, a refresh runs in the background."""
    how = "background" if stale else "foreground"
    return {"ttl": ttl, "stale": stale, "refresh": how, "lease": LEASE_S}


def shielders(url: Callable[[Path], str]) -> list[Shielder]:
    """Return holdfast's guards: on both faces, and one with a local cache."""
    return [
        Shielder(
            OURS,
            lambda place, ttl, stale: Guarded(url(place), place, **_terms(ttl, stale)),
            stale=True,
        ),
        Shielder(
            OURS_ASYNC,
            lambda place, ttl, stale: GuardedTasks(url(place), place, **_terms(ttl, stale)),
            face="asyncio",
            stale=True,
        ),
        Shielder(
            NEAR,
            lambda place, ttl, stale: Guarded(
                url(place), place, ttl=ttl, stale=stale, local_ttl=min(0.5, ttl / 4)
            ),
        ),
        WOKEN,
    ]


def targets(bare: str, bare_async: str) -> dict[str, list[Target]]:
    """Return our targets for every store, compared with a bare read on the same face."""
    both = ((OURS, bare), (OURS_ASYNC, bare_async))
    return {
        "guard-hit": [
            *(Target(ours, "p50", "ratio", at_most=1.15, against=read) for ours, read in both),
            Target(NEAR, "p50", "faster", at_least=20.0),
        ],
        "guard-miss": [
            Target(ours, column, "value", at_most=most)
            for ours, _ in both
            for column, most in (("computes", 1.0), ("p99", 250.0))
        ],
        "guard-expiry": [
            Target(ours, "p99", "ratio", at_most=1.2, against=read) for ours, read in both
        ],
        "guard-death": [Target(ours, "computes", "value", at_most=2.0) for ours, _ in both],
    }


def references(bare: str, by_hand: str = OURS) -> dict[str, str]:
    """Return the reference of each panel: a bare read, or a guard written by hand."""
    return {
        "guard-hit": bare,
        "guard-miss": by_hand,
        "guard-expiry": bare,
        "guard-death": OURS,
        "guard-traffic": by_hand,
    }
