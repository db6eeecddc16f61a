"""Each ``with`` releases its own hold, in any order and on any thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from holdfast import Client, Hold, NotHeld
from holdfast.sync import Semaphore
from holdfast.testing.clock import TestClock


def test_two_threads_in_one_semaphore_object_release_their_own_holds(locks: Client) -> None:
    semaphore = locks.semaphore("x", 2)
    holds: dict[str, Hold] = {}
    inside, first_out = threading.Barrier(2), threading.Event()

    def work(name: str) -> None:
        with semaphore as hold:
            holds[name] = hold
            inside.wait(5)
            if name == "second":
                assert first_out.wait(5)
                hold.check()
        first_out.set()

    threads = [threading.Thread(target=work, args=[name]) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert [holds[name].state for name in ("first", "second")] == ["released", "released"]
    assert locks.inspect("x") == []


def test_entries_of_one_thread_are_left_in_their_order(locks: Client) -> None:
    semaphore = locks.semaphore("x", 2)
    with semaphore as outer:
        with semaphore as inner:
            assert inner != outer
        assert (outer.lost, inner.state) == (None, "released")
        outer.check()
    assert locks.inspect("x") == []


def test_a_body_that_is_ended_by_another_thread_frees_what_it_held(locks: Client) -> None:
    def body() -> Iterator[Hold]:
        with locks.lock("x") as hold:
            yield hold

    generator = body()
    hold = next(generator)
    ending = threading.Thread(target=generator.close)  # type: ignore[attr-defined]
    ending.start()
    ending.join(5)
    assert hold.state == "released"
    assert locks.inspect("x") == []


def test_leaving_what_was_not_entered_is_an_error(locks: Client) -> None:
    with pytest.raises(NotHeld, match="not entered"):
        locks.lock("x").__exit__(None, None, None)


def test_a_failed_entry_leaves_no_hold(locks: Client) -> None:
    lock = locks.lock("x", timeout=0)
    with lock:
        with pytest.raises(TimeoutError), lock:
            raise AssertionError("the body ran unheld")
        assert lock.locked()
    assert not lock.locked()


def test_many_holds_of_one_lock_object_are_all_found_again(locks: Client) -> None:
    semaphore: Semaphore = locks.semaphore("x", 100)
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
