"""The work of a task at its cancellation: a verb whose request is under way, or a wait in line."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

#: A coroutine function that uses a lock; after ``go`` is set, its next request is the one under
#: test.
Work = Callable[[Any, asyncio.Event, asyncio.Event], Coroutine[Any, Any, None]]


async def join(lock: Any, ready: asyncio.Event, go: asyncio.Event) -> None:
    ready.set()
    await go.wait()
    await lock.acquire()


async def enter(lock: Any, ready: asyncio.Event, go: asyncio.Event) -> None:
    ready.set()
    await go.wait()
    async with lock:
        raise AssertionError("the body runs although its task was cancelled")


async def keep(lock: Any, ready: asyncio.Event, go: asyncio.Event) -> None:
    async with lock as hold:
        ready.set()
        await go.wait()
        await hold.extend()


async def leave(lock: Any, ready: asyncio.Event, go: asyncio.Event) -> None:
    hold = await lock.acquire()
    ready.set()
    await go.wait()
    await hold.release()


async def strike_waiters(client: Any, name: str, crew: int, chance: random.Random) -> None:
    """Cancel some waiters while the holder releases; the other waiters are all served."""
    holder = await client.lock(name).acquire()
    tasks = [asyncio.create_task(_turn(client, name)) for _ in range(crew)]
    # Given tasks that are about to enter the line, or are in it
    await asyncio.sleep(chance.random() * 0.05)
    # When some are cancelled while the holder releases
    struck = [task for task in tasks if chance.random() < 0.7]
    release = asyncio.create_task(holder.release())
    for task in struck:
        task.cancel()
        await asyncio.sleep(0)
    assert await release
    # Then all others are served
    await asyncio.gather(*(task for task in tasks if task not in struck))
    for end in await asyncio.gather(*struck, return_exceptions=True):
        assert end is None or isinstance(end, asyncio.CancelledError)


async def _turn(client: Any, name: str) -> None:
    async with client.lock(name):
        pass
