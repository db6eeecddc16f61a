"""What a task is at when it is cancelled: a verb whose request is under way, or a wait in line."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

#: Does something with this lock; when ``go`` is set, the request that is aimed at comes next.
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
    """Have some wait in line, and cancel part of them while the holder leaves; the others are
    served, each in its turn."""
    holder = await client.lock(name).acquire()
    tasks = [asyncio.create_task(_turn(client, name)) for _ in range(crew)]
    # Given a line of waiters, each somewhere on its way into it
    await asyncio.sleep(chance.random() * 0.05)
    # When some are cancelled, while the holder leaves
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
