"""A task is cancelled between a request and its reply: nothing is ever left behind."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from holdfast import AsyncClient, Client
from holdfast.testing.faults import Proxy, dice
from tests.servers.process import until
from tests.stores.postgres.conftest import MakeClient, proxied
from tests.stores.works import Work, enter, join, keep, leave, strike_waiters
from tests.torture.scale import times

CREW = 5
#: A full run has 300 cancelled tasks for each case.
ROUNDS = times(60, 3)
LIMIT_S = 300.0


@pytest.mark.parametrize("work", [join, enter, keep, leave])
def test_a_cancelled_task_leaves_nothing_behind(
    work: Work, proxy: Proxy, own_name: str, new_client: MakeClient
) -> None:
    chance = dice("cancelled")

    # The tables exist already: to make them can take longer than the time limit for a withdrawal
    new_client().inspect(own_name)

    async def main() -> None:
        async with asyncio.timeout(LIMIT_S), AsyncClient(proxied(proxy)) as client:
            for number in range(ROUNDS):
                await strike(client, f"{own_name}:{number}:", work, proxy, chance)
        look(new_client(), own_name)

    asyncio.run(main())


async def strike(
    client: AsyncClient, prefix: str, work: Work, proxy: Proxy, chance: random.Random
) -> None:
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
    await asyncio.sleep(0)  # none of them waits for it any more, whatever else is under way
    while not under_way(client):
        await asyncio.sleep(0)
    for _ in range(chance.randrange(8)):
        await asyncio.sleep(0)
    # When each of their tasks is cancelled, some of them twice
    for task in crew:
        task.cancel()
    for task in crew:
        await asyncio.sleep(0)
        if chance.random() < 0.3:
            task.cancel()
    proxy.heal()
    # Then each task ends as cancelled
    ends = await asyncio.gather(*crew, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends


def under_way(client: AsyncClient) -> bool:
    """Return whether a request is under way or a connection is being made."""
    store: Any = client._ctx.store
    port = store._port
    return bool(port._connecting or len(port._idle) < len(port._wires))


def look(client: Client, prefix: str) -> None:
    until(lambda: client.inspect(prefix) == [], "nothing is left")


def test_a_cancelled_waiter_leaves_the_line(
    postgres_url: str, own_name: str, new_client: MakeClient
) -> None:
    chance = dice("cancelled waiters")

    async def main() -> None:
        async with asyncio.timeout(LIMIT_S), AsyncClient(postgres_url) as client:
            for number in range(times(60, 4)):
                await strike_waiters(client, f"{own_name}:{number}", 8, chance)
        look(new_client(), own_name)

    asyncio.run(main())
