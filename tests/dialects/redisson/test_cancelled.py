"""Tasks that are cancelled between request and reply leave nothing in the store."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import AsyncClient
from holdfast.dialects.redisson.library import JOIN, JOIN_FAIR, JOIN_READ, LEAVE, RENEW
from holdfast.stores.redis.library import Script
from holdfast.testing.faults import DROP_REPLY, RESP, Proxy, delay_reply
from tests.servers.redis_server import RedisServer
from tests.torture.scale import times

STRIKES = times(300, 20)
SEED = random.SystemRandom().randrange(1 << 32)
#: Maximum seconds by which a reply is late, and after which the task is cancelled.
LATE_S = 0.004
#: For each cancelled request: the URL's options, the script whose reply is late, the primitive.
Make = Callable[[AsyncClient, str], Any]
STRUCK: dict[str, tuple[str, Script, Make]] = {
    "join": ("", JOIN, lambda client, name: client.lock(name)),
    "join of a fair lock": ("fair=true", JOIN_FAIR, lambda client, name: client.lock(name)),
    "join of a reader": ("", JOIN_READ, lambda client, name: client.rwlock(name).read),
    "renew": ("", RENEW, lambda client, name: client.lock(name)),
    "leave": ("", LEAVE, lambda client, name: client.lock(name)),
}


async def _use(lock: Any, extend: bool) -> None:
    async with lock as hold:
        if extend:
            await hold.extend()


async def _strike(what: str, words: str, proxy: Proxy, name: str) -> None:
    options, script, make = STRUCK[what]
    dice = random.Random(f"{SEED}{what}{words}")
    url = f"redis+redisson://127.0.0.1:{proxy.port}?{words}&{options}".rstrip("&")
    async with AsyncClient(url) as client:
        await _use(make(client, f"{name}:warm"), extend=True)
        for number in range(STRIKES):
            lost = DROP_REPLY if number % 5 == 0 else delay_reply(dice.random() * LATE_S)
            armed = proxy.arm(script.sha, lost)
            task = asyncio.create_task(_use(make(client, f"{name}:{number}"), what == "renew"))
            await asyncio.sleep(dice.random() * LATE_S)
            task.cancel()
            await asyncio.wait([task])
            armed.disarm()
        end = asyncio.get_running_loop().time() + 15
        while left := await client.inspect(name):
            assert asyncio.get_running_loop().time() < end, f"{what}, {words}: {left}"
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("words", ["protocol=2", "protocol=3"])
def test_a_task_that_is_cancelled_at_the_reply_leaves_nothing(
    words: str, shared_redis: RedisServer, own_name: str
) -> None:
    print(f"seed {SEED}")

    def strike(what: str) -> None:
        with Proxy(shared_redis.host, shared_redis.port, RESP) as proxy:
            asyncio.run(_strike(what, words, proxy, f"{own_name}:{what}"))

    with ThreadPoolExecutor(len(STRUCK)) as pool:
        struck = [pool.submit(strike, what) for what in STRUCK]
    for one in struck:
        one.result()


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
