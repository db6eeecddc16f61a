"""Grips on our own locks, for any store: both faces, and a lock object that is made anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast import AsyncClient, AsyncHold, Client, Hold, StoreUnavailable

NAME = "bench"
#: So many names are held together where several are.
SEVERAL = 10


def one_name(_place: Path) -> str:
    """The name of the lock of a folder with a store of its own."""
    return NAME


def own_name(place: Path) -> str:
    """The name of the lock of a folder where all folders share one store."""
    return f"bench:{place.name}"


def several_of(name: str) -> list[str]:
    """The names that this one stands for where several are held together."""
    return [f"{name}:{number}" for number in range(SEVERAL)]


class Kept:
    """A lock object that is kept; each acquire gives a hold, which is released."""

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
        except StoreUnavailable:  # no answer by then: how much later it says so is measured, too
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
        """Hold a reentrant lock; what enters it once more, and leaves it as often."""
        lock = self._client.lock(self._name, reentrant=True)
        self._hold = lock.acquire()
        return lambda: lock.acquire().release()


class Anew(Kept):
    """A lock object per use, in ``with``: how most people write it."""

    def pair(self) -> Callable[[], object]:
        client, name = self._client, self._name

        def pair() -> None:
            with client.lock(name):
                pass

        return pair


class Asyncio:
    """The face for asyncio, with a lock object that is kept."""

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
    """One client for many threads, a lock object per use."""

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
    """Ten names with ``all``."""

    def use(self, name: str, inside: Callable[[], object] = list) -> Callable[[], Any]:
        client, names = self._client, several_of(name)

        def use() -> None:
            with client.all(*names):
                inside()

        return use


class Tasks:
    """One client for many tasks, a lock object per use."""

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
    """Ten names with ``all``."""

    def use(self, name: str, inside: Callable[[], object] = list) -> Callable[[], Any]:
        client, names = self._client, several_of(name)

        async def use() -> None:
            async with client.all(*names):
                inside()

        return use


Named = Callable[[Path], str]


def kept(url: Callable[[Path], str], name: Named = one_name) -> Callable[[Path], Kept]:
    """Opens a grip on the store of a folder."""
    return lambda place: Kept(url(place), name(place))


def anew(url: Callable[[Path], str], name: Named = one_name) -> Callable[[Path], Anew]:
    """Opens a grip on the store of a folder."""
    return lambda place: Anew(url(place), name(place))


def on_loop(url: Callable[[Path], str], name: Named = one_name) -> Callable[[Path], Asyncio]:
    """Opens a grip on the store of a folder."""
    return lambda place: Asyncio(url(place), name(place))
