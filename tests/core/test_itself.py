"""A thread or task that waits for itself gets an error that names the line of its own hold."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncClient, Client, ConfigError, LockLost, NotAcquired, NotSupported
from tests.core.bounded import Work, bounded, ended, here

pytestmark = pytest.mark.usefixtures("checked_soon")
Two = tuple[Client, Client]

#: The lock that is held, and the lock that then waits for it.
WAITS: dict[str, tuple[Callable[[Client], Any], Callable[[Client], Any]]] = {
    "lock": (lambda c: c.lock("x"), lambda c: c.lock("x")),
    "reentrant": (lambda c: c.lock("x", reentrant=True), lambda c: c.lock("x", reentrant=True)),
    "semaphore": (
        lambda c: c.semaphore("x", 3, weight=2),
        lambda c: c.semaphore("x", 3, weight=2),
    ),
    "write in read": (lambda c: c.rwlock("x").read, lambda c: c.rwlock("x").write),
    "read in write": (lambda c: c.rwlock("x").write, lambda c: c.rwlock("x").read),
    "election": (lambda c: c.election("x"), lambda c: c.election("x")),
    "one of all": (lambda c: c.all("w", "x"), lambda c: c.lock("x")),
    "all over one": (lambda c: c.lock("x"), lambda c: c.all("w", "x")),
}


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The captured log, with warnings only."""
    caplog.set_level(logging.WARNING, "holdfast")
    return caplog


@pytest.mark.parametrize("which", WAITS)
@bounded
def test_a_thread_that_would_wait_for_itself_is_refused_at_once(which: str, two: Two) -> None:
    outer, inner = WAITS[which]
    where = here(1)
    with outer(two[0]):
        with pytest.raises(NotSupported, match="wait for itself forever") as told:
            inner(two[1]).acquire()
        assert where in str(told.value)
        with pytest.raises(NotSupported), inner(two[1]):
            pass
    with inner(two[1]):  # and nothing of it is left in the line
        pass


def test_the_error_names_this_process_as_the_holder_and_the_remedy(two: Two) -> None:
    with Client(two[0].url, label="other") as other, two[0].lock("x"):
        for client in (two[0], other):
            with pytest.raises(NotAcquired) as busy, client.lock("x", timeout=0):
                pass
            assert ("this process itself" in str(busy.value)) is (client is not other)
            assert client is other or "reentrant=True" in str(busy.value)


def test_a_claim_that_fits_next_to_own_holds_is_granted_after_others(two: Two) -> None:
    with Client(two[0].url) as third:
        hold = third.semaphore("s", 3).acquire()

        def work() -> None:
            with two[0].semaphore("s", 3), two[1].semaphore("s", 3, weight=2):
                pass

        threading.Timer(0.3, hold.release).start()
        ended(work)


@bounded
def test_the_error_of_a_decorated_function_names_the_line_of_its_caller(two: Two) -> None:
    @two[0].lock("x")
    def once(again: bool) -> None:
        if again:
            once(False)

    where = here(2)
    with pytest.raises(NotSupported) as told:
        once(True)
    assert where in str(told.value)


@pytest.mark.parametrize("options", [{"max_hold": 2.5}, {"auto_renew": False, "ttl": 2.5}])
@bounded
def test_what_ends_by_itself_is_waited_for(options: dict[str, Any], two: Two) -> None:
    came = []
    with contextlib.suppress(LockLost), two[0].lock("x", **options), two[1].lock("x"):
        came.append(True)
    assert came


def bare(client: Client, end: Callable[[Work], None]) -> None:
    end(client.lock("x").acquire().release)


def by_hand(client: Client, end: Callable[[Work], None]) -> None:
    lock = client.lock("x")
    lock.__enter__()
    end(lock.release)


@pytest.mark.parametrize("take", [bare, by_hand])
@bounded
def test_a_hold_that_another_thread_may_release_is_awaited_with_a_warning(
    take: Any, two: Two, warned: pytest.LogCaptureFixture
) -> None:
    take(two[0], lambda release: threading.Timer(2.6, release).start())
    with two[1].lock("x"):
        pass
    (line,) = warned.messages
    assert line.startswith("waiting for 'x' for ")
    assert f"this very thread or task holds it, by the hold taken at {__file__}:" in line


@bounded
def test_a_stack_is_named_by_its_caller(two: Two) -> None:
    with contextlib.ExitStack() as stack:
        where = here(1)
        stack.enter_context(two[0].lock("x"))
        with pytest.raises(NotAcquired) as busy, two[1].lock("x", timeout=0.05):
            pass
        assert where in str(busy.value)


@bounded
def test_a_bounded_wait_times_out_and_names_the_line_of_the_hold(
    two: Two, warned: pytest.LogCaptureFixture
) -> None:
    where = here(1)
    with two[0].lock("x"):
        for timeout in (0, 0.05, 1.5):
            with pytest.raises(NotAcquired) as busy, two[1].lock("x", timeout=timeout):
                pass
            assert f"by the hold taken at {where}" in str(busy.value)
    assert len(warned.messages) == 1


def test_the_same_name_in_another_store_is_another_one(two: Two) -> None:
    with Client(f"memory://{os.urandom(8).hex()}") as elsewhere:
        hold = elsewhere.lock("x").acquire()
        threading.Timer(0.3, hold.release).start()

        def work() -> None:
            with two[0].lock("x"), elsewhere.lock("x"):
                pass

        ended(work)


def test_a_computation_does_not_wait_for_itself_by_another_client(two: Two) -> None:
    one, other = (client.guard("g", ttl=60) for client in two)
    with pytest.raises(ConfigError, match="asks for the same value"):
        ended(lambda: one.get(lambda: other.get(lambda: 1)))
    assert ended(lambda: one.get(lambda: other.get(lambda: 1, key="b"), key="a")) == 1


# -- tasks ---------------------------------------------------------------------------------------


@bounded
async def test_a_task_that_would_wait_for_itself_is_refused_at_once(space: str) -> None:
    async with AsyncClient(space) as one, AsyncClient(space) as other:
        where = here(1)
        async with one.lock("x"):
            with pytest.raises(NotSupported, match="forever") as told:
                await other.lock("x").acquire()
            assert where in str(told.value)
            with pytest.raises(NotSupported):
                async with other.all("w", "x"):
                    pass
            with pytest.raises(NotSupported), Client(space) as threads, threads.lock("x"):
                pass
        async with one.all("w", "x"):
            with pytest.raises(NotSupported):
                await other.lock("x").acquire()
        await (await other.lock("x").acquire()).release()


@bounded
async def test_a_timer_that_ends_the_wait_is_left_to_end_it(space: str) -> None:
    async with AsyncClient(space) as one, AsyncClient(space) as other, one.lock("x"):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5), other.lock("x"):
                pass
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(other.lock("x").acquire(), 2.5)
        async with asyncio.timeout(None):
            with pytest.raises(NotSupported):
                await other.lock("x").acquire()
        task: Any = asyncio.current_task()
        asyncio.get_running_loop().call_later(2.5, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await other.lock("x").acquire()
        task.uncancel()


@bounded
async def test_a_hold_of_another_task_causes_no_warning(
    space: str, warned: pytest.LogCaptureFixture
) -> None:
    async with AsyncClient(space) as one, AsyncClient(space) as other:
        async with one.lock("x"):
            waits = asyncio.ensure_future(other.lock("x").acquire())
            await asyncio.sleep(1.5)
        await (await waits).release()
    assert not warned.messages


@bounded
async def test_a_hold_of_this_task_that_another_task_releases_is_awaited(
    space: str, warned: pytest.LogCaptureFixture
) -> None:
    async with AsyncClient(space) as one, AsyncClient(space) as other:
        hold = await one.lock("x").acquire()

        async def later() -> None:
            await asyncio.sleep(2.6)
            await hold.release()

        task = asyncio.ensure_future(later())
        async with other.lock("x"):
            await task
    (line,) = warned.messages
    assert f"by the hold taken at {__file__}:" in line


@bounded
async def test_a_task_does_not_compute_for_itself_by_another_client(space: str) -> None:
    async with AsyncClient(space) as one, AsyncClient(space) as other:
        inner = other.guard("g", ttl=60)

        async def one_() -> int:
            return 1

        async def compute() -> int:
            return await inner.get(one_)

        with pytest.raises(ConfigError, match="asks for the same value"):
            await one.guard("g", ttl=60).get(compute)
