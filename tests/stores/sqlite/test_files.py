"""The files of the queues and of the values: boots, deleted files, and sizes."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.finding import Finding, Level
from holdfast.core.guard.model import EntryState
from holdfast.stores.sqlite.blocking import annex, database, header, way
from holdfast.stores.sqlite.blocking.queues import files as job_files
from holdfast.stores.sqlite.blocking.values import engine as engines
from holdfast.stores.sqlite.blocking.values import files as value_files
from holdfast.testing import lag
from holdfast.url import find
from tests.stores.sqlite.books import audit
from tests.stores.sqlite.products import jobs_of, never, values_of


@pytest.mark.parametrize("sync, of_put, of_ack", [("puts", 2, 1), ("all", 2, 2), ("none", 1, 1)])
def test_a_job_is_on_the_disk_before_it_is_reported_as_accepted(
    path: Path, sync: str, of_put: int, of_ack: int
) -> None:
    with Client(f"sqlite://{path}?sync={sync}") as client:
        queue = client.queue("q")
        queue.put("first")
        connection = jobs_of(client)._files.connection

        def level() -> int:
            return int(connection.execute("PRAGMA synchronous").fetchone()[0])

        queue.put("x")
        assert level() == of_put
        job = queue.take(timeout=0)
        assert job is not None
        assert job.ack()
        assert level() == of_ack


def test_delays_continue_over_a_reboot_and_no_clock_goes_back(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times_of = {"boot": 5000.0, "wall": 1_800_000_000.0, "id": 77}
    for module in (way, annex):
        monkeypatch.setattr(module, "boottime", lambda: times_of["boot"])
    for module in (header, job_files):
        monkeypatch.setattr(module, "boot_id", lambda: int(times_of["id"]))
    monkeypatch.setattr(job_files, "walltime", lambda: times_of["wall"])

    def due(client: Client) -> float:
        (record,) = client.queue("q").jobs()
        return record.due_in

    with Client(url) as client:
        client.queue("q").put("x", delay=100)
        # When the wall clock jumps, nothing changes
        times_of["wall"] += 5000
        with Client(url) as other:
            assert due(other) == pytest.approx(100, abs=0.1)
        times_of["wall"] -= 5000
    # When the machine was off for 40 seconds, then the delay has continued
    times_of.update(boot=3.0, wall=times_of["wall"] + 40, id=78)
    with Client(url) as client:
        assert due(client) == pytest.approx(60, abs=0.1)
    # And once more, when the machine starts with a clock that is years behind
    times_of.update(boot=3.0, wall=1000.0, id=79)
    with Client(url) as client:
        left = due(client)
        assert 60 <= left <= 100.1
        times_of["boot"] += left + 1
        job = client.queue("q").take(timeout=0)
        assert job is not None
        assert job.ack()


def test_fences_rise_over_a_restart_of_all(url: str) -> None:
    fences = []
    for _ in range(5):
        with Client(url) as client:
            queue = client.queue("q")
            queue.put("x", group="g")
            job = queue.take(timeout=0)
            assert job is not None
            fences.append(job.fence)
            assert job.ack()
    assert fences == sorted(set(fences))


def test_what_is_put_goes_to_the_file_that_others_find(
    path: Path, client: Client, other: Client
) -> None:
    client.queue("q").put("lost")
    other.queue("q").put("lost, too")
    # When the file is deleted while both clients have it open
    for end in ("", "-wal", "-shm"):
        os.unlink(f"{path}-queues{end}")
    # Then a job that is put after that is in the new file, where both clients read
    client.queue("q").put("kept")
    job = other.queue("q").take(timeout=0)
    assert job is not None
    assert job.payload == "kept"
    assert job.ack()


def test_a_log_that_was_deleted_under_others_keeps_newcomers_out(
    path: Path, client: Client, other: Client
) -> None:
    client.queue("q").put("x")
    os.unlink(f"{path}-queues-wal")
    with pytest.raises(StoreUnavailable, match=r"log .* was deleted"):
        other.queue("q").stats()
    # A client with the log still open writes the whole log to the database when it closes
    assert client.queue("q").stats().waiting == 1
    client.close()
    assert other.queue("q").stats().waiting == 1


def test_a_deleted_folder_of_the_queues_loses_nothing(
    path: Path, client: Client, other: Client
) -> None:
    client.queue("q").put("x", group="g")
    other.queue("q").stats()
    shutil.rmtree(f"{path}-queues.d")
    job = other.queue("q").take(timeout=0)
    assert job is not None
    assert client.queue("q").take(timeout=0.3) is None
    assert job.ack()
    assert audit(path) == {"q": (0, 0, 0)}


def test_queues_and_values_have_no_files_until_they_are_used_and_doctor_looks_at_them_then(
    path: Path, url: str, client: Client
) -> None:
    store, parsed = find(url)

    def said(subject: str) -> list[Finding]:
        return [one for one in store.examine(parsed) if one.subject == subject]

    client.lock("x").acquire(timeout=1).release()
    assert said("queues") == said("values") == [*path.parent.glob("*-[qv]*")] == []
    client.queue("q").put_many(range(3))
    client.guard("g", ttl=60).get_many(["a", "b"], lambda key: key)
    for subject, text in (("queues", "jobs: 3"), ("values", "values: 2")):
        (found,) = said(subject)
        assert found.level is Level.OK
        assert text in found.text


def test_a_put_that_waits_for_the_disk_delays_no_lock(client: Client) -> None:
    client.queue("q").put("x")
    connection = jobs_of(client)._files.connection
    connection.execute("BEGIN IMMEDIATE")
    client.lock("x").acquire(timeout=1).release()
    connection.rollback()


# -- values ----------------------------------------------------------------------------------------


@pytest.fixture
def boot(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that simulates a boot of the machine, as far as the code can see."""

    def start(number: int) -> None:
        for module in (header, database, value_files):
            monkeypatch.setattr(module, "boot_id", lambda: number)

    return start


def test_after_a_boot_no_value_comes_back_and_a_torn_file_is_no_trouble(
    path: Path, boot: Callable[[int], None]
) -> None:
    boot(1)
    with Client(f"sqlite://{path}") as client:
        guard = client.guard("g", ttl=600)
        assert guard.get(lambda: "old") == "old"
        before = guard.inspect().version
    with Client(f"sqlite://{path}") as client:
        assert client.guard("g", ttl=600).get(never) == "old"
    # When a power cut loses or tears the last writes, an invalidation among them
    Path(f"{path}-values").write_bytes(b"torn" * 5000)
    boot(2)
    with Client(f"sqlite://{path}") as client:
        guard = client.guard("g", ttl=600)
        assert guard.inspect().state is EntryState.MISSING
        assert guard.get(lambda: "new") == "new"
        assert guard.inspect().version > before


def test_without_a_boot_id_the_boot_time_identifies_the_boot(
    path: Path, boot: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    boot(0)
    now = {"clock": 5000.0, "wall": 1_800_000_000.0}
    for module in (way, annex, engines):
        monkeypatch.setattr(module, "boottime", lambda: now["clock"])
    monkeypatch.setattr(value_files, "walltime", lambda: now["wall"])

    def look() -> EntryState:
        with Client(f"sqlite://{path}") as client:
            return client.guard("g", ttl=60_000).inspect().state

    with Client(f"sqlite://{path}") as client:
        client.guard("g", ttl=60_000).get(lambda: "old")
    now = {"clock": 5010.0, "wall": 1_800_000_012.0}
    assert look() is EntryState.FRESH
    now = {"clock": 100.0, "wall": 1_800_000_200.0}
    assert look() is EntryState.MISSING


@pytest.mark.parametrize("what", ["database", "gate", "all"])
def test_deleted_files_are_made_again_empty_and_shared_by_all(
    path: Path, what: str, client: Client, other: Client
) -> None:
    ours, theirs = client.guard("g", ttl=600), other.guard("g", ttl=600)
    assert ours.get(lambda: "old") == theirs.get(never) == "old"
    gone = {"database": ["", "-wal", "-shm"], "gate": [".d/gate"]}
    for end in gone.get(what, [*gone["database"], *gone["gate"]]):
        os.unlink(f"{path}-values{end}")
    # When one client writes, then the other sees it, immediately or a moment later
    assert ours.invalidate() in (0, 1)
    assert ours.get(lambda: "new") == "new"
    begun = time.monotonic()
    while theirs.get(lambda: "other") != "new":
        assert time.monotonic() - begun < 2.0 + lag.since(begun)
        time.sleep(0.01)
    assert theirs.invalidate() == 1
    assert ours.inspect().state is EntryState.MISSING
    assert theirs.get(lambda: "again") == ours.get(never) == "again"


def test_a_foreign_value_is_computed_again(path: Path, client: Client) -> None:
    guard = client.guard("g", ttl=60)
    guard.get(lambda: "x" * 20_000)
    with closing(sqlite3.connect(f"{path}-values")) as books, books:
        with pytest.raises(sqlite3.IntegrityError):
            books.execute("UPDATE cached SET data = 'text'")
        books.execute("UPDATE cached SET data = x'ff00'")
    assert guard.get(lambda: "new") == "new"
    assert guard.get(never) == "new"


def test_expired_values_are_removed_by_later_writes(client: Client) -> None:
    short, other = client.guard("short", ttl=0.05), client.guard("long", ttl=600)
    short.get_many([str(number) for number in range(100)], lambda key: key)
    failing = client.guard("f", ttl=1, failure_ttl=0.05)
    for number in range(20):
        with pytest.raises(AssertionError):
            failing.get(never, key=str(number))
    time.sleep(0.4)
    other.get_many([str(number) for number in range(40)], lambda key: key)
    run = values_of(client)._files.run
    assert run("SELECT count(*) FROM cached").fetchone() == (40,)
    assert run("SELECT count(*) FROM duties").fetchone() == (0,)


def test_the_room_of_old_values_is_used_again(path: Path, client: Client) -> None:
    guard, sizes = client.guard("g", ttl=600), []
    for number in range(240):
        guard.get(lambda: os.urandom(100_000), key=str(number % 8))
        guard.invalidate(str(number % 8))
        sizes.append(sum(os.stat(f"{path}-values{end}").st_size for end in ("", "-wal")))
    print(max(sizes[:80]), max(sizes))
    assert max(sizes) < 1.5 * max(sizes[:80])
    assert max(sizes) < 16 << 20


def test_a_value_may_have_a_mebibyte(client: Client, other: Client) -> None:
    largest = os.urandom((1 << 20) - 1)
    assert client.guard("g", ttl=60).get(lambda: largest) == largest
    assert other.guard("g", ttl=60).get(never) == largest
