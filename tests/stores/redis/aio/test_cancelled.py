"""Tasks that are cancelled between the request and its reply: nothing is ever left behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast import AsyncClient
from holdfast.testing.faults import Proxy
from tests.stores.redis.aio.conftest import Open, play, wire_of
from tests.stores.works import Work, enter, join, keep, leave, strike_waiters

#: The number of tasks that are cancelled together, each on a separate name.
CREW = 30
ROUNDS = 10
SEED = random.SystemRandom().randrange(1 << 32)
Look = Callable[[str], None]


async def exit_(lock: Any, ready: asyncio.Event, go: asyncio.Event) -> None:
    async with lock:
        ready.set()
        await go.wait()


def cancelled(work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
    """Return the work itself, so that a cancellation reaches it directly."""
    return work


async def timed(work: Coroutine[Any, Any, None]) -> None:
    """Run the work inside a ``wait_for``, which passes a cancellation on to it."""
    await asyncio.wait_for(work, 3600)


@pytest.mark.usual(8)
@pytest.mark.parametrize("around", [cancelled, timed])
@pytest.mark.parametrize("work", [join, enter, keep, leave, exit_])
def test_a_cancelled_task_leaves_nothing_behind(
    work: Work,
    around: Callable[[Coroutine[Any, Any, None]], Coroutine[Any, Any, None]],
    behind: Open,
    proxy: Proxy,
    own_name: str,
    nothing_left: Look,
) -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)

    async def main() -> None:
        async with behind() as client:
            for number in range(ROUNDS):
                await strike(client, f"{own_name}:{number}:")
        nothing_left(own_name)

    async def strike(client: AsyncClient, prefix: str) -> None:
        go = asyncio.Event()
        readies = [asyncio.Event() for _ in range(CREW)]
        crew = [
            asyncio.create_task(around(work(client.lock(f"{prefix}{at}"), ready, go)))
            for at, ready in enumerate(readies)
        ]
        for ready in readies:
            await ready.wait()
        # Given requests that are on their way, whose replies are held back
        proxy.hold("reply")
        go.set()
        while wire_of(client).under_way < CREW:
            await asyncio.sleep(0)
        for _ in range(dice.randrange(8)):
            await asyncio.sleep(0)
        # When each of these tasks is cancelled, some of them twice
        for task in crew:
            task.cancel()
        for task in crew:
            await asyncio.sleep(0)
            if dice.random() < 0.3:
                task.cancel()
        proxy.heal()
        # Then each task ends as cancelled
        ends = await asyncio.gather(*crew, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends

    play(main)


def test_a_cancelled_waiter_leaves_the_line(
    behind: Open, own_name: str, nothing_left: Look
) -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)

    async def main() -> None:
        async with behind() as client:
            for number in range(ROUNDS):
                await strike_waiters(client, f"{own_name}:{number}", CREW, dice)
        nothing_left(own_name)

    play(main)
