"""The connection belongs to one loop: the loop's end, forks and crowds of tasks do no harm."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import pytest

from holdfast import AsyncClient, Client, ConfigError, StoreUnavailable
from holdfast.core.model import Granted, Held, Leave
from holdfast.testing.faults import Fork
from tests.stores.redis.aio.conftest import play, wire_of
from tests.stores.redis.verbs import claim

WITHIN_S = 5.0


def test_a_thousand_tasks_on_one_name(redis_url: str, own_name: str) -> None:
    fences: list[int] = []
    served = [0] * 1000

    async def main() -> None:
        async with AsyncClient(redis_url) as client:
            end = time.monotonic() + 2

            async def work(at: int) -> None:
                while time.monotonic() < end:
                    async with client.lock(own_name) as hold:
                        fences.append(hold.fence)
                        served[at] += 1

            await asyncio.gather(*[work(at) for at in range(1000)])

    play(main)
    print(f"{len(fences)} holds, from {min(served)} to {max(served)} for each task")
    # Every task is granted the lock, and the fences rise in the order of the holds
    assert min(served) > 0
    assert all(one < other for one, other in itertools.pairwise(fences))


def test_all_requests_of_one_tick_leave_in_one_write(redis_url: str, own_name: str) -> None:
    async def main() -> None:
        async with AsyncClient(redis_url) as client:
            async with client.lock(own_name):
                pass
            written: list[int] = []
            wire = wire_of(client)
            real = wire._transport

            class Counting:
                def write(self, data: bytes) -> None:
                    written.append(data.count(b"EVALSHA"))
                    real.write(data)

                def __getattr__(self, name: str) -> Any:
                    return getattr(real, name)

            wire._transport = Counting()
            locks = [client.lock(f"{own_name}:{at}") for at in range(500)]
            holds = await asyncio.gather(*[lock.acquire() for lock in locks])
            # The first request needn't wait for others; all others leave together
            assert written == [1, 499]
            written.clear()
            assert all(await asyncio.gather(*[hold.release() for hold in holds]))
            assert written == [500]
            wire._transport = real

    play(main)


def test_a_wake_up_for_an_earlier_ticket_is_ignored(redis_url: str, own_name: str) -> None:
    async def main() -> None:
        async with AsyncClient(redis_url) as client:
            store: Any = client._ctx.store
            held, wanted = claim(own_name), claim(own_name)
            assert isinstance(await store.join(held, True, WITHIN_S), Held)
            waiting = await store.join(wanted, True, WITHIN_S)
            store._port._heard(f"{wanted.id} {waiting.ticket - 1}".encode())
            assert await store.wait(wanted, waiting, 0.05) is None
            store._port._heard(b"something else")
            store._port._heard(f"{wanted.id} {waiting.ticket}".encode())
            assert await store.wait(wanted, waiting, 5.0) == Granted(waiting.ticket)
            for one, ticket in ((held, 0), (wanted, waiting.ticket)):
                assert await store.leave(Leave(own_name, one.id, ticket), WITHIN_S)

    play(main)


def test_a_store_refuses_a_second_loop_in_words(redis_url: str, own_name: str) -> None:
    clients: list[AsyncClient] = []

    async def first() -> None:
        clients.append(AsyncClient(redis_url))
        async with clients[0].lock(own_name):
            pass
        await clients[0].close()

    async def second() -> None:
        with pytest.raises(ConfigError, match="this is another one"):
            await clients[0]._ctx.store.inspect(own_name, 1.0)

    play(first)
    play(second)


def test_a_forked_child_starts_fresh_and_its_parent_is_unaffected(
    redis_url: str, own_name: str, protocol: str, other: Client
) -> None:
    url = f"{redis_url}?protocol={protocol}"

    async def main() -> None:
        async with AsyncClient(url) as client:
            hold = await client.lock(own_name).acquire()
            waiter = asyncio.create_task(client.lock(own_name).acquire())
            while not any(line.waiters for line in other.inspect(own_name)):
                await asyncio.sleep(0.001)
            wire = wire_of(client)

            async def in_child() -> bool:
                async with client.lock(f"{own_name}:child", timeout=20) as mine:
                    assert mine.fence
                    assert hold.lost
                    return await hold.release()

            def forked() -> bool:
                asyncio.events._set_running_loop(None)
                return asyncio.run(in_child())

            with Fork(forked) as child:
                assert await asyncio.to_thread(child.result) is False
            # Then the parent's connection is the same, and both of its claims are there
            assert wire_of(client) is wire
            assert not wire.over
            hold.check()
            assert await hold.release()
            assert await (await waiter).release()

    play(main)


def test_closing_ends_an_acquire_that_has_not_connected_yet(redis_url: str, own_name: str) -> None:
    async def main() -> None:
        for steps in range(5):
            client = AsyncClient(redis_url)
            asking = asyncio.create_task(client.lock(own_name).acquire())
            for _ in range(steps):
                await asyncio.sleep(0)
            await client.close()
            with pytest.raises(StoreUnavailable, match="closed; make a new one"):
                await asyncio.wait_for(asking, 5)

    play(main)


def test_more_requests_than_a_connection_takes_are_refused(
    redis_url: str, own_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.stores.redis.aio.wire.QUEUE_MAX", 50)

    async def main() -> None:
        async with AsyncClient(redis_url) as client:
            # Given more tasks than one connection accepts: they try again, and all are granted
            async def work(at: int) -> None:
                async with client.lock(f"{own_name}:{at}"):
                    pass

            await asyncio.gather(*[work(at) for at in range(200)])
            store = client._ctx.store
            crowd = [store.join(claim(f"{own_name}:{at}"), False, 20.0) for at in range(80)]
            ends = await asyncio.gather(*crowd, return_exceptions=True)
            refused = [end for end in ends if isinstance(end, StoreUnavailable)]
            assert len(refused) == 30
            assert "under way" in str(refused[0])

    play(main)
