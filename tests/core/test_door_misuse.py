"""A ``with`` that ends on another thread or task never releases the hold of another statement."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import pytest

from holdfast import AsyncClient, AsyncHold, Client, Hold, LockLost, NotHeld
from holdfast.core.model import State
from holdfast.sync import Lock


def elsewhere(act: Callable[[], object]) -> BaseException | None:
    """Call this on another thread; return the exception that it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as failure:
            raised.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    return raised[0] if raised else None


def entered(lock: Lock) -> Iterator[Hold]:
    """A generator whose body is inside a ``with`` of this lock."""
    with lock as hold:
        yield hold


async def within(semaphore: Any) -> AsyncGenerator[AsyncHold]:
    """A generator that is suspended in the body of an ``async with``."""
    async with semaphore as hold:
        yield hold


def test_a_body_ended_on_another_thread_after_a_loss_frees_no_other_hold(
    locks: Client, lose: Callable[..., None]
) -> None:
    # Given one lock object; the first holder's lease is lost, and a second holder has entered
    lock = locks.lock("x")
    first = entered(lock)
    lose(next(first))
    with lock as second:
        # When the body of the first one ends on another thread
        raised = elsewhere(lambda: next(first, None))
        # Then the first body gets LockLost, and the second one still holds
        assert isinstance(raised, LockLost)
        assert second.state is State.HELD
        assert locks.inspect("x")[0].holders[0].fence == second.fence


def test_two_generators_of_one_thread_release_their_own_holds(locks: Client) -> None:
    semaphore = locks.semaphore("x", 2)
    one, other = entered(semaphore), entered(semaphore)
    first, second = next(one), next(other)
    assert next(one, None) is None
    assert (first.state, second.state) == (State.RELEASED, State.HELD)
    assert next(other, None) is None
    assert second.state is State.RELEASED


def test_a_second_end_of_a_with_frees_no_other_hold(locks: Client) -> None:
    lock = locks.lock("x")
    lock.__enter__()
    lock.__exit__(None, None, None)
    other = entered(lock)
    elsewhere(lambda: next(other))
    with pytest.raises(NotHeld, match="by this statement"):
        lock.__exit__(None, None, None)
    assert locks.lock("x").locked()
    assert elsewhere(lambda: next(other, None)) is None
    assert not lock.locked()


def test_a_body_that_failed_shows_its_own_exception_where_nothing_can_be_released(
    locks: Client,
) -> None:
    lock = locks.lock("x")
    other = entered(lock)
    elsewhere(lambda: next(other))
    failure = ValueError("the body's own")
    lock.__exit__(ValueError, failure, None)
    assert "was not entered" in failure.__notes__[0]
    other.close()  # type: ignore[attr-defined]


def test_an_exit_stack_unwound_on_another_thread_frees_its_own_hold(locks: Client) -> None:
    semaphore = locks.semaphore("x", 2)
    one, other = contextlib.ExitStack(), contextlib.ExitStack()
    first = one.enter_context(semaphore)
    second = other.enter_context(semaphore)
    assert elsewhere(one.close) is None
    assert (first.state, second.state) == (State.RELEASED, State.HELD)
    other.close()
    assert second.state is State.RELEASED


def test_a_sole_hold_entered_by_hand_may_be_left_by_another_thread(
    locks: Client,
) -> None:
    lock = locks.lock("x")

    def begin() -> None:
        lock.__enter__()

    assert elsewhere(begin) is None
    lock.__exit__(None, None, None)
    assert not lock.locked()


def test_a_statement_around_is_not_left_by_what_it_calls(locks: Client) -> None:
    semaphore = locks.semaphore("x", 2)

    def begin() -> Hold:
        return semaphore.__enter__()

    def end() -> None:
        semaphore.__exit__(None, None, None)

    by_hand = begin()
    with semaphore as inner:
        end()
        assert (by_hand.state, inner.state) == (State.RELEASED, State.HELD)
    assert inner.state is State.RELEASED


def test_a_task_that_ends_anothers_generator_releases_its_hold() -> None:
    async def main() -> None:
        async with AsyncClient("memory://moved-generators") as client:
            semaphore = client.semaphore("x", 2)

            one, other = within(semaphore), within(semaphore)
            first = await anext(one)
            second = await asyncio.create_task(anext(other))
            await asyncio.create_task(one.aclose())
            assert (first.state, second.state) == (State.RELEASED, State.HELD)
            await other.aclose()
            assert await client.inspect("x") == []

    asyncio.run(main())


def test_a_coroutine_that_entered_by_hand_is_not_known_by_its_number() -> None:
    async def main() -> None:
        async with AsyncClient("memory://numbers-of-coroutines") as client:
            semaphore = client.semaphore("x", 2)

            async def toggle(on: bool) -> AsyncHold | None:
                if on:
                    return await semaphore.__aenter__()
                if len(semaphore._door) == 2:
                    # Its frame has the address of the first coroutine's frame, which has ended.
                    semaphore._door[0].number, semaphore._door[1].number = id(sys._getframe()), 0
                await semaphore.__aexit__(None, None, None)
                return None

            async def another() -> AsyncHold | None:
                hold = await toggle(True)
                await toggle(False)
                return hold

            first = await toggle(True)
            second = await asyncio.create_task(another())
            assert first is not None
            assert second is not None
            assert (first.state, second.state) == (State.HELD, State.RELEASED)
            await toggle(False)
            assert first.state is State.RELEASED

    asyncio.run(main())


def test_an_end_by_hand_leaves_a_generator_of_its_task_alone() -> None:
    async def main() -> None:
        async with AsyncClient("memory://by-hand-and-generators") as client:
            semaphore = client.semaphore("x", 2)

            async def begin() -> AsyncHold:
                return await semaphore.__aenter__()

            async def end() -> None:
                await semaphore.__aexit__(None, None, None)

            by_hand, generator = await begin(), within(semaphore)
            kept = await anext(generator)
            await end()
            assert (by_hand.state, kept.state) == (State.RELEASED, State.HELD)
            await generator.aclose()
            assert kept.state is State.RELEASED

    asyncio.run(main())


def test_wrappers_are_distinguished_by_the_statement_that_uses_them(locks: Client) -> None:
    semaphore = locks.semaphore("x", 2)

    class Wrapper:
        def __enter__(self) -> Hold:
            return semaphore.__enter__()

        def __exit__(self, *failure: object) -> None:
            semaphore.__exit__(None, None, None)

    shared = Wrapper()

    def body() -> Iterator[Hold]:
        with shared as hold:
            yield hold

    one, other = body(), body()
    first, second = next(one), next(other)
    assert elsewhere(lambda: next(one, None)) is None
    assert (first.state, second.state) == (State.RELEASED, State.HELD)
    other.close()  # type: ignore[attr-defined]
    assert locks.inspect("x") == []
