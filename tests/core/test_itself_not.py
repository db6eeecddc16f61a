"""A waiter gets no error if another thread or task can release the hold that it waits for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any

import pytest

from holdfast import AsyncClient, Client, NotSupported
from tests.core.bounded import bounded, ended

pytestmark = pytest.mark.usefixtures("checked_soon")
Two = tuple[Client, Client]

POOL = ThreadPoolExecutor(1)


def give_back(held: Any, after: float = 0.0) -> None:
    """Release the hold after a pause."""
    threading.Event().wait(after)
    held.release()


def passed_on(held: Any) -> None:
    """Hand the hold over, so that finally only a variable of another thread refers to it."""
    box: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=lambda: give_back(box.get(), 0.3)).start()
    box.put(held)


#: Ways in which another thread gets the hold and releases it a bit later.
HANDED: dict[str, Callable[[Any], object]] = {
    "bound": lambda held: threading.Timer(0.3, held.release).start(),
    "partial": lambda held: threading.Timer(0.3, partial(give_back, held)).start(),
    "argument": lambda held: threading.Timer(0.3, give_back, (held,)).start(),
    "lambda": lambda held: threading.Timer(0.3, lambda: give_back(held)).start(),
    "pool": lambda held: POOL.submit(give_back, held, 0.3),
    "taken out": passed_on,
}


@pytest.mark.parametrize("how", HANDED)
@bounded
def test_a_hold_that_was_handed_on_is_waited_for(how: str, two: Two) -> None:
    with two[0].lock("x") as hold:
        HANDED[how](hold)
        with two[1].lock("x"):
            assert two[0].lock("x").locked()


@bounded
def test_what_was_entered_by_hand_is_waited_for(two: Two) -> None:
    lock = two[0].lock("x")
    lock.__enter__()
    threading.Timer(0.3, lock.release).start()
    with two[1].lock("x"):
        pass


@bounded
def test_a_hold_in_a_variable_that_others_see_is_waited_for(two: Two) -> None:
    with two[0].lock("x") as hold:

        def later() -> None:
            hold.release()

        threading.Timer(0.3, later).start()
        with two[1].lock("x"):
            pass


def test_a_hold_of_a_module_is_waited_for(two: Two) -> None:
    program = """
with one.lock("x") as hold:
    threading.Timer(0.3, lambda: hold.release()).start()
    with other.lock("x"):
        pass
"""
    names = {"one": two[0], "other": two[1], "threading": threading}
    ended(lambda: exec(program, names))


@pytest.mark.parametrize("part", ["whole", "one"])
@bounded
def test_several_that_were_handed_on_are_waited_for(part: str, two: Two) -> None:
    with two[0].all("w", "x") as held:
        HANDED["bound"](held if part == "whole" else held.holds[1])
        with two[1].lock("x"):
            pass


@bounded
def test_a_hold_in_its_own_with_is_awaited_after_it_was_handed_on(two: Two) -> None:
    with two[0].lock("x").acquire() as hold:
        HANDED["bound"](hold)
        with two[1].lock("x"):
            pass
    with two[0].all("w", "x").acquire() as held:
        HANDED["bound"](held)
        with two[1].lock("x"):
            pass


@bounded
def test_what_a_generator_has_entered_is_waited_for(
    two: Two, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "holdfast")

    @contextlib.contextmanager
    def entered() -> Iterator[None]:
        with two[0].lock("x"):
            yield

    outer = entered()
    outer.__enter__()
    threading.Timer(1.6, outer.__exit__, (None, None, None)).start()
    with two[1].lock("x"):
        pass
    (line,) = caplog.messages
    assert f"by the hold taken at {__file__}:" in line


@bounded
async def test_an_async_generator_that_has_entered_is_waited_for(space: str) -> None:
    async with AsyncClient(space) as one, AsyncClient(space) as other:

        async def entered() -> AsyncIterator[int]:
            async with one.lock("x"):
                yield 1

        outer = entered()
        assert await anext(outer) == 1

        async def later() -> None:
            await asyncio.sleep(0.3)
            await outer.aclose()

        ends = asyncio.ensure_future(later())
        async with other.lock("x"):
            await ends


@bounded
def test_a_task_does_not_hold_up_the_thread_around_its_loop(two: Two) -> None:
    async def main(url: str) -> bool:
        async with AsyncClient(url) as client:
            waits = asyncio.ensure_future(client.lock("x").acquire())
            await asyncio.sleep(0.2)
            return waits.done() or not waits.cancel()

    with two[0].lock("x"):
        assert not asyncio.run(main(two[0].url))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="no tasks begin at once before that")
@bounded
async def test_a_task_that_begins_at_once_does_not_wait_for_itself(space: str) -> None:
    asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory", None))
    async with AsyncClient(space) as one, AsyncClient(space) as other:
        async with one.lock("x"):
            begun = asyncio.create_task(other.lock("x").acquire())
            await asyncio.sleep(0.2)
        await (await begun).release()


@bounded
async def test_a_task_of_a_group_waits_for_the_one_that_made_it(space: str) -> None:
    async with AsyncClient(space) as one, AsyncClient(space) as other:

        async def once() -> None:
            async with other.lock("x"):
                pass

        async with asyncio.TaskGroup() as group:
            async with one.lock("x"):
                group.create_task(once())
                both = asyncio.gather(once(), once())
                await asyncio.sleep(0.2)
            await both


def test_a_thread_with_the_number_of_an_ended_thread_is_another(
    two: Two, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "holdfast")
    numbers: list[int] = []
    holds: list[Any] = []

    def take() -> None:
        numbers.append(threading.get_ident())
        holds.append(two[0].lock("x").acquire())

    def wait() -> None:
        numbers.append(threading.get_ident())
        two[1].lock("x").acquire().release()

    first = threading.Thread(target=take)
    first.start()
    first.join()
    second = threading.Thread(target=wait)
    second.start()
    threading.Timer(1.4, holds.pop().release).start()
    second.join()
    if numbers[0] != numbers[1]:
        pytest.skip("the number was not given again")
    assert not caplog.messages


#: Acquired holds, for use in a ``with``.
TAKEN: dict[str, Callable[[Client], Any]] = {
    "one": lambda client: client.lock("x").acquire(),
    "several": lambda client: client.all("w", "x").acquire(),
}


@pytest.mark.parametrize("take", TAKEN)
@bounded
def test_a_statement_over_what_was_acquired_is_found(take: str, two: Two) -> None:
    with TAKEN[take](two[0]) as held:
        assert held
        with pytest.raises(NotSupported):
            two[1].lock("x").acquire()
    with TAKEN[take](two[0]), pytest.raises(NotSupported):
        two[1].lock("x").acquire()


@pytest.mark.parametrize("names", ["x", "w x"])
@bounded
def test_a_name_in_the_statement_is_no_other_hand(names: str, two: Two) -> None:
    with two[0].all(*names.split()) if " " in names else two[0].lock(names) as held:
        with pytest.raises(NotSupported):
            two[1].lock("x").acquire()
        assert held.lost is None


@bounded
async def test_an_async_statement_over_what_was_acquired_is_found(space: str) -> None:
    async with AsyncClient(space) as one, AsyncClient(space) as other:
        async with await one.lock("x").acquire():
            with pytest.raises(NotSupported):
                await other.lock("x").acquire()
        async with await one.all("w", "x").acquire() as held:
            with pytest.raises(NotSupported):
                await other.lock("x").acquire()
            assert held.lost is None
        async with one.all("w", "x") as held:
            with pytest.raises(NotSupported):
                await other.lock("x").acquire()
            assert held.lost is None
