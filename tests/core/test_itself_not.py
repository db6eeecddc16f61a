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
from tests.core.bounded import ended, tasks

pytestmark = pytest.mark.usefixtures("checked_soon")

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
def test_a_hold_that_was_handed_on_is_waited_for(how: str, two: tuple[Client, Client]) -> None:
    def work() -> None:
        with two[0].lock("x") as hold:
            HANDED[how](hold)
            with two[1].lock("x"):
                assert two[0].lock("x").locked()

    ended(work)


def test_what_was_entered_by_hand_is_waited_for(two: tuple[Client, Client]) -> None:
    def work() -> None:
        lock = two[0].lock("x")
        lock.__enter__()
        threading.Timer(0.3, lock.release).start()
        with two[1].lock("x"):
            pass

    ended(work)


def test_a_hold_in_a_variable_that_others_see_is_waited_for(two: tuple[Client, Client]) -> None:
    def work() -> None:
        with two[0].lock("x") as hold:

            def later() -> None:
                hold.release()

            threading.Timer(0.3, later).start()
            with two[1].lock("x"):
                pass

    ended(work)


def test_a_hold_of_a_module_is_waited_for(two: tuple[Client, Client]) -> None:
    program = """
with one.lock("x") as hold:
    threading.Timer(0.3, lambda: hold.release()).start()
    with other.lock("x"):
        pass
"""
    names = {"one": two[0], "other": two[1], "threading": threading}
    ended(lambda: exec(program, names))


@pytest.mark.parametrize("part", ["whole", "one"])
def test_several_that_were_handed_on_are_waited_for(part: str, two: tuple[Client, Client]) -> None:
    def work() -> None:
        with two[0].all("w", "x") as held:
            HANDED["bound"](held if part == "whole" else held.holds[1])
            with two[1].lock("x"):
                pass

    ended(work)


def test_a_hold_in_its_own_with_is_awaited_after_it_was_handed_on(
    two: tuple[Client, Client],
) -> None:
    def work() -> None:
        with two[0].lock("x").acquire() as hold:
            HANDED["bound"](hold)
            with two[1].lock("x"):
                pass
        with two[0].all("w", "x").acquire() as held:
            HANDED["bound"](held)
            with two[1].lock("x"):
                pass

    ended(work)


def test_what_a_generator_has_entered_is_waited_for(
    two: tuple[Client, Client], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "holdfast")

    @contextlib.contextmanager
    def entered() -> Iterator[None]:
        with two[0].lock("x"):
            yield

    def work() -> None:
        outer = entered()
        outer.__enter__()
        threading.Timer(1.6, outer.__exit__, (None, None, None)).start()
        with two[1].lock("x"):
            pass

    ended(work)
    (line,) = caplog.messages
    assert f"by the hold taken at {__file__}:" in line


def test_an_async_generator_that_has_entered_is_waited_for(space: str) -> None:
    async def case(one: AsyncClient, other: AsyncClient) -> None:
        async def entered() -> AsyncIterator[int]:
            async with one.lock("x"):
                yield 1

        outer = entered()
        assert await anext(outer) == 1

        async def later() -> None:
            await asyncio.sleep(0.3)
            await outer.aclose()  # type: ignore[attr-defined]

        ends = asyncio.ensure_future(later())
        async with other.lock("x"):
            await ends

    tasks(space, case)


def test_a_task_does_not_hold_up_the_thread_around_its_loop(two: tuple[Client, Client]) -> None:
    async def main(url: str) -> bool:
        async with AsyncClient(url) as client:
            waits = asyncio.ensure_future(client.lock("x").acquire())
            await asyncio.sleep(0.2)
            return waits.done() or not waits.cancel()

    def work() -> bool:
        with two[0].lock("x"):
            return asyncio.run(main(two[0].url))

    assert not ended(work)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="no tasks begin at once before that")
def test_a_task_that_begins_at_once_does_not_wait_for_itself(space: str) -> None:
    async def case(one: AsyncClient, other: AsyncClient) -> None:
        factory: Any = getattr(asyncio, "eager_task_factory", None)
        asyncio.get_running_loop().set_task_factory(factory)
        async with one.lock("x"):
            begun = asyncio.create_task(other.lock("x").acquire())
            await asyncio.sleep(0.2)
        await (await begun).release()

    tasks(space, case)


def test_a_task_of_a_group_waits_for_the_one_that_made_it(space: str) -> None:
    async def case(one: AsyncClient, other: AsyncClient) -> None:
        async def once() -> None:
            async with other.lock("x"):
                pass

        async with asyncio.TaskGroup() as group:
            async with one.lock("x"):
                group.create_task(once())
                both = asyncio.gather(once(), once())
                await asyncio.sleep(0.2)
            await both

    tasks(space, case)


def test_a_thread_with_the_number_of_an_ended_thread_is_another(
    two: tuple[Client, Client], caplog: pytest.LogCaptureFixture
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


def plainly(client: Client) -> Any:
    """Return an acquired hold, for use in a ``with``."""
    return client.lock("x").acquire()


def together(client: Client) -> Any:
    """Return several acquired holds, for use in a ``with``."""
    return client.all("w", "x").acquire()


@pytest.mark.parametrize("take", [plainly, together])
def test_a_statement_over_what_was_acquired_is_found(
    take: Callable[[Client], Any], two: tuple[Client, Client]
) -> None:
    def work() -> None:
        with take(two[0]) as held:
            assert held
            with pytest.raises(NotSupported):
                two[1].lock("x").acquire()
        with take(two[0]), pytest.raises(NotSupported):
            two[1].lock("x").acquire()

    ended(work)


@pytest.mark.parametrize("names", ["x", "w x"])
def test_a_name_in_the_statement_is_no_other_hand(names: str, two: tuple[Client, Client]) -> None:
    def work() -> None:
        with two[0].all(*names.split()) if " " in names else two[0].lock(names) as held:
            with pytest.raises(NotSupported):
                two[1].lock("x").acquire()
            assert held.lost is None

    ended(work)


def test_an_async_statement_over_what_was_acquired_is_found(space: str) -> None:
    async def case(one: AsyncClient, other: AsyncClient) -> None:
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

    tasks(space, case)
