"""A hold or a delivery belongs to the event loop that took it, on every store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from ....errors import ConfigError
from ..arena import KEPT_S, SOON_S, Arena, raises
from ..registry import case

#: Why these cases are for asyncio alone.
LOOPS = "threads have no event loop"


async def _in_another_loop(at: Arena, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run ``work`` in an event loop of another thread, while the loop of the test continues."""
    return await at.face.outside(lambda: asyncio.run(work()))


@case("lock", only="aio", because=LOOPS)
async def a_hold_is_released_only_in_its_own_event_loop(at: Arena) -> None:
    async def elsewhere() -> None:
        for act in (hold.release, hold.extend, lambda: hold.wait_lost(0.01), both.release):
            with raises(ConfigError, "event loop"):
                await act()

    hold = await at.lock().acquire()
    both = await at.locks.all(at.fresh("a"), at.fresh("b")).acquire()
    await _in_another_loop(at, elsewhere)
    hold.check()
    both.check()
    assert await hold.release() is True
    assert await both.release() is True


@case("queue", needs=["queues"], only="aio", because=LOOPS)
async def a_delivery_is_settled_in_its_own_event_loop_alone(at: Arena) -> None:
    async def elsewhere() -> None:
        for act in (job.ack, job.retry, job.dead_letter, job.release):
            with raises(ConfigError, "event loop"):
                await act()
        with raises(ConfigError, "event loop"):
            await queue.ack_many([job])

    queue = at.queue()
    await queue.put("work")
    (job,) = await queue.take_many(1, SOON_S)
    await _in_another_loop(at, elsewhere)
    job.check()
    assert await job.ack() is True


@case("queue", needs=["queues"], only="aio", because=LOOPS)
async def a_body_over_a_delivery_that_ends_in_another_loop_settles_it(at: Arena) -> None:
    async def elsewhere() -> None:
        await job.__aexit__(None, None, None)

    queue = at.queue()
    await queue.put("work")
    (job,) = await queue.take_many(1, SOON_S)
    await job.__aenter__()
    await _in_another_loop(at, elsewhere)
    await at.until(lambda: job.settled)
    end = asyncio.get_running_loop().time() + SOON_S
    while (await queue.stats()).taken and asyncio.get_running_loop().time() < end:
        await at.sleep(0.01)
    assert await queue.take(0) is None


@case("lock", only="aio", because=LOOPS)
async def on_lost_set_in_a_plain_thread_is_called_in_the_loop(at: Arena) -> None:
    async def tell(*_: object) -> None:
        told.append(threading.current_thread())

    told: list[threading.Thread] = []
    hold = await at.lock(ttl=KEPT_S, auto_renew=False).acquire()
    await at.face.outside(lambda: hold.on_lost(tell))
    await at.until(lambda: told)
    await at.face.outside(lambda: hold.on_lost(tell))
    await at.until(lambda: len(told) == 2)
    assert told == [threading.current_thread()] * 2
    await hold.release()
    await at.free()  # a lease can end a little later by the store's clock


@case("lock", only="aio", because=LOOPS)
async def an_acquire_belongs_to_the_event_loop_that_awaits_it(at: Arena) -> None:
    async def elsewhere() -> None:
        for wish in (lambda: awaited, lambda: asyncio.create_task(started)):
            hold = await wish()  # one after the other: they need the same name
            assert hold._ctx.place is asyncio.get_running_loop()
            assert await hold.release() is True

    async with at.lock():
        pass  # the lock's own loop is this one now
    lock = at.lock()
    awaited, started = lock.acquire(), lock.acquire()
    await _in_another_loop(at, elsewhere)
