"""Grips on our own locks, for any store: both faces, and a lock object that is made anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast import AsyncClient, AsyncHold, Client, Hold

NAME = "bench"


class Kept:
    """A lock object that is kept; each acquire gives a hold, which is released."""

    def __init__(self, url: str) -> None:
        self._client = Client(url)
        self._lock = self._client.lock(NAME)
        self._hold: Hold | None = None

    async def take(self) -> None:
        self._hold = self._lock.acquire()

    async def within(self, seconds: float) -> bool:
        self._hold = self._lock.acquire(timeout=seconds)
        return self._hold is not None

    async def free(self) -> None:
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    async def close(self) -> None:
        self._client.close()

    def pair(self) -> Callable[[], object]:
        acquire = self._lock.acquire

        def pair() -> None:
            acquire().release()

        return pair


class Anew(Kept):
    """A lock object per use, in ``with``: how most people write it."""

    def pair(self) -> Callable[[], object]:
        client = self._client

        def pair() -> None:
            with client.lock(NAME):
                pass

        return pair


class Asyncio:
    """The face for asyncio, with a lock object that is kept."""

    def __init__(self, url: str) -> None:
        self._client = AsyncClient(url)
        self._lock = self._client.lock(NAME)
        self._hold: AsyncHold | None = None

    async def take(self) -> None:
        self._hold = await self._lock.acquire()

    async def within(self, seconds: float) -> bool:
        self._hold = await self._lock.acquire(timeout=seconds)
        return self._hold is not None

    async def free(self) -> None:
        if self._hold is not None:
            await self._hold.release()
            self._hold = None

    async def close(self) -> None:
        await self._client.close()

    def pair(self) -> Callable[[], object]:
        lock = self._lock

        async def pair() -> None:
            await (await lock.acquire()).release()

        return pair


def kept(url: Callable[[Path], str]) -> Callable[[Path], Kept]:
    """Opens a grip on the store of a folder."""
    return lambda place: Kept(url(place))


def anew(url: Callable[[Path], str]) -> Callable[[Path], Anew]:
    """Opens a grip on the store of a folder."""
    return lambda place: Anew(url(place))


def on_loop(url: Callable[[Path], str]) -> Callable[[Path], Asyncio]:
    """Opens a grip on the store of a folder."""
    return lambda place: Asyncio(url(place))
