"""Tasks that are cancelled while they wait leave nothing in the store."""

from __future__ import annotations

import asyncio

from holdfast import AsyncClient
from tests.servers.redis_server import RedisServer


def test_waiters_that_are_cancelled_leave_no_place_and_no_subscription_behind(
    shared_redis: RedisServer, own_name: str
) -> None:
    async def main() -> None:
        url = f"redis+redisson://127.0.0.1:{shared_redis.port}?fair=true"
        async with AsyncClient(url) as client, client.lock(own_name):
            waiters = [asyncio.create_task(client.lock(own_name).acquire()) for _ in range(20)]
            while len((await client.inspect(own_name, exact=True))[0].waiters) < 20:
                await asyncio.sleep(0.01)
            for waiter in waiters:
                waiter.cancel()
            await asyncio.wait(waiters)
            end = asyncio.get_running_loop().time() + 10
            with shared_redis.client() as raw:
                while raw.exists(f"redisson_lock_queue:{{{own_name}}}") or raw.pubsub_channels(
                    f"*{own_name}*"
                ):
                    assert asyncio.get_running_loop().time() < end
                    await asyncio.sleep(0.01)

    asyncio.run(main())
