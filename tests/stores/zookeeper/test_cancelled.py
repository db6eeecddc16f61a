"""Tasks that are cancelled between request and reply leave nothing in the store."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from holdfast import AsyncClient, Client
from holdfast.testing.faults import Proxy
from tests.stores.works import Work, join, keep, leave
from tests.stores.zookeeper.conftest import MakeClient, eventually
from tests.torture.scale import times

#: Number of tasks that are cancelled together, each on a separate name.
CREW = 30
ROUNDS = times(10, 1)
SEED = random.SystemRandom().randrange(1 << 32)
LIMIT_S = 100.0


async def attempt(lock: Any, ready: asyncio.Event, go: asyncio.Event) -> None:
    ready.set()
    await go.wait()
    await lock.acquire(blocking=False)


@pytest.fixture(params=["kazoo", "simple"])
def options(request: pytest.FixtureRequest) -> str:
    """Options of a URL: with a line, and without."""
    return f"?recipe={request.param}&prefix={request.param}"


@pytest.fixture
def other(new_client: MakeClient, zookeeper_url: str, options: str) -> Client:
    """A second client that inspects the store."""
    return new_client(zookeeper_url + options, label="other")


@pytest.mark.usual(3)
@pytest.mark.parametrize("work", [join, attempt, keep, leave])
def test_a_task_that_is_cancelled_in_the_reply_window_leaves_nothing(
    work: Work, proxy: Proxy, own_name: str, other: Client, options: str
) -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)

    async def main() -> None:
        async with AsyncClient(f"zookeeper://127.0.0.1:{proxy.port}{options}") as client:
            # The folders exist, so that the first request already creates a node
            holds = [await client.lock(f"{own_name}-{at}").acquire() for at in range(CREW)]
            for hold in holds:
                await hold.release()
            for _ in range(ROUNDS):
                await strike(client, f"{own_name}-")
                # And nothing is left, though the session continues
                await asyncio.to_thread(eventually, lambda: other.inspect(own_name) == [])

    async def strike(client: AsyncClient, prefix: str) -> None:
        go = asyncio.Event()
        readies = [asyncio.Event() for _ in range(CREW)]
        crew = [
            asyncio.create_task(work(client.lock(f"{prefix}{at}"), ready, go))
            for at, ready in enumerate(readies)
        ]
        for ready in readies:
            await ready.wait()
        # Given requests that are on their way, and whose replies are held back
        proxy.hold("reply")
        go.set()
        for _ in range(3 + dice.randrange(6)):
            await asyncio.sleep(0)
        # When each of the tasks is cancelled, some of them twice
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

    async def bounded() -> None:
        async with asyncio.timeout(LIMIT_S):
            await main()

    asyncio.run(bounded())


def test_cancelled_waiters_leave_the_line_and_all_others_are_served(
    zookeeper_url: str, own_name: str, other: Client, options: str
) -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)

    async def main() -> None:
        async with AsyncClient(zookeeper_url + options) as client:
            for number in range(ROUNDS):
                name = f"{own_name}-{number}"
                holder = await client.lock(name).acquire()
                crew = [asyncio.create_task(client.lock(name).acquire()) for _ in range(CREW)]
                # Given a line of waiters that have not all entered it yet
                for _ in range(dice.randrange(40)):
                    await asyncio.sleep(0.001)
                # When some of them are cancelled while the holder releases
                struck = [task for task in crew if dice.random() < 0.7]
                release = asyncio.create_task(holder.release())
                for task in struck:
                    task.cancel()
                    await asyncio.sleep(0)
                assert await release
                # Then all others are granted the lock once, in any order
                here, served = set(crew), set()
                while here:
                    ended, here = await asyncio.wait(here, return_when=asyncio.FIRST_COMPLETED)
                    for task in ended:
                        if not task.cancelled():  # or it was served before it was struck
                            await task.result().release()
                            served.add(task)
                assert served >= set(crew) - set(struck)
            await asyncio.to_thread(eventually, lambda: other.inspect(own_name) == [])

    async def bounded() -> None:
        async with asyncio.timeout(LIMIT_S):
            await main()

    asyncio.run(bounded())
