"""Reads of refresh guards' values, and waits for them."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncClient, Client, ConfigError, RefreshTimeout, StoreUnavailable
from holdfast.core.guard.model import Entry, EntryState
from holdfast.stores.sqlite.blocking import way
from holdfast.stores.sqlite.blocking.values.reading import Changing, Reader
from holdfast.testing import lag
from tests.fenced.process import Child
from tests.torture.scale import times

lag.watch()


def never() -> Any:
    raise AssertionError("it is there")


def engine_of(client: Client | AsyncClient) -> Any:
    """Return the engine of a client's refresh guards."""
    return client._ctx.store._port.values().engine  # type: ignore[attr-defined]


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
def test_a_read_waits_for_no_file_mutex_and_for_no_writer(path: Path, bytes_of_it: int) -> None:
    with Client(f"sqlite://{path}") as here, Client(f"sqlite://{path}") as there:
        value = "x" * bytes_of_it
        ours, theirs = here.guard("g", ttl=600), there.guard("g", ttl=600)
        assert ours.get(lambda: value) == value
        theirs.inspect("other")
        with shut(path):
            writes = sqlite3.connect(f"{path}-values", isolation_level=None)
            writes.execute("BEGIN IMMEDIATE")
            writes.execute("DELETE FROM cached")
            for _ in range(3):
                assert ours.get(never) == theirs.get(never) == value
            writes.execute("ROLLBACK")
            writes.close()


def test_on_a_loop_a_read_waits_for_no_file_mutex_and_for_no_thread(path: Path) -> None:
    async def main() -> None:
        async with AsyncClient(f"sqlite://{path}") as client:
            guard = client.guard("g", ttl=600)

            async def compute() -> str:
                return "value"

            assert await guard.get(compute) == "value"
            engine = engine_of(client)
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


def test_a_read_is_one_statement_and_none_if_nothing_has_changed(path: Path) -> None:
    with Client(f"sqlite://{path}") as client, Client(f"sqlite://{path}") as other:
        guard, theirs = client.guard("g", ttl=600), other.guard("g", ttl=600)
        guard.get(lambda: "x")
        said: list[str] = []
        reading = engine_of(client)._files.reading
        reading._readers[0].connection.set_trace_callback(said.append)
        engine_of(client)._files.connection.set_trace_callback(said.append)
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


def test_no_thread_ever_reads_what_was_invalidated_before(path: Path) -> None:
    with Client(f"sqlite://{path}") as client, Client(f"sqlite://{path}") as other:
        # The current source value, and the oldest value that a read may still return
        source = promised = 0
        stale, over = [], threading.Event()

        def read(name: str, padding: str) -> None:
            guard = client.guard(name, ttl=600)
            while not over.is_set():
                least = promised
                found = guard.get(lambda: [source, padding])[0]
                if found < least:
                    stale.append((name, found, least))

        kinds = {"kept": "", "too large to be kept": "x" * 20_000}
        threads = [threading.Thread(target=read, args=one) for one in [*kinds.items()] * 3]
        for thread in threads:
            thread.start()
        guards = [other.guard(name, ttl=600) for name in kinds]
        end = time.monotonic() + times(600, 5) / 10
        while time.monotonic() < end or source <= 10:
            source += 1
            for one in guards:
                one.invalidate()
            promised = source
        over.set()
        for thread in threads:
            thread.join(30)
        print(f"{source} invalidations")
        assert source > 10
        assert not stale


@pytest.mark.parametrize("when", ["before", "across"])
def test_what_is_read_amid_a_commit_is_not_kept_beyond_it(
    path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Entry("g", "")
    with Client(f"sqlite://{path}") as here, Client(f"sqlite://{path}") as there:
        here.guard("g", ttl=600).get(lambda: "old")
        there.guard("g", ttl=600).inspect()
        ours, theirs = engine_of(here), engine_of(there)
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


def test_what_is_known_without_asking_is_still_that_clients_alone(path: Path) -> None:
    with Client(f"sqlite://{path}") as client:
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
        assert guard.get(never) == "of the child"
        guard.get(never)
    with pytest.raises(StoreUnavailable, match="closed"):
        guard.get(never)


def test_what_is_known_ends_with_its_time_and_early_refreshes_have_their_chance(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(f"sqlite://{path}") as client:
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


def test_another_loop_reads_the_values_through_separate_files(path: Path) -> None:
    client = AsyncClient(f"sqlite://{path}")
    guard = client.guard("g", ttl=600)

    values = iter(["value"])

    async def compute() -> str:
        return next(values)

    async def ask() -> str:
        return await guard.get(compute)

    with asyncio.Runner() as first, asyncio.Runner() as second:
        assert first.run(ask()) == second.run(ask()) == first.run(ask()) == "value"
        second.run(client.close())
        first.run(client.close())


def test_no_thread_is_inside_sqlite_during_a_fork(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Entry("g", "")
    with Client(f"sqlite://{path}") as client:
        client.guard("g", ttl=600).get(lambda: "value")
        engine = engine_of(client)
        with monkeypatch.context() as patch:
            patch.setitem(way._still, 0, [])
            assert engine.glance([entry], True) is None
            assert engine._files.reading._add([]) is None
        assert engine.glance([entry], True)[0].data
        # Reads, and the opening of readers, hold the locks that a fork waits for
        locks = engine.reading()
        assert locks == [engine._files.reading._adding, engine._files.reading._readers[0].lock]


# -- waiting ---------------------------------------------------------------------------------------


def idle(path: Path) -> list[str]:
    """Return the files of the waiters."""
    return os.listdir(f"{path}-values.d/idle")


def test_a_waiter_is_woken_by_the_value(path: Path) -> None:
    with Client(f"sqlite://{path}") as here, Client(f"sqlite://{path}") as there:
        inside, go = threading.Event(), threading.Event()

        def compute() -> str:
            inside.set()
            go.wait(30)
            return "value"

        spans = []

        def wait() -> None:
            assert there.guard("g", ttl=600).get(never) == "value"
            spans.append(time.monotonic() - done)

        done = 0.0
        first = threading.Thread(target=lambda: here.guard("g", ttl=600).get(compute))
        first.start()
        inside.wait(30)
        waiter = threading.Thread(target=wait)
        waiter.start()
        begun = time.monotonic()
        while not idle(path):
            assert time.monotonic() < begun + 10 + lag.since(begun)
            time.sleep(0.001)
        done = time.monotonic()
        go.set()
        first.join(30)
        waiter.join(30)
        # Without a wake-up the waiter would poll after 1.2 s
        print(f"{spans[0] * 1e3:.1f} ms")
        assert spans[0] < 0.6 + lag.since(done)


def test_a_wait_for_a_value_leaves_no_file(path: Path) -> None:
    with Client(f"sqlite://{path}") as here, Client(f"sqlite://{path}") as there:
        ours, theirs = here.guard("g", ttl=600), there.guard("g", ttl=600)
        inside, go = threading.Event(), threading.Event()

        def compute() -> str:
            inside.set()
            go.wait(30)
            return "value"

        thread = threading.Thread(target=ours.get, args=(compute,))
        thread.start()
        inside.wait(30)
        for span in (0.0, 0.02):
            with pytest.raises(RefreshTimeout):
                theirs.get(never, timeout=span)
            assert idle(path) == []
        waiter = threading.Thread(target=theirs.get, args=(never,))
        waiter.start()
        begun = time.monotonic()
        while not idle(path):
            assert time.monotonic() < begun + 10 + lag.since(begun)
            time.sleep(0.001)
        go.set()
        waiter.join(30)
        thread.join(30)
        assert idle(path) == []
        assert engine_of(there)._holders == {}
    assert os.listdir(f"{path}-values.d/sessions") == []


@pytest.mark.parametrize("face", ["threads", "loop"])
def test_without_sockets_a_waiter_for_a_value_polls(path: Path, face: str) -> None:
    url = f"sqlite://{path}?wake=poll"

    async def slow() -> str:
        await asyncio.sleep(0.2)
        return "value"

    async def main() -> list[str]:
        async with AsyncClient(url) as here, AsyncClient(url) as there:
            first = asyncio.create_task(here.guard("g", ttl=60).get(slow))
            await asyncio.sleep(0.05)
            return [await there.guard("g", ttl=60).get(slow), await first]

    if face == "loop":
        assert asyncio.run(main()) == ["value"] * 2
        return
    found = []
    inside = threading.Event()

    def compute() -> str:
        inside.set()
        time.sleep(0.2)
        return "value"

    with Client(url) as here, Client(url) as there:
        thread = threading.Thread(target=lambda: found.append(here.guard("g", ttl=60).get(compute)))
        thread.start()
        inside.wait(30)
        found.append(there.guard("g", ttl=60).get(never))
        thread.join(30)
    assert found == ["value"] * 2
    assert idle(path) == []


def test_an_invalidation_of_a_thousand_keys_wakes_a_waiter_for_one(path: Path) -> None:
    with Client(f"sqlite://{path}") as here, Client(f"sqlite://{path}") as there:
        ours, theirs = here.guard("g", ttl=600), there.guard("g", ttl=600, lease=60)
        keys = [str(number) for number in range(1000)]
        inside, go = threading.Event(), threading.Event()

        def old() -> str:
            inside.set()
            go.wait(30)
            return "old"

        found: list[str] = []
        first = threading.Thread(target=lambda: ours.get(old, key="500"))
        first.start()
        inside.wait(30)
        waiter = threading.Thread(target=lambda: found.append(theirs.get(lambda: "new", key="500")))
        waiter.start()
        begun = time.monotonic()
        while not idle(path):
            assert time.monotonic() < begun + 10 + lag.since(begun)
            time.sleep(0.001)
        ours.invalidate(*keys)
        waiter.join(30)
        assert found == ["new"]
        go.set()
        first.join(30)
        assert ours.get(never, key="500") == "new"
