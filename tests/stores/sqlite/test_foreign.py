"""Other programs in the files of a store: the doctor names the programs that can harm it."""

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
def client(url: str) -> Iterator[Client]:
    """A client that has all three databases open."""
    with Client(url) as made:
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


def told(url: str, subject: str = "foreign") -> list[Finding]:
    """Return the doctor's findings about other programs."""
    store, parsed = find(url)
    return [one for one in store.examine(parsed) if one.subject == subject]


@pytest.mark.parametrize("name", STORE)
@pytest.mark.usefixtures("client")
def test_a_program_that_can_write_without_the_file_mutex_is_named(
    path: Path, url: str, name: str
) -> None:
    file = path.with_name(name)
    with another(f"file:{file}") as pid:
        (found,) = told(url)
        assert found.level is Level.WARN
        assert f"process {pid} ({sys.executable} -c" in found.text
        assert f"{file} " in found.text
        assert f"sqlite3 -readonly {file}" in found.remedy
    assert told(url) == []


def test_programs_that_read_or_use_the_file_mutex_cause_no_warning(
    path: Path, url: str, client: Client
) -> None:
    # Given a program that only reads, a process with a client, and a fork without a client
    def has_its_own(child: Child) -> None:
        Client(url).queue("q").stats()
        child.say("open")
        signal.pause()

    def uses_none(child: Child) -> None:
        child.say("idle")
        signal.pause()

    with another(f"file:{path}-queues?mode=ro"), Child(has_its_own) as one, Child(uses_none) as two:
        assert (one.hear(), two.hear()) == ("open", "idle")
        assert told(url) == []
        # And there is no warning after the file mutex that they used was deleted
        Path(f"{path}-queues.d/gate").unlink()
        assert told(url) == []
        client.queue("q").stats()
        assert told(url) == []


@pytest.mark.parametrize("version, has_it", [((3, 40, 1), True), ((3, 51, 3), False)])
def test_the_sqlite_version_and_its_known_bug_are_reported(
    version: tuple[int, int, int], has_it: bool, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    (found,) = told(url, "sqlite")
    assert found.level is Level.OK
    assert found.text.startswith(f"version {sqlite3.sqlite_version}")
    assert ("has SQLite's WAL-reset bug; the file mutex prevents it" in found.text) is has_it


def test_versions_that_have_the_bug_are_known() -> None:
    having = [(3, 7, 0), (3, 40, 1), (3, 44, 5), (3, 45, 0), (3, 50, 6), (3, 51, 2)]
    without = [(3, 6, 23), (3, 44, 6), (3, 50, 7), (3, 51, 3), (3, 52, 0), (4, 0, 0)]
    assert [one for one in having + without if foreign.has_reset_bug(one)] == having


def test_a_copy_that_was_made_while_it_was_used_can_be_put_back(path: Path, url: str) -> None:
    copy = path.with_name("copy")
    with Client(url) as client:
        client.queue("q").put_many([1, 2], group="g")
        # Given a copy made by a connection that only reads
        with (
            closing(sqlite3.connect(f"file:{path}-queues?mode=ro", uri=True)) as books,
            closing(sqlite3.connect(copy)) as to,
        ):
            books.backup(to)
        client.queue("q").purge()
    # When the copy is put back after all clients have ended
    for end in ("-wal", "-shm"):
        Path(f"{path}-queues{end}").unlink(missing_ok=True)
    copy.rename(f"{path}-queues")
    # Then the jobs of the copy are there again
    assert audit(path) == {"q": (2, 0, 0)}
    with Client(url) as client:
        for payload in (1, 2):
            with client.queue("q").taking(timeout=0) as job:
                assert job is not None
                assert job.payload == payload
