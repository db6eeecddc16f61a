"""Functions that the subjects of these tests run, each in a separate process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import Any

from holdfast import AsyncClient, Client, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Strike
from holdfast.testing.faults.stage import Stage


def holds(stage: Stage, url: str, name: str, ttl: float = 30.0) -> None:
    """Acquire a name and report its fence; after any message, release it and report the result."""
    with Client(url) as client:
        hold = client.lock(name, ttl=ttl).acquire()
        stage.say(hold.fence)
        stage.hear()
        stage.say(hold.release())


async def holds_in_a_loop(stage: Stage, url: str, name: str, ttl: float = 30.0) -> None:
    """The same as ``holds``, under asyncio."""
    async with AsyncClient(url) as client:
        hold = await client.lock(name, ttl=ttl).acquire()
        stage.say(hold.fence)
        await asyncio.to_thread(stage.hear)
        stage.say(await hold.release())


def waits(stage: Stage, url: str, name: str) -> None:
    """Wait in line; when the name is held, report the fence and the time."""
    with Client(url) as client:
        stage.say("ready")
        hold = client.lock(name).acquire()
        stage.say([hold.fence, boottime()])
        stage.hear()


async def crowds(stage: Stage, url: str, many: int, label: str) -> None:
    """Acquire one lock with ``many`` tasks at once. Each task reports its fence, the time when it
    held, and the number of its attempts. The last message is the longest delay of the machine
    within a second."""
    lag.watch()
    async with AsyncClient(url, label=label) as client:
        served: list[list[Any]] = []

        async def one(number: int) -> None:
            asked, inside = 0, False
            while not inside:
                asked += 1
                with contextlib.suppress(StoreUnavailable):  # the store was busy: ask again
                    async with client.lock("x") as hold:
                        inside = True
                        served.append([number, hold.fence, boottime(), asked])

        begun = boottime()
        tasks = [asyncio.create_task(one(number)) for number in range(many)]
        stage.say("asked")
        await asyncio.gather(*tasks)
        # In portions, because the parent reads the pipe only message by message.
        for start in range(0, many, 100):
            stage.say(served[start : start + 100])
        stage.say(lag.most(begun, 1.0))


def holds_the_mutex(stage: Stage, url: str) -> None:
    """Stop this process inside a verb, while it holds the file mutex; work on after SIGCONT."""
    join = "holdfast.stores.sqlite.blocking.engine:Engine._join"
    with Client(url) as client:
        client.lock("warm").acquire().release()
        stage.say("ready")
        with Strike(1, lambda: os.kill(os.getpid(), signal.SIGSTOP), function=join):
            hold = client.lock("x").acquire()
        stage.say(hold.fence)
        hold.release()
