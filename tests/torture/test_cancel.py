"""Cancellation between request and reply: after many attempts of each kind, no claim is left."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import warnings
from collections.abc import Awaitable, Callable, Iterator
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
NAMES = [f"x{number}" for number in range(AT_ONCE)]


class Tally:
    """Numbers of cancelled, held and leaked attempts."""

    def __init__(self) -> None:
        self.cancelled = self.held = self.leaked = 0


@contextlib.contextmanager
def gate_closed(url: str) -> Iterator[None]:
    """Hold the file mutex, so that no request gets a reply."""
    with open(Path(url.removeprefix("sqlite://") + ".d") / "gate", "r+b") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


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


def run(url: str, attempts: Callable[[AsyncClient, AsyncClient, Tally], Awaitable[None]]) -> Tally:
    """Repeat the attempts until enough were cancelled; check after each that nothing is left."""
    tally = Tally()

    async def main() -> None:
        async with asyncio.timeout(100), AsyncClient(url) as client, AsyncClient(url) as other:
            async with client.lock("warm"), other.lock("warm too"):
                pass
            while tally.cancelled < ATTEMPTS:
                await attempts(client, other, tally)
                tally.leaked += await left_later(other)

    asyncio.run(main())
    print(f"{tally.cancelled} cancelled, {tally.held} held before that, {tally.leaked} leaked")
    assert tally.leaked == 0
    return tally


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("verb", ["join", "leave", "wait", "turn"])
def test_a_task_that_is_cancelled_while_its_request_is_on_the_way_leaves_nothing(
    verb: str, again: bool, url: str
) -> None:
    async def attempts(client: AsyncClient, other: AsyncClient, tally: Tally) -> None:
        async def attempt(name: str) -> None:
            async with client.lock(name):
                tally.held += 1

        def strike(step: Step) -> None:
            task = asyncio.current_task()
            if task not in tasks or step.when != "sent":
                return
            # When it is cancelled, and perhaps again during the undo
            if again if task.cancelling() else step.verb == verb:
                task.cancel()

        # Given names that the other client holds, for the verbs of a waiter
        in_the_way = NAMES if verb in ("wait", "turn") else []
        holds = [await other.lock(name).acquire() for name in in_the_way]
        with aim(client, strike):
            tasks = [asyncio.create_task(attempt(name)) for name in NAMES]
            done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in done), done
        tally.cancelled += len(done)
        for hold in holds:
            assert await hold.release()

    tally = run(url, attempts)
    assert tally.held == (tally.cancelled if verb == "leave" else 0)


async def _ended(attempt: Awaitable[object], tally: Tally) -> None:
    """Count the end of an attempt: cancelled, timed out, or held."""
    try:
        hold = await attempt
    except (asyncio.CancelledError, TimeoutError):
        tally.cancelled += 1
    else:
        tally.held += 1
        await hold.release()  # type: ignore[attr-defined]


def test_a_cancellation_at_any_moment_before_the_reply_leaves_nothing(url: str) -> None:
    chance = dice("any moment")

    async def one(client: AsyncClient, name: str, tally: Tally) -> None:
        task = asyncio.create_task(client.lock(name).acquire())  # type: ignore[arg-type]
        await asyncio.sleep(chance.random() * 0.004)
        task.cancel()
        await _ended(task, tally)

    async def attempts(client: AsyncClient, _: AsyncClient, tally: Tally) -> None:
        # Given replies that come some milliseconds late, because the file mutex is locked
        with gate_closed(url):
            # When attempts end before the reply, some of them just before it
            tries = [asyncio.create_task(one(client, name, tally)) for name in NAMES]
            await asyncio.sleep(chance.random() * 0.005)
        await asyncio.gather(*tries)

    run(url, attempts)


def test_wait_for_and_the_reply_in_the_same_turn_of_the_loop_leave_nothing(url: str) -> None:
    # Given a loop that is busy when the request is sent. At its next turn, both the reply has
    # arrived and the time-out has expired
    chance = dice("in the same turn")

    def stall(step: Step) -> None:
        end = boottime() + chance.random() * 0.004
        while step.when == "sent" and boottime() < end:
            pass

    async def attempts(client: AsyncClient, _: AsyncClient, tally: Tally) -> None:
        with aim(client, stall):
            for name in NAMES:
                acquiring = asyncio.wait_for(client.lock(name).acquire(), chance.random() * 0.004)
                await _ended(acquiring, tally)

    run(url, attempts)


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
