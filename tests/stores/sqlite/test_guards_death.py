"""The process that computes a value dies or is interrupted at any point. Exactly one caller
computes the value again, and no old value comes back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncClient, Client
from holdfast.core.guard.model import EntryState
from holdfast.sync.guard import Guard
from holdfast.testing import lag
from holdfast.testing.faults import Strike
from tests.fenced.process import Child
from tests.torture.scale import times

lag.watch()
INSIDE = ("holdfast.stores.sqlite.blocking",)
COMPUTE_S = 0.3


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def never() -> str:
    raise AssertionError("it is there")


def whole(path: Path) -> None:
    """Check that the database passes SQLite's integrity check."""
    with contextlib.closing(sqlite3.connect(f"{path}-values", timeout=10)) as books:
        assert books.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def compute(guard: Guard) -> None:
    guard.get(lambda: "new")


def invalidate(guard: Guard) -> None:
    guard.invalidate()


def fail(guard: Guard) -> None:
    def vain() -> str:
        raise LookupError("in vain")

    with contextlib.suppress(LookupError):
        guard.get(vain)


@pytest.mark.parametrize("verb", [compute, invalidate, fail], ids=lambda verb: str(verb.__name__))
def test_kill_9_at_any_point_of_a_verb_leaves_it_whole_or_undone(
    path: Path, verb: Callable[[Guard], None]
) -> None:
    dice = random.Random(seed := random.randrange(1 << 32))
    print(f"seed {seed}")
    with Client(f"sqlite://{path}") as client:
        ours = client.guard("g", ttl=600, lease=600)

        def dies(child: Child, number: int) -> None:
            theirs = Client(f"sqlite://{path}").guard("g", ttl=600, lease=600)
            theirs.inspect()
            with Strike(number, die, within=INSIDE) as strike:
                verb(theirs)
            child.say(strike.points)

        def once(number: int) -> list[str]:
            ours.invalidate()
            if verb is invalidate:
                assert ours.get(lambda: "old") == "old"
            with Child(lambda child: dies(child, number)) as child:
                said = child.rest()
                assert child.end() == (0 if said else -signal.SIGKILL)
            whole(path)
            # The next caller gets a value immediately, although the refresh lease is long.
            found = ours.get(lambda: "ours", timeout=5)
            assert found in {compute: ("new", "ours"), invalidate: ("old", "ours")}.get(
                verb, ("ours",)
            )
            # A new client reads the same value.
            with Client(f"sqlite://{path}") as late:
                assert late.guard("g", ttl=600).get(never) == found
            return said

        (points,) = once(0)
        print(f"{points} points")
        for _ in range(times(300, 5)):
            once(dice.randint(1, int(points)))


def test_an_interrupt_at_any_point_leaves_no_lock_and_no_refresh_lease(path: Path) -> None:
    dice = random.Random(seed := random.randrange(1 << 32))
    print(f"seed {seed}")
    with Client(f"sqlite://{path}") as client, Client(f"sqlite://{path}") as other:
        ours = client.guard("g", ttl=600, lease=600)
        theirs = other.guard("g", ttl=600, lease=600)
        number = 0

        def work() -> None:
            nonlocal number
            number += 1
            ours.invalidate()
            ours.get(lambda: number)
            ours.get(lambda: number)

        with Strike(0, within=INSIDE) as strike:
            work()
        for _ in range(times(1000, 60)):
            # When Ctrl-C arrives anywhere in a verb
            with (
                contextlib.suppress(KeyboardInterrupt),
                Strike(dice.randint(1, strike.points), within=INSIDE),
            ):
                work()
            # Then other clients get the file mutex immediately, soon find no refresh lease, and
            # both clients read the same value
            begun = time.monotonic()
            while theirs.inspect().owner:
                assert time.monotonic() - begun < 5.0 + lag.since(begun)
                time.sleep(0.005)
            found = theirs.get(lambda: -number, timeout=5)
            assert ours.get(never, timeout=5) == found
            assert theirs.invalidate() == 1
            assert ours.inspect().state is EntryState.MISSING
            assert ours.get(lambda: "again", timeout=5) == "again"
        whole(path)


def test_an_interrupt_at_the_end_of_a_wait_releases_the_refresh_lease(path: Path) -> None:
    where = "holdfast.stores.sqlite.blocking.values.port:ThreadValues.unlisten"
    with Client(f"sqlite://{path}") as client, Client(f"sqlite://{path}") as other:
        guard = client.guard("g", ttl=600, lease=600)
        with pytest.raises(KeyboardInterrupt), Strike(1, function=where):
            guard.get(never)
        assert other.guard("g", ttl=600).get(lambda: "theirs", timeout=5) == "theirs"


def slow(child: Child, path: Path) -> None:
    """Hold the refresh lease for ten minutes, and report this to the parent."""

    def work() -> str:
        child.say(os.getpid())
        signal.pause()
        return "never"

    Client(f"sqlite://{path}").guard("g", ttl=60, lease=600).get(work)


def test_when_the_computing_process_is_killed_another_computes_at_once(path: Path) -> None:
    computed: list[float] = []
    ended: list[tuple[object, float]] = []

    def work() -> str:
        computed.append(time.monotonic())
        time.sleep(COMPUTE_S)
        return "value"

    def ask() -> None:
        with Client(f"sqlite://{path}") as client:
            ended.append((client.guard("g", ttl=60).get(work), time.monotonic()))

    with Child(lambda child: slow(child, path)) as child:
        child.hear()
        callers = [threading.Thread(target=ask, daemon=True) for _ in range(6)]
        for one in callers:
            one.start()
        time.sleep(0.3)
        assert not ended
        killed = time.monotonic()
        child.send(signal.SIGKILL)
        for one in callers:
            one.join(max(0.0, killed + 8.0 - time.monotonic()))
    assert [found for found, _ in ended] == ["value"] * 6
    assert len(computed) == 1
    longest = max(when for _, when in ended) - killed - COMPUTE_S
    print(f"beyond the computation: {longest * 1e3:.1f} ms")
    assert longest < 0.5 + lag.since(killed)


def test_on_a_loop_it_is_noticed_as_soon(path: Path) -> None:
    computed = 0

    async def work() -> str:
        nonlocal computed
        computed += 1
        await asyncio.sleep(COMPUTE_S)
        return "value"

    async def ask() -> str:
        async with AsyncClient(f"sqlite://{path}") as client:
            return await client.guard("g", ttl=60).get(work)

    async def main(child: Child) -> None:
        tasks = [asyncio.create_task(ask()) for _ in range(4)]
        await asyncio.sleep(0.3)
        killed = time.monotonic()
        child.send(signal.SIGKILL)
        assert await asyncio.wait_for(asyncio.gather(*tasks), 30) == ["value"] * 4
        assert time.monotonic() - killed - COMPUTE_S < 0.5 + lag.since(killed)

    with Child(lambda child: slow(child, path)) as child:
        child.hear()
        asyncio.run(main(child))
    assert computed == 1


def test_a_stopped_process_keeps_its_refresh_lease_until_it_expires(path: Path) -> None:
    def stops(child: Child) -> None:
        def work() -> str:
            child.say("computes")
            os.kill(os.getpid(), signal.SIGSTOP)
            return "late"

        theirs = Client(f"sqlite://{path}").guard("g", ttl=60, lease=1.5)
        child.say(theirs.get(work))
        child.say(theirs.get(lambda: "third"))

    with Child(stops) as child, Client(f"sqlite://{path}") as client:
        assert child.hear() == "computes"
        child.stopped()
        begun = time.monotonic()
        assert client.guard("g", ttl=60).get(lambda: "ours") == "ours"
        assert time.monotonic() - begun > 0.5
        child.send(signal.SIGCONT)
        assert child.hear() == "late"
        # The value that it computed was not stored.
        assert child.hear() == "ours"
        assert child.end() == 0


def test_a_living_child_does_not_keep_its_dead_parents_refresh_lease(path: Path) -> None:
    def holds(child: Child) -> None:
        def work() -> str:
            if not os.fork():
                child.say(os.getpid())
            signal.pause()
            return "never"

        Client(f"sqlite://{path}").guard("g", ttl=60, lease=600).get(work)

    with Client(f"sqlite://{path}") as client, Child(holds) as parent:
        orphan = int(parent.hear())
        try:
            parent.send(signal.SIGKILL)
            parent.end()
            assert client.guard("g", ttl=60).get(lambda: "ours", timeout=10) == "ours"
        finally:
            os.kill(orphan, signal.SIGKILL)


def test_a_fork_during_reads_finds_all_mutexes_free(path: Path) -> None:
    with Client(f"sqlite://{path}") as client:
        guard = client.guard("g", ttl=60)
        keys = [str(number) for number in range(40)]
        guard.get_many(keys, lambda key: key * 9000)  # too large to be kept: each read is one
        over = threading.Event()

        def read() -> None:
            while not over.is_set():
                guard.get_many(keys, lambda _: never())

        readers = [threading.Thread(target=read) for _ in range(3)]
        for one in readers:
            one.start()

        def works(child: Child) -> None:
            assert guard.get(never, key="7") == "7" * 9000
            assert guard.get(lambda: "of the child", key="new") == "of the child"
            child.say("worked")

        try:
            for _ in range(times(200, 5)):
                with Child(works) as child:
                    assert child.hear() == "worked"
                    assert child.end() == 0
                assert guard.get(never, key="new") == "of the child"
                assert guard.invalidate("new") == 1
        finally:
            over.set()
            for one in readers:
                one.join(30)


def test_a_cancelled_task_leaves_no_refresh_lease(path: Path) -> None:
    dice = random.Random(seed := random.randrange(1 << 32))
    print(f"seed {seed}")

    async def work() -> int:
        await asyncio.sleep(0.001)
        return 1

    async def main() -> None:
        async with AsyncClient(f"sqlite://{path}") as client:
            guard = client.guard("g", ttl=60, lease=600)
            for _ in range(times(500, 40)):
                task = asyncio.create_task(guard.get(work))
                await asyncio.sleep(dice.choice([0, 0.001, 0.004]) * dice.random())
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                assert await guard.get(work, timeout=5) == 1
                await guard.invalidate()
            assert not (await guard.inspect()).owner

    asyncio.run(main())


def test_a_writer_killed_during_a_change_leaves_reads_correct(path: Path) -> None:
    with Client(f"sqlite://{path}") as client:
        guard: Any = client.guard("g", ttl=60)
        for number in range(3):
            assert guard.get(lambda number=number: number) == number
            assert guard.get(never) == number  # which is kept from now on

            def dies(_: Child, at: int = number) -> None:
                theirs = Client(f"sqlite://{path}").guard("g", ttl=60)
                theirs.inspect()
                where = "holdfast.stores.sqlite.blocking.values.reading:Changing.__"
                verbs = ["enter__", "exit__", "exit__"]
                with Strike(max(at, 1), die, function=where + verbs[at]):
                    theirs.invalidate()

            with Child(dies) as child:
                assert child.end() == -signal.SIGKILL
            # A kill before the commit changes nothing; a kill after it leaves the value
            # invalidated.
            assert guard.get(lambda number=number: -number) == (0 if number == 0 else -number)
            guard.invalidate()
