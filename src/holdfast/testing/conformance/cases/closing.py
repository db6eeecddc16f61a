"""The end of a client: its holds are released, even if two threads close the client at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from ....core.model import Loss
from ..arena import SOON_S, Arena
from ..registry import case

#: The lease, seconds. It is longer than every wait here, so no name becomes free by expiry.
TTL_S = 60.0


@case("lock")
async def of_two_closes_at_once_the_second_waits_until_all_is_released(at: Arena) -> None:
    async def leave(*given: Any) -> bool:
        begun.set()
        await at.sleep(0.1)
        answer: bool = await ours(*given)
        return answer

    client, begun = at.client(), at.flag()
    holds = [await client.lock(at.fresh(f"{n}"), ttl=TTL_S).acquire() for n in range(4)]
    store: Any = client._ctx.store
    ours, store.leave = store.leave, leave
    first = at.start(client.close)
    await begun.wait()
    await client.close()
    left = await at.left_behind()
    await first.result()
    assert not left, f"left behind: {left}"
    assert [hold.lost for hold in holds] == [Loss.CLOSED] * 4


@asynccontextmanager
async def _idle(at: Arena) -> AsyncGenerator[asyncio.AbstractEventLoop, None]:
    """Make an event loop that runs only when the case runs it."""
    loop = asyncio.new_event_loop()
    try:
        yield loop
    finally:
        await at.face.outside(lambda: loop.run_until_complete(_end_of_all()))
        loop.close()


async def _end_of_all() -> None:
    """Wait for the end of the other tasks of this loop."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=SOON_S)


@case("lock", only="aio", because="threads have no event loop")
async def close_releases_the_holds_of_an_event_loop_that_does_not_run(at: Arena) -> None:
    client = at.client()
    lock = client.lock(at.name, ttl=TTL_S)
    async with _idle(at) as loop:
        hold = await at.face.outside(lambda: loop.run_until_complete(lock.acquire()))
        await client.close()
        await at.free()
        assert hold.lost is Loss.CLOSED


@case("queue", needs=["queues"], only="aio", because="threads have no event loop")
async def close_releases_the_job_of_an_event_loop_that_does_not_run(at: Arena) -> None:
    client = at.client()
    queue = client.queue(at.name, ttl=TTL_S)
    put = await queue.put("work")
    async with _idle(at) as loop:
        job = await at.face.outside(lambda: loop.run_until_complete(queue.take(SOON_S)))
        assert job is not None
        await client.close()
        again = await at.rival_queue(ttl=TTL_S).take(SOON_S)
        assert again is not None
        assert (again.id, job.lost) == (put.id, Loss.CLOSED)
        await again.ack()
