"""A client while another session locks a row: it uses few sessions, and can renew and release."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

from holdfast import AsyncClient, Client, HoldfastError
from holdfast.testing import lag
from holdfast.testing.faces import Face
from tests.torture.scale import FULL

lag.watch()

#: Maximum seconds for a renewal and a release together. Without a separate connection they take 0.5
#: s or more.
SOON_S = 0.3
#: Seconds for which all threads or tasks try.
SECONDS = 10.0 if FULL else 2.0
THREADS = 10


def by_threads(url: str, name: str, sessions: Callable[[], int]) -> int:
    """The maximum number of sessions while threads try to get a name without waiting."""
    with Client(url) as client:
        end = time.monotonic() + SECONDS

        def work() -> None:
            while time.monotonic() < end:
                with contextlib.suppress(HoldfastError):
                    client.lock(name).acquire(timeout=0)

        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        most = 0
        while time.monotonic() < end:
            most = max(most, sessions())
            time.sleep(0.05)
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        return most


def by_tasks(url: str, name: str, sessions: Callable[[], int]) -> int:
    """The maximum number of sessions while tasks of one event loop try it."""

    async def main() -> int:
        async with AsyncClient(url) as client:
            end = time.monotonic() + SECONDS

            async def work() -> None:
                while time.monotonic() < end:
                    with contextlib.suppress(HoldfastError):
                        await client.lock(name).acquire(timeout=0)

            most = 0

            async def watch() -> None:
                nonlocal most
                while time.monotonic() < end:
                    most = max(most, await asyncio.to_thread(sessions))
                    await asyncio.sleep(0.05)

            await asyncio.gather(watch(), *(work() for _ in range(THREADS)))
            return most

    return asyncio.run(main())


#: The function that counts the sessions, for each face.
FACES = {"sync": by_threads, "asyncio": by_tasks}


def a_release_is_prompt(
    face: Face, url: str, name: str, stall: Callable[[], object], free: Callable[[], object]
) -> None:
    """Check that other holds are renewed and released while ``stall`` locks a row."""

    async def main() -> None:
        client = face.client(url)
        held = [await client.lock(f"{name}:{one}", ttl=12).acquire() for one in range(3)]
        await (await client.lock(name).acquire()).release()
        stop = False

        async def want() -> None:
            while not stop:
                with contextlib.suppress(HoldfastError):
                    async with client.lock(name, timeout=8):
                        pass

        await face.outside(stall)
        try:
            many = [face.start(want) for _ in range(THREADS)]
            took: list[float] = []
            for hold in held:
                await face.sleep(1.5)
                begun = time.monotonic()
                await hold.extend()
                assert await hold.release()
                took.append(time.monotonic() - begun - lag.since(begun))
                if took[-1] < SOON_S:
                    break
            stop = True
        finally:
            await face.outside(free)
        for one in many:
            await one.result(30)
        await client.close()
        assert took[-1] < SOON_S, took

    face.run(main, 60.0)
