"""The work of a task at its cancellation: a verb whose request is under way."""

from __future__ import annotations

import asyncio
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
