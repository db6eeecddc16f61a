"""Reads of refresh guards' values: never of an old value, and rarely from the file."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncClient, Client, ConfigError, StoreUnavailable
from holdfast.core.guard.model import Entry, EntryState
from holdfast.stores.sqlite.blocking import way
from holdfast.stores.sqlite.blocking.values.reading import Changing, Reader
from holdfast.testing import lag
from holdfast.testing.faults import Strike
from tests.fenced.process import Child
from tests.servers.process import until
from tests.stores.sqlite.products import die, idle, never, values_of
from tests.torture.scale import times


@contextmanager
def shut(path: Path) -> Generator[None]:
    """Hold the file mutex of the values."""
    fd = os.open(f"{path}-values.d/gate", os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@pytest.mark.parametrize("bytes_of_it", [10, 100_000], ids=["small", "large"])
def test_a_read_waits_for_no_file_mutex_and_for_no_writer(
    path: Path, bytes_of_it: int, client: Client, other: Client
) -> None:
    value = "x" * bytes_of_it
    ours, theirs = client.guard("g", ttl=600), other.guard("g", ttl=600)
    assert ours.get(lambda: value) == value
    theirs.inspect("other")
    with shut(path), closing(sqlite3.connect(f"{path}-values", isolation_level=None)) as writes:
        writes.execute("BEGIN IMMEDIATE")
        writes.execute("DELETE FROM cached")
        for _ in range(3):
            assert ours.get(never) == theirs.get(never) == value
        writes.execute("ROLLBACK")


def test_on_a_loop_a_read_waits_for_no_file_mutex_and_for_no_thread(path: Path) -> None:
    async def main() -> None:
        async with AsyncClient(f"sqlite://{path}") as client:
            guard = client.guard("g", ttl=600)

            async def compute() -> str:
                return "value"

            assert await guard.get(compute) == "value"
            engine = values_of(client)
            with shut(path):
                # The client's worker thread is busy with a request that waits for the file mutex
                stuck = asyncio.create_task(guard.inspect())
                await asyncio.sleep(0.05)
                for _ in range(3):
                    begun = time.monotonic()
                    assert await guard.get(compute) == "value"
                    engine._files.reading._kept.clear()
                    assert await guard.get(compute) == "value"
                    assert time.monotonic() - begun < 1.0 + lag.since(begun)
                assert not stuck.done()
            assert (await stuck).state is EntryState.FRESH

    asyncio.run(main())


def test_a_read_is_one_statement_and_none_if_nothing_has_changed(
    client: Client, other: Client
) -> None:
    guard, theirs = client.guard("g", ttl=600), other.guard("g", ttl=600)
    guard.get(lambda: "x")
    said: list[str] = []
    reading = values_of(client)._files.reading
    reading._readers[0].connection.set_trace_callback(said.append)
    values_of(client)._files.connection.set_trace_callback(said.append)
    for _ in range(5):
        assert guard.get(never) == "x"
    assert len(said) == 1
    # A change of another entry needs no new read, except if the two share a change counter
    said.clear()
    theirs.get(lambda: "y", key="other")
    assert guard.get(never) == "x"
    assert said == []
    # A change of the entry itself is seen immediately
    theirs.invalidate()
    assert theirs.get(lambda: "new") == guard.get(never) == "new"
    # And a value is computed in few statements
    said.clear()
    guard.get(lambda: "z", key="third")
    writes = [one for one in said if one in ("BEGIN", "COMMIT")]
    assert writes == ["BEGIN", "COMMIT"] * 2
    assert len(said) <= 16, said


@pytest.mark.parametrize("when", ["before", "across"])
def test_what_is_read_amid_a_commit_is_not_kept_beyond_it(
    client: Client, other: Client, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Entry("g", "")
    client.guard("g", ttl=600).get(lambda: "old")
    other.guard("g", ttl=600).inspect()
    ours, theirs = values_of(client), values_of(other)
    files = theirs._files
    if when == "before":
        # Given a writer that is about to commit, and a reader that still finds the old value
        with Changing(files.words, [entry]):
            assert ours.read([entry], 5.0)[0].data
            files.run("DELETE FROM cached")
    else:
        # Given a writer whose commit comes between a read and the storing of its result
        read = Reader.read

        def late(self: Reader, entries: Any, seconds: float) -> Any:
            rows = read(self, entries, seconds)
            assert theirs.invalidate([entry], 5.0) == [True]
            return rows

        with monkeypatch.context() as patch:
            patch.setattr(Reader, "read", late)
            assert ours.read([entry], 5.0)[0].data
    # Then a later read finds nothing
    assert ours.read([entry], 5.0) == [None]


@pytest.mark.usual(2)
@pytest.mark.parametrize("padding", ["", "x" * 20_000], ids=["kept", "too large to be kept"])
def test_no_thread_ever_reads_what_was_invalidated_before(
    padding: str, client: Client, other: Client
) -> None:
    # The current source value, and the oldest value that a read may still return
    source = promised = 0
    ours, theirs, over = client.guard("g", ttl=600), other.guard("g", ttl=600), threading.Event()

    def read() -> list[tuple[int, int]]:
        stale = []
        while not over.is_set():
            least = promised
            found = ours.get(lambda: [source, padding])[0]
            if found < least:
                stale.append((found, least))
        return stale

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        end = time.monotonic() + times(300, 3) / 10
        while time.monotonic() < end or source <= 10:
            source += 1
            theirs.invalidate()
            promised = source
        over.set()
        assert [reader.result(30) for reader in readers] == [[]] * 3


def test_what_is_known_without_asking_is_still_that_clients_alone(client: Client) -> None:
    guard = client.guard("g", ttl=600)
    for _ in range(3):
        assert guard.get(lambda: "value") == "value"
    # A key of another type is refused
    for key in (5, ["a"], None):
        with pytest.raises(ConfigError, match="key must be text"):
            guard.get(never, key=key)  # type: ignore[arg-type]
    # A read without a request counts like any other read
    assert guard.stats().hits == 2

    def works(child: Child) -> None:
        assert guard.get(never) == "value"
        guard.invalidate()
        child.say(guard.get(lambda: "of the child"))

    with Child(works) as child:
        assert child.hear() == "of the child"
    assert guard.get(never) == guard.get(never) == "of the child"
    client.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        guard.get(never)


def test_what_is_known_ends_with_its_time_and_early_refreshes_have_their_chance(
    monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    count, dice = 0, 0.0

    def compute() -> int:
        nonlocal count
        count += 1
        time.sleep(0.01)
        return count

    monkeypatch.setattr(client._ctx.runtime, "jitter", lambda: dice)
    short, early = client.guard("g", ttl=1.5), client.guard("h", ttl=10, stale=10, early=100)
    assert short.get(compute) == short.get(never) == 1
    time.sleep(1.52)
    assert short.get(compute) == 2
    assert early.get(compute) == early.get(never) == early.get(never) == 3
    dice = 0.99999999  # it is refreshed now if it is fresh for 18 s more, or less
    early.get(compute)
    assert count == 4


def test_no_thread_is_inside_sqlite_during_a_fork(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Entry("g", "")
    client.guard("g", ttl=600).get(lambda: "value")
    engine = values_of(client)
    with monkeypatch.context() as patch:
        patch.setitem(way._still, 0, [])
        assert engine.glance([entry], True) is None
        assert engine._files.reading._add([]) is None
    assert engine.glance([entry], True)[0].data
    # Reads, and the opening of readers, hold the locks that a fork waits for
    reading = engine._files.reading
    assert engine.reading() == [reading._adding, reading._readers[0].lock]


def test_an_invalidation_of_a_thousand_keys_wakes_a_waiter_for_one(
    path: Path, client: Client, other: Client
) -> None:
    ours, theirs = client.guard("g", ttl=600), other.guard("g", ttl=600, lease=60)
    inside, go = threading.Event(), threading.Event()

    def old() -> str:
        inside.set()
        go.wait(30)
        return "old"

    with ThreadPoolExecutor(2) as pool:
        pool.submit(ours.get, old, key="500")
        inside.wait(30)
        waiter = pool.submit(theirs.get, lambda: "new", key="500")
        until(lambda: idle(path), "it waits")
        ours.invalidate(*[str(number) for number in range(1000)])
        assert waiter.result(30) == "new"
        go.set()
    assert ours.get(never, key="500") == "new"


# -- kills, interrupts and forks -------------------------------------------------------------------


def test_an_interrupt_at_the_end_of_a_wait_releases_the_refresh_lease(
    client: Client, other: Client
) -> None:
    where = "holdfast.stores.sqlite.blocking.values.port:ThreadValues.unlisten"
    guard = client.guard("g", ttl=600, lease=600)
    with pytest.raises(KeyboardInterrupt), Strike(1, function=where):
        guard.get(never)
    assert other.guard("g", ttl=600).get(lambda: "theirs", timeout=5) == "theirs"


def test_a_writer_killed_during_a_change_leaves_reads_correct(url: str, client: Client) -> None:
    guard: Any = client.guard("g", ttl=60)
    for number, verb in enumerate(("enter__", "exit__", "exit__")):
        assert guard.get(lambda number=number: number) == number
        assert guard.get(never) == number  # which is kept after this

        def dies(_: Child, at: int = number, verb: str = verb) -> None:
            theirs = Client(url).guard("g", ttl=60)
            theirs.inspect()
            where = f"holdfast.stores.sqlite.blocking.values.reading:Changing.__{verb}"
            with Strike(max(at, 1), die, function=where):
                theirs.invalidate()

        with Child(dies) as child:
            assert child.end() == -signal.SIGKILL
        # A kill before the commit changes nothing; a kill after it leaves the value invalidated.
        assert guard.get(lambda number=number: -number) == (0 if number == 0 else -number)
        guard.invalidate()
