"""Damaged queues: a take reports the damage, the doctor finds it, and repaired queues work
again."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import Client, ConfigError, HoldfastError
from holdfast.core.finding import Finding, Level
from holdfast.testing.promise import promised
from holdfast.url import find
from tests.fenced.process import Child
from tests.stores.sqlite.books import audit
from tests.stores.sqlite.test_odd_rows import ODD, replaced, rows
from tests.torture.scale import seed_of, times

PAGE = 4096
#: Tables in which single rows are damaged.
TABLES = ("queues", "groups", "jobs", "ready", "loans", "known", "lanes", "tombs", "meta")


def told(path: Path) -> list[Finding]:
    """Return the doctor's findings about the queues."""
    store, url = find(f"sqlite://{path}")
    return [one for one in store.examine(url) if one.subject == "queues"]


def mended(path: Path) -> list[Finding]:
    """Repair the queues, and return the report."""
    store, url = find(f"sqlite://{path}")
    return list(store.mend(url))


def gone(report: list[Finding]) -> list[str]:
    """Return the jobs that a repair names as lost."""
    return [one.text for one in report if one.subject == "gone"]


def change(path: Path, *statements: str) -> None:
    """Change the queues database directly, without the code of the store."""
    with closing(sqlite3.connect(f"{path}-queues", isolation_level=None)) as books:
        for statement in statements:
            books.execute(statement)


def ids(path: Path) -> set[str]:
    """Return the ids of all stored jobs."""
    with closing(sqlite3.connect(f"{path}-queues")) as books:
        return {f"{job_id}" for (job_id,) in books.execute("SELECT id FROM jobs")}


def fill(path: Path, turns: int) -> None:
    """Fill two queues with jobs in all states, by a worker that is killed with delivered jobs."""

    def works(child: Child) -> None:
        client = Client(f"sqlite://{path}?sync=none")
        for turn in range(turns):
            for name in ("q", "r"):
                queue = client.queue(name, min_interval=0.01)
                queue.put_many(("x" * 300 for _ in range(5)), group=f"g{turn}")
                queue.put_many(range(6))
                queue.put("known", id=f"known {turn}")
                queue.put("later", delay=3600)
                for job in queue.take_many(4, timeout=0)[:2]:
                    job.ack() if job.fence % 2 else job.dead_letter("no use")
        os.kill(os.getpid(), signal.SIGKILL)

    with Child(works) as child:
        assert child.end() == -signal.SIGKILL
    with Client(f"sqlite://{path}") as client:
        client.queue("q").stats()  # and the last client that closes it copies the log back


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """One database of queues at three moments, the latest last."""
    path = tmp_path_factory.mktemp("queues") / "locks.db"
    path.parent.chmod(0o700)
    found = []
    for _ in range(3):
        fill(path, 3)
        found.append(Path(f"{path}-queues").read_bytes())
    return found


def drain(path: Path) -> None:
    """Put some jobs, then take and ack all jobs that are due."""
    with Client(f"sqlite://{path}?sync=none") as client:
        for name in [one.name for one in client.queues()]:
            queue = client.queue(name)
            queue.put_many(["more", "more"], group="g1")
            queue.put("more")
            while jobs := queue.take_many(50, timeout=0):
                assert all(queue.ack_many(jobs))
            queue.jobs()
            queue.purge("dead")


# -- one damage --------------------------------------------------------------------------------


def test_a_take_names_the_damage_and_its_repair_and_works_afterwards(
    path: Path, url: str, client: Client
) -> None:
    queue = client.queue("q")
    queue.put_many(range(3), group="g")
    first = queue.take(timeout=0)
    assert first is not None
    queue.put("lost", id="lost")
    queue.put("kept")
    # Given a deleted job that is still in the list of ready jobs
    change(path, "DELETE FROM jobs WHERE id = 'lost'")
    # Then a take reports the damage and its remedy
    with pytest.raises(ConfigError, match="job 4 of queue 'q' is gone") as raised:
        queue.take(timeout=0)
    assert f"run holdfast doctor --mend --url {url}," in str(raised.value)
    # And the doctor reports it too
    (found,) = told(path)
    assert found.level is Level.FAIL
    assert "job 4 of queue 'q' is to be served, and gone" in found.text
    assert f"holdfast doctor --mend --url {url}," in found.remedy
    # When the queues are repaired while clients use them
    # Then the job is named, delivered jobs can still be acked, and all other jobs are delivered
    assert gone(mended(path)) == ["job 4 of queue 'q'"]
    (found,) = told(path)
    assert found.level is Level.OK
    assert first.ack()
    assert audit(path) == {"q": (3, 0, 0)}
    assert sorted(str(job.payload) for job in queue.take_many(9, timeout=0)) == ["1", "kept"]


def test_a_job_of_which_only_its_id_is_left_is_named(path: Path, url: str) -> None:
    with Client(url) as client:
        client.queue("q").put_many([{"payload": n, "id": f"job {n}"} for n in range(3)])
    # Given a table that lacks a row of its index, as after the loss of a page
    index, named = "CREATE INDEX jobs_by_id ON jobs (id)", "FROM sqlite_master WHERE name = ?"
    with closing(sqlite3.connect(f"{path}-queues")) as books:
        (root,) = books.execute(f"SELECT rootpage {named}", ("jobs_by_id",)).fetchone()
    hides = "PRAGMA writable_schema = 1"
    change(path, hides, f"DELETE {named.replace('?', repr('jobs_by_id'))}")
    change(path, "DELETE FROM jobs WHERE id = 'job 1'", "DELETE FROM ready WHERE job & 255 = 2")
    row = f"('index', 'jobs_by_id', 'jobs', {root}, '{index}')"
    change(path, hides, f"INSERT INTO sqlite_master VALUES {row}")
    assert told(path)[0].level is Level.FAIL
    assert gone(mended(path)) == ["job 2 of queue 'q', id 'job 1'"]
    assert told(path)[0].level is Level.OK


def test_a_job_whose_id_is_unreadable_is_kept_and_its_new_id_is_named(path: Path, url: str) -> None:
    with Client(url) as client:
        queue = client.queue("q")
        queue.put_many([{"payload": n, "id": f"job {n}"} for n in range(3)])
        change(path, "UPDATE jobs SET id = x'ff00' WHERE id = 'job 1'")
        assert told(path)[0].level is Level.FAIL
        (found,) = [one for one in mended(path) if one.subject == "renamed"]
        (new,) = {job.id for job in queue.jobs()} - {"job 0", "job 2"}
        assert found.text == f"job 2 of queue 'q' now has the id {new!r}: its own one is unreadable"
        # Then a later repair doesn't name it again
        change(path, "UPDATE jobs SET id = x'ff00' WHERE id = 'job 0'")
        assert [one.text[:5] for one in mended(path) if one.subject == "renamed"] == ["job 1"]
        assert {job.payload for job in queue.take_many(9, timeout=0)} == {0, 1, 2}


def test_what_is_whole_is_not_changed(path: Path, versions: list[bytes]) -> None:
    assert [one.level for one in mended(path)] == [Level.OK]
    Path(f"{path}-queues").write_bytes(versions[-1])
    Path(f"{path}-queues").chmod(0o600)
    (found,) = mended(path)
    assert (found.level, found.text) == (Level.OK, "the queues are whole: nothing is changed")
    assert Path(f"{path}-queues").read_bytes() == versions[-1]


# -- random damage -----------------------------------------------------------------------------


def damage(file: Path, versions: list[bytes], chance: random.Random) -> str:
    """Damage the file in a random way; return a description of the damage."""
    match chance.choice(("row", "row", "value", "value", "value", "pages", "pages", "bytes")):
        case "row":
            table = chance.choice(TABLES)
            with closing(sqlite3.connect(file, isolation_level=None)) as books:
                (count,) = books.execute(f"SELECT count(*) FROM {table}").fetchone()
                keys = [r[1] for r in books.execute(f"PRAGMA table_info({table})") if r[5]]
                at = chance.randrange(max(1, count))
                columns = ", ".join(keys)
                row = f"SELECT {columns} FROM {table} LIMIT {chance.choice((1, 1, 3))} OFFSET {at}"
                books.execute(f"DELETE FROM {table} WHERE ({columns}) IN ({row})")
            return f"{table}: row {at} removed"
        case "value":
            table, column, at = chance.choice([*rows(file)])
            value = chance.choice((*ODD, 1, 2, 7, 2**41 + 3))
            replaced(file, table, column, at, value)
            return f"{table}.{column}[{at}] = {value!r}"
        case "pages":  # as a lost commit leaves them
            data = bytearray(versions[-1])
            old = chance.choice(versions[:-1])
            pages = chance.sample(range(len(old) // PAGE), chance.choice((1, 1, 2, 5)))
            for page in pages:
                data[page * PAGE : (page + 1) * PAGE] = old[page * PAGE : (page + 1) * PAGE]
            file.write_bytes(data)
            return f"pages {pages} are {versions.index(old) - 2}"
        case _:
            data = bytearray(versions[-1])
            at = chance.randrange(len(data))
            data[at : at + chance.choice((1, 8, PAGE))] = b""
            data = data.ljust(len(versions[-1]), b"\xff")
            file.write_bytes(data)
            return f"cut at {at}"


def judged(path: Path, before: set[str]) -> Iterator[str]:
    """Yield the errors, unless the damage is found and repaired, or refused with a reason."""
    found = told(path)
    if found and found[0].level is Level.FAIL:
        if "doctor --mend" not in found[0].remedy:
            yield f"no remedy: {found[0]}"
        content = Path(f"{path}-queues").read_bytes()
        try:
            said = mended(path)
        except HoldfastError as refused:
            if not re.search("damaged|be repaired|is not a SQLite|another appl", str(refused)):
                yield f"refused without a word: {refused}"
            if Path(f"{path}-queues").read_bytes() != content:
                yield "refused, and changed"
            return
        told_of = gone(said) + [one.text for one in said if one.subject == "renamed"]
        if (missing := before - ids(path)) and not told_of:
            yield f"{len(missing)} are gone, and no error reports it"
        (again,) = told(path)
        if again.level is not Level.OK:
            yield f"repaired, and still wrong: {again.text}"
    audit(path)
    drain(path)
    audit(path)


def test_any_damage_is_found_and_repaired_or_refused(versions: list[bytes], tmp_path: Path) -> None:
    chance = random.Random(seed_of("books"))
    wrong = []
    for number in range(times(4000, 25)):
        folder = tmp_path / f"{number}"
        folder.mkdir(mode=0o700)
        path = folder / "locks.db"
        file = Path(f"{path}-queues")
        file.touch(0o600)
        file.write_bytes(versions[-1])
        before = ids(path)
        what = damage(file, versions, chance)
        try:
            wrong += [f"{what}: {one}" for one in judged(path, before)]
        except (Exception, AssertionError) as failure:
            wrong.append(f"{what}: {failure!r}")
        shutil.rmtree(folder)
    with promised("damaged queues are found, and repaired or refused"):
        assert not wrong, "\n".join(wrong)
