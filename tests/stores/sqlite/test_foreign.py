"""Other programs in the files of a store: the doctor names those that may harm it."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.core.finding import Finding, Level
from holdfast.stores.sqlite.blocking import foreign
from holdfast.url import find
from tests.fenced.process import Child
from tests.stores.sqlite.books import audit

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
    """One that has all three databases open."""
    with Client(f"sqlite://{path}") as made:
        made.lock("x" * 500).acquire()
        made.queue("q").put("a job")
        made.guard("g", ttl=60).get(lambda: "a value")
        yield made


@contextmanager
def another(address: str) -> Iterator[int]:
    """A program that has read this database, and has it open still; its pid."""
    words = [sys.executable, "-c", LOOKS, address]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate(b"")


def told(path: Path) -> list[Finding]:
    """What the doctor says of other programs."""
    store, url = find(f"sqlite://{path}")
    return [one for one in store.examine(url) if one.subject == "foreign"]


@pytest.mark.parametrize("name", STORE)
@pytest.mark.usefixtures("client")
def test_a_program_that_may_write_past_the_gate_is_named(path: Path, name: str) -> None:
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


def test_those_who_know_the_gate_are_not_warned_of(path: Path, client: Client) -> None:
    # Given a process with a client of its own, and a child of our fork that uses none
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
        # Also where somebody has deleted the gate that they came through
        (path.parent / "locks.db-queues.d" / "gate").unlink()
        assert told(path) == []
        client.queue("q").stats()
        assert told(path) == []


def test_the_version_is_said_and_whether_it_has_the_bug(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, url = find(f"sqlite://{path}")
    for version, has_it in (((3, 40, 1), True), ((3, 51, 3), False)):
        monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
        (found,) = [one for one in store.examine(url) if one.subject == "sqlite"]
        assert found.level is Level.OK
        assert found.text.startswith(f"version {sqlite3.sqlite_version}")
        assert ("which has SQLite's WAL-reset bug; the gate keeps it out" in found.text) is has_it


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
        # Given a copy by a connection that only reads
        with (
            closing(sqlite3.connect(f"file:{path}-queues?mode=ro", uri=True)) as books,
            closing(sqlite3.connect(copy)) as to,
        ):
            books.backup(to)
        queue.purge()
    # When it is put back once all have ended
    for end in ("-wal", "-shm"):
        Path(f"{path}-queues{end}").unlink(missing_ok=True)
    copy.rename(f"{path}-queues")
    # Then what was there is there again
    assert audit(path) == {"q": (2, 0, 0)}
    with Client(f"sqlite://{path}") as client:
        for payload in (1, 2):
            job = client.queue("q").take(timeout=0)
            assert job is not None
            assert job.payload == payload
            assert job.ack()
