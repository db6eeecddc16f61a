"""Requests whose time limit has expired, and more requests than there are connections."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import Any

import pytest

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


@pytest.mark.parametrize("abandoned", [False, True])
def test_a_request_that_outlives_its_loop_leaves_no_socket(url: str, abandoned: bool) -> None:
    # Given a request under way whose event loop was closed
    loop = asyncio.new_event_loop()
    client = AsyncClient(url)
    store: Any = loop.run_until_complete(_first(client))
    (link,) = store._port._idle
    sock = link._connection._transport.get_extra_info("socket")
    there = os.readlink(f"/proc/self/fd/{sock.fileno()}")
    asked: Any = loop.create_task(store._port.call("SELECT SLEEP(20)", 20.0))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert there in _open_files()
    # When its client lets the loop go, or Python destroys its task before that
    if abandoned:
        store._port.abandon()
        assert there not in _open_files()
    asked.get_coro().close()
    # Then nothing is raised, and the socket is closed under all its descriptors
    assert there not in _open_files()
    store._port.abandon()


def _open_files() -> list[str]:
    found = []
    for one in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing
            found.append(os.readlink(f"/proc/self/fd/{one}"))
    return found


async def _first(client: AsyncClient) -> object:
    await client.inspect("x")
    return client._ctx.store
