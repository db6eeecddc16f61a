"""A task is cancelled between a request and its reply: nothing is ever left behind."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from holdfast import AsyncClient, Client, StoreUnavailable
from holdfast.testing.faults import HOLD_REPLY, Proxy, dice
from tests.servers.mariadb_server import PASSWORD, USER, MariadbServer
from tests.stores.mysql.conftest import eventually, play
from tests.stores.works import Work, enter, join, keep, leave, strike_waiters
from tests.torture.scale import times

#: Number of tasks that are cancelled together, each with a separate name; there are more
#: connections.
CREW = 12
ROUNDS = times(25, 2)


@pytest.mark.parametrize(
    "work, verb",
    [(join, b"_join_3("), (enter, b"_join_3("), (keep, b"_stand_3("), (leave, b"_leave_3(")],
)
def test_a_cancelled_task_leaves_nothing_behind(
    work: Work,
    verb: bytes,
    proxy: Proxy,
    locks: Client,
    shared_mariadb: MariadbServer,
    own_name: str,
) -> None:
    chance = dice("cancelled")
    url = shared_mariadb.url_for(USER, PASSWORD, proxy.port)

    async def main() -> None:
        async with AsyncClient(url) as client:
            for number in range(ROUNDS):
                await strike(client, f"{own_name}:{number}:")
                # Cancelled claims that take longer to withdraw do so in the background
                await asyncio.to_thread(eventually, lambda: locks.inspect(own_name) == [])

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
        ours = prefix.encode().hex().encode()
        answered = proxy.arm(lambda sent: verb in sent and ours in sent, HOLD_REPLY, times=CREW)
        go.set()
        while answered.hits < CREW:
            await asyncio.sleep(0.001)
            for task in crew:
                assert not task.done(), task.result()
        for _ in range(chance.randrange(8)):
            await asyncio.sleep(0)
        # When each of their tasks is cancelled, some of them twice
        for task in crew:
            task.cancel()
        for task in crew:
            await asyncio.sleep(0)
            if chance.random() < 0.3:
                task.cancel()
        answered.let_go()
        # Then each task ends as cancelled
        ends = await asyncio.gather(*crew, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends

    play(main)


def test_a_cancelled_waiter_leaves_the_line(mariadb_url: str, locks: Client, own_name: str) -> None:
    chance = dice("cancelled waiters")

    async def main() -> None:
        async with AsyncClient(mariadb_url) as client:
            for number in range(ROUNDS):
                await strike_waiters(client, f"{own_name}:{number}", CREW, chance)
        eventually(lambda: locks.inspect(own_name) == [])

    play(main)


def test_more_tasks_than_connections_are_all_served(mariadb_url: str, own_name: str) -> None:
    async def main() -> None:
        async with AsyncClient(mariadb_url) as client:

            async def one(at: int) -> int:
                async with client.lock(f"{own_name}:{at}", timeout=20) as hold:
                    return hold.fence

            fences = await asyncio.gather(*(one(at) for at in range(100)))
            assert all(fences)

    play(main)


def test_a_connection_that_timed_out_as_its_reply_came_is_not_reused(
    mariadb_url: str, own_name: str
) -> None:
    async def main() -> None:
        async with AsyncClient(mariadb_url) as client:
            await client.inspect(own_name)
            port = client._ctx.store._port  # type: ignore[attr-defined]
            # When the loop is blocked until both the reply and the time-out are there
            asked = asyncio.ensure_future(port.call("SELECT 1", 0.05))
            await asyncio.sleep(0)
            time.sleep(0.2)
            with contextlib.suppress(StoreUnavailable):
                await asked
            # Then the next request has a usable connection
            assert await port.call("SELECT 2", 10.0)

    asyncio.run(main())
