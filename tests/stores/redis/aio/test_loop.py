"""The connection of an event loop: crowds of tasks, parsers, closing, a Ctrl-C between replies."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import pytest

from holdfast import AsyncClient, StoreUnavailable
from holdfast.core.model import Granted, Held, Leave
from holdfast.stores.redis.aio.answer import Answer, new_answer, wake_all
from tests.stores.redis.aio.conftest import play
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


def test_a_single_task_starts_its_renewer_once(redis_url: str, own_name: str) -> None:
    async def main() -> None:
        renewers = set[asyncio.Task[Any]]()
        async with AsyncClient(redis_url) as client:
            for _ in range(50):
                async with client.lock(own_name):
                    renewers |= {one for one in asyncio.all_tasks() if "keeper" in one.get_name()}
        assert len(renewers) == 1

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


def test_a_connect_cancelled_before_it_begins_is_started_again(
    redis_url: str, own_name: str
) -> None:
    async def main() -> None:
        async with AsyncClient(redis_url) as client:
            # Given a cancellation of every task of the loop, as at the end of a test
            waiting = asyncio.create_task(client.lock(own_name).acquire())
            await asyncio.sleep(0)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            async with client.lock(own_name, timeout=5):
                pass

    play(main)


def test_a_ctrl_c_in_one_task_leaves_no_other_asleep() -> None:
    async def struck(answer: Answer) -> None:
        await answer
        raise KeyboardInterrupt

    async def other(answer: Answer) -> object:
        return await answer

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        answers = [new_answer(loop) for _ in range(3)]
        first = loop.create_task(struck(answers[0]))
        others = [loop.create_task(other(one)) for one in answers[1:]]

        def arrived() -> None:
            for number, one in enumerate(answers):
                one.give(number)
            wake_all(answers)

        loop.call_later(0.01, arrived)
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
        assert isinstance(first.exception(), KeyboardInterrupt)
        assert loop.run_until_complete(asyncio.wait_for(asyncio.gather(*others), 5)) == [1, 2]
