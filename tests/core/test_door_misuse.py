"""A ``with`` that ends in any order, thread or task never releases the hold of another statement.

``test_door_walk_kit.py`` plays random histories of such bodies; here are the rare ones.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from holdfast import AsyncClient, AsyncHold, Client, Hold, NotHeld
from holdfast.core.model import State
from holdfast.sync import Lock
from holdfast.testing.clock import TestClock
from tests.core.bounded import bounded


def elsewhere(act: Callable[[], object]) -> None:
    """Call this on another thread."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def entered(lock: Lock) -> Iterator[Hold]:
    """A generator whose body is inside a ``with`` of this lock."""
    with lock as hold:
        yield hold


def test_entries_of_one_thread_are_left_in_their_order(locks: Client) -> None:
    semaphore = locks.semaphore("x", 2)
    with semaphore as outer:
        with semaphore as inner:
            assert inner != outer
        assert (outer.lost, inner.state) == (None, State.RELEASED)
        outer.check()
    assert locks.inspect("x") == []


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
    # And a body that failed shows its own exception, although nothing can be released
    failure = ValueError("the body's own")
    lock.__exit__(ValueError, failure, None)
    assert "was not entered" in failure.__notes__[0]
    assert locks.lock("x").locked()
    elsewhere(lambda: next(other, None))
    assert not lock.locked()


def test_a_sole_hold_entered_by_hand_may_be_left_by_another_thread(locks: Client) -> None:
    lock = locks.lock("x")

    def begin() -> None:
        lock.__enter__()

    elsewhere(begin)
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


def test_a_function_that_entered_by_hand_is_not_known_by_its_number(locks: Client) -> None:
    semaphore, holds = locks.semaphore("x", 2), []

    def toggle(on: bool) -> None:
        if on:
            holds.append(semaphore.__enter__())
            return
        if len(semaphore._door) == 2:
            # Its frame has the address of the first call's frame, which has ended.
            semaphore._door[0].number, semaphore._door[1].number = id(sys._getframe()), 0
        semaphore.__exit__(None, None, None)

    toggle(True)
    elsewhere(lambda: [toggle(on) for on in (True, False)])
    assert [hold.state for hold in holds] == [State.HELD, State.RELEASED]
    toggle(False)
    assert holds[0].state is State.RELEASED


@bounded
async def test_a_coroutine_that_entered_by_hand_is_not_known_by_its_number() -> None:
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
    elsewhere(lambda: next(one, None))
    assert (first.state, second.state) == (State.RELEASED, State.HELD)
    assert next(other, None) is None
    assert locks.inspect("x") == []


def test_many_holds_of_one_lock_object_are_all_found_again(locks: Client) -> None:
    semaphore = locks.semaphore("x", 100)
    first = [semaphore.acquire() for _ in range(100)]
    for hold in first[::2]:
        hold.release()
    for _ in range(50):
        assert semaphore.release() is True
    with pytest.raises(NotHeld):
        semaphore.release()
    assert locks.inspect("x") == []


def test_a_lock_object_forgets_expired_holds(locks: Client, lock_clock: TestClock) -> None:
    semaphore = locks.semaphore("x", 1000, ttl=30, auto_renew=False)
    for _ in range(200):
        semaphore.acquire()
    lock_clock.jump(31)
    for _ in range(60):
        semaphore.acquire()
    assert len(semaphore._given) < 200
    lock_clock.jump(31)
