"""Shared work that several tasks wait for, and its cancellation."""

from __future__ import annotations

import asyncio

from holdfast import AsyncClient
from tests.stores.redis.aio.conftest import play


def test_a_connect_cancelled_before_it_begins_is_started_again(
    redis_url: str, own_name: str
) -> None:
    async def main() -> None:
        async with AsyncClient(redis_url) as client:
            # Given a cancellation of every task of the loop, as at the end of a test
            waiting = asyncio.create_task(client.lock(own_name).acquire())
            await asyncio.sleep(0)
            here = asyncio.current_task()
            for task in asyncio.all_tasks() - {here}:
                task.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            # Then the client still works
            async with client.lock(own_name, timeout=5):
                pass

    play(main)
