"""Replies that are late, and wake-ups that are lost or come together with a reply."""

from __future__ import annotations

import contextlib

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.library import JOIN, LEAVE, STAND, Script
from holdfast.testing import lag
from holdfast.testing.faces import Face
from holdfast.testing.faults import DROP_PUSH, HOLD_REPLY, Proxy
from tests.servers.redis_server import RedisServer
from tests.stores.redis.conftest import Look, addresses, eventually, fences

#: Maximum seconds of a test.
LONG_S = 60.0
lag.watch()


@pytest.mark.parametrize("verb", [JOIN, LEAVE], ids=["join", "leave"])
def test_a_late_reply_is_never_taken_for_anothers(
    verb: Script, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    # Given a request that was given up, and whose reply comes after that
    late, within = proxy.arm(verb.sha, HOLD_REPLY), 0.05 if verb is JOIN else 5
    with contextlib.suppress(StoreUnavailable):
        if hold := by_proxy.lock(own_name, ttl=0.3, auto_renew=False).acquire(timeout=within):
            hold.release()
    assert late.hits == 1
    late.let_go()
    # When other names are acquired, then each request gets its own reply
    for number in range(5):
        with by_proxy.lock(f"{own_name}:{number}", timeout=5) as mine:
            assert fences(line(mine.name)) == [mine.fence]


def test_a_wake_up_in_the_same_read_as_the_reply_before_it_is_received(
    face: Face, proxied: str, proxy: Proxy, own_name: str, locks: Client, line: Look
) -> None:
    async def main() -> None:
        async with face.client(proxied) as client:

            async def wait() -> float:
                async with client.lock(own_name, timeout=10):
                    return boottime()

            # Given a waiter that has asked again, and whose reply is on its way
            holder = locks.lock(own_name).acquire()
            held_back = proxy.arm(STAND.sha, HOLD_REPLY)
            waiter = face.start(wait)
            await face.outside(held_back.wait)
            # When it is granted meanwhile, so that the wake-up comes right behind the reply
            holder.release()
            eventually(lambda: (found := line(own_name)) and found.holders)
            begun = boottime()
            held_back.let_go()
            # Then it doesn't sleep until its next poll
            assert await waiter.result() - begun < 0.5 + lag.since(begun)

    face.run(main, LONG_S)


def test_a_lost_wake_up_costs_at_most_a_second(
    face: Face, proxied: str, proxy: Proxy, own_name: str, line: Look, shared_redis: RedisServer
) -> None:
    async def main() -> None:
        async with face.client(proxied) as client:

            async def wait() -> float:
                async with client.lock(own_name, timeout=10):
                    return boottime()

            holder = await client.lock(own_name).acquire()
            waiter = face.start(wait)
            while not addresses(shared_redis, own_name):
                await face.sleep(0.001)
            _, ticket = fences(line(own_name))
            armed = proxy.arm(f"{ticket}".encode(), DROP_PUSH)
            begun = boottime()
            await holder.release()
            assert await waiter.result() - begun < 2.5 + lag.since(begun)
            assert armed.hits == 1

    face.run(main, LONG_S)
