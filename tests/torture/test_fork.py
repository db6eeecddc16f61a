"""Forks of a holder: the child relies on no hold, frees none, and can lock for itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from holdfast import AsyncClient, Client, Loss
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Fork, Subject
from tests.torture.scale import figures, times

lag.watch()
WORST_S = 0.250


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as one:
        yield one


def holders(client: Client, name: str = "x") -> list[int]:
    return [c.fence for line in client.inspect(name, exact=True) for c in line.holders]


def test_a_child_believes_nothing_and_frees_nothing(client: Client, url: str) -> None:
    believed = freed = failed = 0
    with Client(url) as other:
        for turn in range(times(100, 30)):
            # Given a hold, of a different kind in each turn, and a child that is forked then
            lock = [
                client.lock("x"),
                client.lock("x", reentrant=True),
                client.semaphore("s", 2),
                client.rwlock("r").write,
            ][turn % 4]
            hold = lock.acquire()

            def inside(hold: object = hold, lock: object = lock, turn: int = turn) -> list[object]:
                # When the child checks the hold, releases it, and acquires
                seen = hold.lost, hold.remaining(), hold.state  # type: ignore[attr-defined]
                released = hold.release()  # type: ignore[attr-defined]
                again = lock.acquire(blocking=False)  # type: ignore[attr-defined]
                with client.lock(f"own {turn}", timeout=5) as own:
                    own.check()
                return [seen[0], seen[1], seen[2], released, again is not None]

            with Fork(inside) as child:
                lost, remaining, state, released, again = child.result()
            # Then the child saw the hold as lost, and didn't get what its parent holds
            believed += lost != Loss.FORKED or remaining > 0 or state != "lost" or released
            # The semaphore has two permits, so the child can get the other one
            believed += again and turn % 4 != 2
            # And the parent still holds
            freed += hold.fence not in holders(other, lock.name)
            hold.check()
            failed += not hold.release()
        print(f"children that believed: {believed}; holds freed: {freed}; lost: {failed}")
        assert (believed, freed, failed) == (0, 0, 0)
        assert other.inspect() == []


def test_a_child_that_exits_or_is_killed_frees_nothing(client: Client) -> None:
    with client.lock("x") as hold:
        for turn in range(times(50, 10)):
            # Given a child that uses the client, and ends normally or is killed
            with Fork(lambda: client.lock("x").acquire(timeout=0.005) is None) as child:
                if turn % 2:
                    child.kill()
                else:
                    assert child.result() is True
            # Then the parent still holds
            assert holders(client) == [hold.fence]
            hold.check()
    assert holders(client) == []


def test_a_fork_in_the_middle_of_others_verbs_harms_neither_side(client: Client) -> None:
    # Given four threads that lock and unlock without a pause
    over = threading.Event()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            while not over.is_set():
                with client.lock(f"y{number % 2}", timeout=10):
                    pass
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(times(100, 25)):

            def inside(turn: int = turn) -> bool:
                with client.lock(f"child {turn}", timeout=5), client.lock("y0", timeout=5):
                    return True

            # When children are forked at the same time, then each can lock for itself
            with Fork(inside) as child:
                assert child.result() is True
    finally:
        over.set()
        for thread in threads:
            thread.join(20)
    assert failures == []
    assert client.inspect() == []


def test_the_parent_is_killed_while_its_child_lives_and_the_name_is_free(url: str) -> None:
    late = []
    with Client(url) as client:
        for _ in range(times(50, 8)):
            # Given a holder with a ttl of 30 s, whose child lives on
            with Subject("tests.torture.acts:holds_and_forks", url, "x") as one:
                fence, child = one.hear()
                assert holders(client) == [fence]
                try:
                    # When the parent is killed
                    one.kill()
                    begun = boottime()
                    # Then the next claim holds immediately
                    hold = client.lock("x").acquire(timeout=10)
                    late.append(boottime() - begun - lag.since(begun))
                    assert hold is not None
                    assert hold.release()
                finally:
                    _end(child)
    print(figures("a killed parent's name", late))
    assert max(late) < WORST_S


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def test_under_asyncio_the_forked_child_starts_fresh(url: str) -> None:
    # Given a hold of an event loop, and a child forked inside this loop
    async def main() -> None:
        async with AsyncClient(url) as client:
            for _ in range(times(50, 10)):
                hold = await client.lock("x").acquire()

                async def again(hold: object = hold) -> list[object]:
                    other = await client.lock("x").acquire(blocking=False)
                    async with client.lock("own", timeout=5):
                        pass
                    return [str(hold.lost), hold.remaining(), other is None]  # type: ignore[attr-defined]

                # When the child checks and locks in a separate loop
                with Fork(lambda: _elsewhere(again)) as child:
                    said = await asyncio.to_thread(child.result)
                # Then it saw the hold as lost, and took nothing
                assert said == [str(Loss.FORKED), 0.0, True]
                hold.check()
                assert await hold.release()
            assert await client.inspect() == []

    asyncio.run(main())


def _elsewhere(work: object) -> object:
    """Run the work in a new loop and thread, because the loop of the parent can't be used in the
    child."""
    found: list[object] = []

    def run() -> None:
        found.append(asyncio.run(work()))  # type: ignore[operator]

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]
