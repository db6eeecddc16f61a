"""Cancellation between request and reply: after many attempts of each kind, no claim is left."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import os
import random
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from holdfast import AsyncClient, LockLost
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Step, aim, dice
from tests.torture.scale import times

lag.watch()

#: Seconds after which nothing of a cancelled attempt is left.
LATER_S = 0.250
AT_ONCE = 50
ATTEMPTS = times(500, 40)


class Tally:
    """Numbers of cancelled, held and leaked attempts."""

    def __init__(self) -> None:
        self.cancelled = self.held = self.leaked = 0


@contextlib.contextmanager
def gate_closed(url: str) -> Iterator[None]:
    """Hold the file mutex, so that no request gets a reply."""
    fd = os.open(Path(url.removeprefix("sqlite://") + ".d") / "gate", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(fd)


async def look(other: AsyncClient, tally: Tally) -> None:
    """Count the claims that are still there after a moment."""
    tally.leaked += await left_later(other)


async def left_later(other: AsyncClient) -> int:
    """Return the number of claims after a moment, which is longer if the machine paused."""
    begun = boottime()
    await asyncio.sleep(LATER_S)
    while True:
        over = boottime() - begun > LATER_S * 1.1 + 2 * lag.since(begun)
        left = sum(len(line.claims) for line in await other.inspect())
        if over or not left:
            return left
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def clients(url: str) -> AsyncIterator[tuple[AsyncClient, AsyncClient]]:
    async with AsyncClient(url) as client, AsyncClient(url) as other:
        async with client.lock("warm"), other.lock("warm too"):
            pass
        yield client, other


def run(main: Callable[[Tally], Awaitable[None]]) -> Tally:
    tally = Tally()

    async def bounded() -> None:
        async with asyncio.timeout(100):
            await main(tally)

    asyncio.run(bounded())
    print(f"{tally.cancelled} cancelled, {tally.held} held before that, {tally.leaked} leaked")
    assert tally.leaked == 0
    return tally


@pytest.mark.parametrize("verb", ["join", "leave", "wait", "keep"])
def test_a_task_that_is_cancelled_while_its_request_is_on_the_way_leaves_nothing(
    verb: str, url: str
) -> None:
    # Given a task that a hook cancels just after this verb's request was sent
    async def main(tally: Tally) -> None:
        async with clients(url) as (client, other):

            async def attempt(name: str) -> None:
                async with client.lock(name):
                    tally.held += 1

            def strike(step: Step) -> None:
                task = asyncio.current_task()
                if step == (verb, "sent") and task in tasks and not task.cancelling():
                    task.cancel()

            while tally.cancelled < ATTEMPTS:
                names = [f"x{number}" for number in range(AT_ONCE)]
                # And names that the other client holds, for the verbs of a waiter
                in_the_way = names if verb in ("wait", "keep") else []
                holds = [await other.lock(name).acquire() for name in in_the_way]
                with aim(client, strike):
                    tasks = [asyncio.create_task(attempt(name)) for name in names]
                    done = await asyncio.gather(*tasks, return_exceptions=True)
                tally.cancelled += sum(isinstance(one, asyncio.CancelledError) for one in done)
                assert all(isinstance(one, asyncio.CancelledError) for one in done), done
                for hold in holds:
                    assert await hold.release()
                # Then a moment later no claim is left
                await look(other, tally)

    tally = run(main)
    assert tally.held == (tally.cancelled if verb == "leave" else 0)


Attempt = Callable[[AsyncClient, str, random.Random], Awaitable[bool]]


async def by_cancel(client: AsyncClient, name: str, chance: random.Random) -> bool:
    """Cancel a task from outside after a while; return True if it was cancelled before its
    grant."""
    task = asyncio.create_task(client.lock(name).acquire())
    await asyncio.sleep(chance.random() * 0.004)
    task.cancel()
    try:
        hold = await task
    except asyncio.CancelledError:
        return True
    await hold.release()
    return False


async def by_wait_for(client: AsyncClient, name: str, chance: random.Random) -> bool:
    """Acquire under ``asyncio.wait_for``; return True if its time-out came first."""
    try:
        hold = await asyncio.wait_for(client.lock(name).acquire(), chance.random() * 0.004)
    except TimeoutError:
        return True
    await hold.release()
    return False


async def by_async_with(client: AsyncClient, name: str, chance: random.Random) -> bool:
    """Cancel an ``async with`` anywhere: before its body, in it, or after it."""

    async def work() -> None:
        async with client.lock(name) as hold:
            await asyncio.sleep(chance.random() * 0.002)
            hold.check()

    task = asyncio.create_task(work())
    await asyncio.sleep(chance.random() * 0.006)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
        return False
    return True


@pytest.mark.parametrize("attempt", [by_cancel, by_wait_for, by_async_with])
def test_a_cancellation_at_any_moment_before_the_reply_leaves_nothing(
    attempt: Attempt, url: str
) -> None:
    # Given replies that come some milliseconds late, because the file mutex is locked
    chance = dice(attempt.__name__)

    async def main(tally: Tally) -> None:
        async with clients(url) as (client, other):
            while tally.cancelled < ATTEMPTS:
                with gate_closed(url):
                    names = [f"x{number}" for number in range(AT_ONCE)]
                    # When attempts end before the reply, some of them just before it
                    tries = [
                        asyncio.create_task(attempt(client, name, chance))  # type: ignore[arg-type]
                        for name in names
                    ]
                    await asyncio.sleep(chance.random() * 0.005)
                done = await asyncio.gather(*tries)
                tally.cancelled += sum(done)
                tally.held += len(done) - sum(done)
                # Then a moment later no claim of them is left
                await look(other, tally)

    run(main)


def test_wait_for_and_the_reply_in_the_same_turn_of_the_loop_leave_nothing(url: str) -> None:
    # Given a loop that is busy when the request is sent. At its next turn, both the reply has
    # arrived and the time-out has expired
    chance = dice("in the same turn")

    async def main(tally: Tally) -> None:
        async with clients(url) as (client, other):

            def stall(step: Step) -> None:
                if step.when == "sent":
                    end = asyncio.get_running_loop().time() + chance.random() * 0.004
                    while asyncio.get_running_loop().time() < end:
                        pass

            for _ in range(ATTEMPTS // AT_ONCE):
                with aim(client, stall):
                    for number in range(AT_ONCE):
                        gone = await by_wait_for(client, f"x{number}", chance)
                        tally.cancelled += gone
                        tally.held += not gone
                await look(other, tally)

    run(main)


def test_a_second_cancellation_during_the_undo_leaves_nothing(url: str) -> None:
    # Given tasks that are cancelled after their join was sent, and again after its undo was sent
    async def main(tally: Tally) -> None:
        async with clients(url) as (client, other):

            def strike(step: Step) -> None:
                task = asyncio.current_task()
                if step.when == "sent" and task in tasks:
                    task.cancel()

            while tally.cancelled < ATTEMPTS:
                with aim(client, strike):
                    tasks = [
                        asyncio.create_task(client.lock(f"x{n}").acquire()) for n in range(AT_ONCE)
                    ]
                    done = await asyncio.gather(*tasks, return_exceptions=True)
                tally.cancelled += sum(isinstance(one, asyncio.CancelledError) for one in done)
                await look(other, tally)

    run(main)


def test_the_end_of_the_loop_in_the_middle_of_everything_leaves_nothing(url: str) -> None:
    # Given tasks that still run when `asyncio.run` ends and cancels them all
    chance = dice("the end of the loop")
    clients: list[AsyncClient] = []

    async def ends() -> None:
        clients.append(client := AsyncClient(url))

        async def attempt(name: str) -> None:
            with contextlib.suppress(LockLost):
                async with client.lock(name):
                    await asyncio.sleep(chance.random() * 0.002)

        tasks = [asyncio.create_task(attempt(f"x{number % 4}")) for number in range(AT_ONCE)]
        await asyncio.wait(tasks, timeout=chance.random() * 0.004)

    async def looks() -> int:
        async with AsyncClient(url) as other:
            return await left_later(other)

    for _ in range(times(40, 8)):
        asyncio.run(ends())
        # Then no claim of them is left, although their client still exists
        assert asyncio.run(looks()) == 0
    with warnings.catch_warnings():
        # The loops of these clients have ended, so nothing can close the clients properly.
        warnings.simplefilter("ignore", ResourceWarning)
        clients.clear()
        gc.collect()
