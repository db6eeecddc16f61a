"""Other programs in the files of a store: the doctor names the programs that can harm it."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from holdfast import Client, ConfigError, StoreUnavailable
from holdfast.core.finding import Finding, Level
from holdfast.stores.sqlite.blocking import foreign
from holdfast.url import find
from tests.fenced.process import Child
from tests.stores.sqlite.books import audit
from tests.torture.scale import times

LOOKS = """
import sqlite3, sys
books = sqlite3.connect(sys.argv[1], uri=True)
books.execute("SELECT count(*) FROM sqlite_master").fetchone()
print(1, flush=True)
sys.stdin.read()
"""
STORE = ("locks.db", "locks.db-queues", "locks.db-values")


@pytest.fixture
def client(path: Path) -> Iterator[Client]:
    """A client that has all three databases open."""
    with Client(f"sqlite://{path}") as made:
        made.lock("x" * 500).acquire()
        made.queue("q").put("a job")
        made.guard("g", ttl=60).get(lambda: "a value")
        yield made


@contextmanager
def another(address: str) -> Iterator[int]:
    """Run a program that has read this database and keeps it open; yield its pid."""
    words = [sys.executable, "-c", LOOKS, address]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate(b"")


def told(path: Path) -> list[Finding]:
    """Return the doctor's findings about other programs."""
    store, url = find(f"sqlite://{path}")
    return [one for one in store.examine(url) if one.subject == "foreign"]


@pytest.mark.parametrize("name", STORE)
@pytest.mark.usefixtures("client")
def test_a_program_that_can_write_without_the_file_mutex_is_named(path: Path, name: str) -> None:
    file = path.with_name(name)
    with another(f"file:{file}") as pid:
        (found,) = told(path)
        assert found.level is Level.WARN
        assert f"process {pid} ({sys.executable} -c" in found.text
        assert f"{file} " in found.text
        assert f"sqlite3 -readonly {file}" in found.remedy
    assert told(path) == []


@pytest.mark.usefixtures("client")
def test_a_program_that_only_reads_is_not_warned_of(path: Path) -> None:
    with another(f"file:{path}-queues?mode=ro"):
        assert told(path) == []


def test_programs_that_use_the_file_mutex_cause_no_warning(path: Path, client: Client) -> None:
    # Given a process with a separate client, and a forked child that uses no client
    def has_its_own(child: Child) -> None:
        with Client(f"sqlite://{path}") as mine:
            mine.queue("q").stats()
            child.say("open")
            signal.pause()

    def uses_none(child: Child) -> None:
        child.say("idle")
        signal.pause()

    with Child(has_its_own) as one, Child(uses_none) as two:
        assert (one.hear(), two.hear()) == ("open", "idle")
        assert told(path) == []
        # And there is no warning after the file mutex that they used was deleted
        (path.parent / "locks.db-queues.d" / "gate").unlink()
        assert told(path) == []
        client.queue("q").stats()
        assert told(path) == []


def test_the_sqlite_version_and_its_known_bug_are_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, url = find(f"sqlite://{path}")
    for version, has_it in (((3, 40, 1), True), ((3, 51, 3), False)):
        monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
        (found,) = [one for one in store.examine(url) if one.subject == "sqlite"]
        assert found.level is Level.OK
        assert found.text.startswith(f"version {sqlite3.sqlite_version}")
        assert ("has SQLite's WAL-reset bug; the file mutex prevents it" in found.text) is has_it


@pytest.mark.parametrize(
    "version, has_it",
    [
        ((3, 6, 23), False), ((3, 7, 0), True), ((3, 40, 1), True), ((3, 44, 5), True),
        ((3, 44, 6), False), ((3, 45, 0), True), ((3, 50, 6), True), ((3, 50, 7), False),
        ((3, 51, 2), True), ((3, 51, 3), False), ((3, 52, 0), False), ((4, 0, 0), False),
    ],
)  # fmt: skip
def test_versions_that_have_the_bug_are_known(version: tuple[int, int, int], has_it: bool) -> None:
    assert foreign.has_reset_bug(version) is has_it


def test_a_copy_that_was_made_while_it_was_used_can_be_put_back(path: Path) -> None:
    copy = path.with_name("copy")
    with Client(f"sqlite://{path}") as client:
        queue = client.queue("q")
        queue.put_many([1, 2], group="g")
        # Given a copy made by a connection that only reads
        with (
            closing(sqlite3.connect(f"file:{path}-queues?mode=ro", uri=True)) as books,
            closing(sqlite3.connect(copy)) as to,
        ):
            books.backup(to)
        queue.purge()
    # When the copy is put back after all clients have ended
    for end in ("-wal", "-shm"):
        Path(f"{path}-queues{end}").unlink(missing_ok=True)
    copy.rename(f"{path}-queues")
    # Then the jobs of the copy are there again
    assert audit(path) == {"q": (2, 0, 0)}
    with Client(f"sqlite://{path}") as client:
        for payload in (1, 2):
            job = client.queue("q").take(timeout=0)
            assert job is not None
            assert job.payload == payload
            assert job.ack()


# -- a program that checkpoints ------------------------------------------------------------------

CHECKPOINTS = """
import sqlite3, sys
books = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0.1)
books.execute("PRAGMA mmap_size = 268435456")
books.execute("SELECT count(*) FROM sqlite_master").fetchone()
print(1, flush=True)
while True:
    try:
        books.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    except sqlite3.Error:
        pass
"""


def put_and_take(path: Path, child: Child) -> None:
    """Work until SIGTERM or an error about damage; send all accepted and acked jobs to the
    parent."""
    over: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: over.append(1))
    accepted: list[str] = []
    acked: list[str] = []
    told = ""
    with Client(f"sqlite://{path}?sync=none") as client:
        queue = client.queue("q", ttl=60)
        while not over and not told:
            with suppress(StoreUnavailable):
                try:
                    accepted += [one.id for one in queue.put_many(["x" * 900] * 20, group="g")]
                    accepted += [one.id for one in queue.put_many(["x" * 900] * 20)]
                    acked += [job.id for job in queue.take_many(35, timeout=0) if job.ack()]
                except ConfigError as damaged:
                    told = str(damaged)
    child.say(json.dumps([accepted, acked, told]))


def test_a_program_that_checkpoints_is_named_and_its_damage_is_repaired(path: Path) -> None:
    seconds = times(300, 2)
    with Client(f"sqlite://{path}") as client:
        client.queue("q").put("the first")
    words = [sys.executable, "-c", CHECKPOINTS, f"{path}-queues"]
    with ExitStack() as crew:
        # Given workers, and programs that repeatedly checkpoint the files of these workers
        workers = [crew.enter_context(Child(partial(put_and_take, path))) for _ in range(2)]
        programs = []
        for _ in range(2):
            program = crew.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE))
            crew.callback(program.kill)
            assert program.stdout is not None
            program.stdout.readline()
            programs.append(program)
        time.sleep(seconds)
        # Then the doctor names them
        named = " ".join(one.text for one in told(path))
        assert all(f"process {program.pid} (" in named for program in programs), named
        for program in programs:
            program.kill()
            program.wait()
        for worker in workers:
            worker.send(signal.SIGTERM)
        heard = [json.loads(worker.hear()) for worker in workers]
    # And each error about damage names the repair
    store, url = find(f"sqlite://{path}")
    damaged = [words for _, _, words in heard if words]
    assert all("holdfast doctor --mend" in words for words in damaged), damaged
    said = list(store.mend(url))
    gone = sum(one.subject == "gone" for one in said)
    # And the repaired database is consistent, and all its jobs are delivered
    audit(path)
    accepted, acked = ({one for told in heard for one in told[at]} for at in (0, 1))
    with Client(f"sqlite://{path}") as client:
        queue = client.queue("q")
        while jobs := queue.take_many(100, timeout=0):
            assert all(queue.ack_many(jobs))
            acked |= {job.id for job in jobs}
    lost = len(accepted - acked)
    print(f"{len(accepted)} put, {lost} lost, {gone} named, {len(damaged)} workers told")
    audit(path)
