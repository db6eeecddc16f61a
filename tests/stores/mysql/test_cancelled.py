"""Requests of tasks whose time is over, or that are more than there are connections."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from holdfast import AsyncClient, StoreUnavailable


def test_more_tasks_than_connections_are_all_served(url: str, own_name: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as client:

            async def one(at: int) -> int:
                async with client.lock(f"{own_name}:{at}", timeout=20) as hold:
                    return hold.fence

            fences = await asyncio.gather(*(one(at) for at in range(100)))
            assert all(fences)

    asyncio.run(main())


def test_a_connection_that_timed_out_as_its_reply_came_is_not_reused(
    url: str, own_name: str
) -> None:
    async def main() -> None:
        async with AsyncClient(url) as client:
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


def test_a_request_that_was_given_up_is_closed_with_its_loop(url: str) -> None:
    # Given a request that the server still carries out, and whose event loop has ended
    loop = asyncio.new_event_loop()
    client = AsyncClient(url)
    store: Any = loop.run_until_complete(_first(client))
    with contextlib.suppress(StoreUnavailable):
        loop.run_until_complete(store._port.call("SELECT SLEEP(20)", 0.2))
    (lost,) = store._port._lost
    loop.close()
    # When its client lets the loop go
    store._port.abandon()
    assert lost._twin.fileno() == -1
    assert not store._port._lost


async def _first(client: AsyncClient) -> object:
    await client.inspect("x")
    return client._ctx.store
