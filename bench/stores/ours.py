"""Grips on holdfast's locks, for any store: both faces, with kept and with new lock objects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast import AsyncClient, AsyncHold, Client, Hold, StoreUnavailable

NAME = "bench"
#: Number of names that are held together in the suite ``several``.
SEVERAL = 10


def one_name(_place: Path) -> str:
    """Return the name of a folder's lock if each folder has its own store."""
    return NAME


def own_name(place: Path) -> str:
    """Return the name of a folder's lock if all folders share one store."""
    return f"bench:{place.name}"


def several_of(name: str) -> list[str]:
    """Return the names that are held together for this name."""
    return [f"{name}:{number}" for number in range(SEVERAL)]


class Kept:
    """One lock object for all acquires; each acquire returns a hold, which is released."""

    def __init__(self, url: str, name: str = NAME) -> None:
        self._client = Client(url)
        self._name = name
        self._lock = self._client.lock(name)
        self._hold: Hold | None = None

    async def take(self) -> None:
        self._hold = self._lock.acquire()

    async def within(self, seconds: float) -> bool:
        try:
            self._hold = self._lock.acquire(timeout=seconds)
        except StoreUnavailable:  # no answer in time; the delay of this error is measured too
            return False
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

    def entered(self) -> Callable[[], object]:
        """Acquire a reentrant lock; return a function that enters it again and leaves it."""
        lock = self._client.lock(self._name, reentrant=True)
        self._hold = lock.acquire()
        return lambda: lock.acquire().release()


class Anew(Kept):
    """A new lock object for each use, in ``with``, which is the usual way."""

    def pair(self) -> Callable[[], object]:
        client, name = self._client, self._name

        def pair() -> None:
            with client.lock(name):
                pass

        return pair


class Asyncio:
    """The face for asyncio, with one lock object for all acquires."""

    def __init__(self, url: str, name: str = NAME) -> None:
        self._client = AsyncClient(url)
        self._name = name
        self._lock = self._client.lock(name)
        self._hold: AsyncHold | None = None

    async def take(self) -> None:
        self._hold = await self._lock.acquire()

    async def within(self, seconds: float) -> bool:
        try:
            self._hold = await self._lock.acquire(timeout=seconds)
        except StoreUnavailable:
            return False
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


class Threads:
    """One client for many threads, and a new lock object for each use."""

    def __init__(self, url: str) -> None:
        self._client = Client(url)

    def use(self, name: str, inside: Callable[[], object] = list) -> Callable[[], Any]:
        client = self._client

        def use() -> None:
            with client.lock(name):
                inside()

        return use

    async def close(self) -> None:
        self._client.close()


class AllOf(Threads):
    """Ten names that are acquired together with ``all``."""

    def use(self, name: str, inside: Callable[[], object] = list) -> Callable[[], Any]:
        client, names = self._client, several_of(name)

        def use() -> None:
            with client.all(*names):
                inside()

        return use


class Tasks:
    """One client for many tasks, and a new lock object for each use."""

    def __init__(self, url: str) -> None:
        self._client = AsyncClient(url)

    def use(self, name: str, inside: Callable[[], object] = list) -> Callable[[], Any]:
        client = self._client

        async def use() -> None:
            async with client.lock(name):
                inside()

        return use

    async def close(self) -> None:
        await self._client.close()


class AllOfTasks(Tasks):
    """Ten names that are acquired together with ``all``."""

    def use(self, name: str, inside: Callable[[], object] = list) -> Callable[[], Any]:
        client, names = self._client, several_of(name)

        async def use() -> None:
            async with client.all(*names):
                inside()

        return use


Named = Callable[[Path], str]


def kept(url: Callable[[Path], str], name: Named = one_name) -> Callable[[Path], Kept]:
    """Return a function that opens such a grip on the store of a folder."""
    return lambda place: Kept(url(place), name(place))


def anew(url: Callable[[Path], str], name: Named = one_name) -> Callable[[Path], Anew]:
    """Return a function that opens such a grip on the store of a folder."""
    return lambda place: Anew(url(place), name(place))


def on_loop(url: Callable[[Path], str], name: Named = one_name) -> Callable[[Path], Asyncio]:
    """Return a function that opens such a grip on the store of a folder."""
    return lambda place: Asyncio(url(place), name(place))
