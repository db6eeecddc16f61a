"""An impossible value in each column of each row: a clear error or a working line."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client, HoldfastError
from tests.torture.scale import seed_of, times

ODD: tuple[Any, ...] = (None, "", "odd", b"\xff\x00", -1, 0, 2**63 - 1, -(2**63), 1e308, -1e308)
#: Time-out of acts that would wait, in seconds.
LITTLE_S = 0.02
#: Seconds after which an act counts as stuck. A put is retried for ten seconds.
SOON_S = 20.0


def rows(path: Path) -> Iterator[tuple[str, str, int]]:
    """Yield the table, the column and the row number of each value in the database."""
    with contextlib.closing(sqlite3.connect(path)) as books:
        names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        for (table,) in books.execute(names).fetchall():
            columns = [row[1] for row in books.execute(f"PRAGMA table_info({table})")]
            (count,) = books.execute(f"SELECT count(*) FROM {table}").fetchone()
            yield from ((table, column, at) for column in columns for at in range(count))


def replaced(path: Path, table: str, column: str, at: int, value: Any) -> bool:
    """Replace one value. Return False if the table itself refuses the new value."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as books:
        where = f"SELECT * FROM {table} LIMIT 1 OFFSET {at}"
        keys = [r[1] for r in books.execute(f"PRAGMA table_info({table})") if r[5]]
        found = books.execute(f"SELECT {', '.join(keys)} FROM ({where})").fetchone()
        match = " AND ".join(f"{key} IS ?" for key in keys)
        with contextlib.suppress(sqlite3.IntegrityError, OverflowError):
            books.execute(f"UPDATE {table} SET {column} = ? WHERE {match}", (value, *found))
            return True
        return False


class Scene:
    """A holder, a waiter behind it, jobs and a value, and the acts that use them during the
    damage."""

    #: Whether a second holder can be granted: the docs describe damage that the store can't detect.
    unseen = False

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite://{path}"
        self.here, self.there, self.third = (Client(self.url) for _ in range(3))
        self.hold = self.here.lock("x", ttl=60, auto_renew=False).acquire()
        self.waiting = threading.Thread(target=self._wait, daemon=True)
        self.waiting.start()
        while not self.here.inspect("x")[0].waiters:
            pass
        queue = self.here.queue("q")
        queue.put_many([1, 2], group="g")
        queue.put(3, id="known")
        self.job = queue.take(timeout=1)
        self.here.guard("v", ttl=60).get(lambda: "value")
        self.here.guard("v", ttl=60).stats()
        # A value that is being computed, and a value whose computation failed
        self.raw: Exception | None = None
        self.done, begun = threading.Event(), threading.Event()
        self.computing = threading.Thread(target=self._compute, args=(begun,), daemon=True)
        self.computing.start()
        assert begun.wait(SOON_S)
        with pytest.raises(LookupError):
            self.here.guard("v", ttl=60, failure_ttl=60).get(self._fail, key="bad")

    def _compute(self, begun: threading.Event) -> None:
        def slow() -> str:
            begun.set()
            self.done.wait(SOON_S)
            return "slow"

        try:
            self.there.guard("v", ttl=60, lease=30).get(slow, key="slow")
        except HoldfastError:
            pass
        except Exception as raw:
            self.raw = raw

    def _fail(self) -> str:
        raise LookupError("no such thing")

    def _wait(self) -> None:
        with contextlib.suppress(HoldfastError):
            self.there.lock("x").acquire(timeout=5)

    def end(self) -> None:
        """End the computation and close all clients."""
        self.done.set()
        self.waiting.join(LITTLE_S)
        self.computing.join(SOON_S)
        for client in (self.here, self.there, self.third):
            with contextlib.suppress(HoldfastError):
                client.close()
        self.waiting.join(SOON_S)

    def acts(self) -> list[Callable[[], object]]:
        """Return the acts, in the order in which they run."""
        third = self.third
        queue = third.queue("q")
        guard = third.guard("v", ttl=60, timeout=LITTLE_S, failure_ttl=1)

        def store() -> None:
            self.done.set()
            self.computing.join(SOON_S)
            if self.raw is not None:
                raise self.raw
            third.guard("v", ttl=60, timeout=1).get(lambda: "slow", key="slow")

        def enter() -> None:
            hold = third.lock("x", timeout=0).acquire()
            assert hold is None or self.unseen or self.hold.lost is not None, "two hold it"

        return [
            third.inspect, enter, self.hold.check, lambda: self.hold.extend(30),
            queue.stats, queue.jobs, lambda: queue.put(4, group="g"),
            lambda: queue.take(timeout=LITTLE_S), self.job.ack if self.job else queue.stats,
            lambda: guard.get(lambda: "value"), guard.stats,
            lambda: guard.get(lambda: "slow", key="slow"), lambda: guard.inspect("slow"),
            lambda: guard.get(lambda: "bad", key="bad"), lambda: guard.inspect("bad"), store,
            lambda: guard.invalidate("", "slow", "bad"),
            lambda: guard.get(lambda: "bad", key="bad"),
            third.queue("q").purge, self.hold.release, third.close, self.here.close,
        ]  # fmt: skip


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, str, int]]:
    """Every stored value of the scene: file, table, column and row number."""
    path = tmp_path_factory.mktemp("scene") / "locks.db"
    path.parent.chmod(0o700)
    scene = Scene(path)
    all_rows = [(file.name, *found) for file in files(path) for found in rows(file)]
    scene.end()
    return all_rows


def files(path: Path) -> list[Path]:
    """Return the databases of a store."""
    return [one for one in sorted(path.parent.iterdir()) if one.is_file() and is_database(one)]


def is_database(file: Path) -> bool:
    """Return True if the first bytes of the file are those of an SQLite database."""
    return file.read_bytes()[:15] == b"SQLite format 3"


def test_a_replaced_value_causes_no_raw_error_and_no_second_holder(
    everything: list[tuple[str, str, str, int]], tmp_path: Path
) -> None:
    # Given every value of every table, and its possible replacements
    cases = [(one, value) for one in everything for value in ODD]
    chance = random.Random(seed_of("odd rows"))
    for (name, table, column, at), value in chance.sample(cases, times(len(cases), 25)):
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        scene = Scene(folder / "locks.db")
        # When it is replaced
        if not replaced(folder / name, table, column, at, value):
            continue
        scene.unseen = table in ("claims", "meta")
        # Then each verb soon gives a reply or an error of holdfast
        wrong = []
        for number, act in enumerate(scene.acts()):
            begun = time.monotonic()
            try:
                act()
            except HoldfastError:
                pass
            except Exception as raw:
                wrong.append(f"{table}.{column}[{at}] = {value!r}, act {number}: {raw!r}")
            if time.monotonic() - begun > SOON_S:
                wrong.append(f"{table}.{column}[{at}] = {value!r}, act {number}: stuck")
        assert not wrong, "\n".join(wrong)
        scene.end()
        shutil.rmtree(folder, ignore_errors=True)
