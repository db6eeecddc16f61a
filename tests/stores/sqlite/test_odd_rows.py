"""An impossible value in each column of each row: a clear error, and never two holders."""

from __future__ import annotations

import contextlib
import itertools
import random
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client, ConfigError, HoldfastError
from holdfast.core.model import Claim, Held, Kind
from tests.servers.process import until
from tests.stores.sqlite.desk import Desk, claim
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
        self.here, self.there, self.third = (Client(f"sqlite://{path}") for _ in range(3))
        self.pool, self.done, begun = ThreadPoolExecutor(2), threading.Event(), threading.Event()
        self.hold = self.here.lock("x", ttl=60, auto_renew=False).acquire()
        self.pool.submit(self.there.lock("x").acquire, timeout=5)
        until(lambda: self.here.inspect("x")[0].waiters, "it waits")
        queue, guard = self.here.queue("q"), self.here.guard("v", ttl=60, failure_ttl=60)
        queue.put_many([1, 2], group="g")
        queue.put(3, id="known")
        self.job = queue.take(timeout=1)
        guard.get(lambda: "value")
        guard.stats()

        def slow() -> str:
            begun.set()
            self.done.wait(SOON_S)
            return "slow"

        # A value that is being computed, and a value whose computation failed
        computes = self.there.guard("v", ttl=60, lease=30)
        self.computing = self.pool.submit(computes.get, slow, key="slow")
        assert begun.wait(SOON_S)
        with pytest.raises(ZeroDivisionError):
            guard.get(lambda: f"{1 / 0}", key="bad")

    def end(self) -> None:
        """End the computation and close all clients."""
        self.done.set()
        for client in (self.here, self.there, self.third):
            with contextlib.suppress(HoldfastError):
                client.close()
        self.pool.shutdown()

    def acts(self) -> list[Callable[[], object]]:
        """Return the acts, in the order in which they run."""
        third = self.third
        queue = third.queue("q")
        guard = third.guard("v", ttl=60, timeout=LITTLE_S, failure_ttl=1)

        def store() -> None:
            self.done.set()
            with contextlib.suppress(HoldfastError):
                self.computing.result(SOON_S)
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
    names = [f"locks.db{end}" for end in ("", "-queues", "-values")]
    all_rows = [(name, *found) for name in names for found in rows(path.with_name(name))]
    scene.end()
    return all_rows


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


ODD_LINES = [("state", 0, None), ("state", 0, "lock"), ("state", 0, "lock many")]
ODD_LINES += [("ticket", 0, 7), ("expires", 1, "odd"), ("since", 1, None)]


@pytest.mark.parametrize("column, at, value", ODD_LINES)
def test_inspect_names_a_line_with_an_impossible_state(
    column: str, at: int, value: Any, path: Path
) -> None:
    scene = Scene(path)
    assert replaced(path, "claims", column, at, value)
    with pytest.raises(ConfigError, match="the line 'x' has impossible values"):
        scene.third.inspect()
    scene.end()


# -- lines with a damaged row --------------------------------------------------------------------

WRITER = 1 << 20
COLUMNS = ("held", "weight", "expires", "seat", "state", "ttl", "ticket")
WEIGHTS = (1, 2, WRITER, -WRITER, 2**31)
#: Weights of the readers and writers in line, in order. Of a long line, a verb reads only the first
#: claims.
LINES = ((1, 1), (WRITER, 1), (1, WRITER), (1,) * 6, (WRITER, *[1] * 5))


def wanted(weight: int) -> Claim:
    """Return a claim of a reader or a writer."""
    return claim("rw", kind=Kind.RWLOCK, capacity=WRITER, weight=weight)


CASES = [
    (weights, column, at, value)
    for weights in LINES
    for column, value in itertools.product(COLUMNS, (*ODD, *WEIGHTS))
    for at in range(1, len(weights) + 1)
]


def test_after_a_damaged_row_a_reader_and_a_writer_never_both_hold(
    tmp_path: Path, desk: Callable[..., Desk]
) -> None:
    chance = random.Random(seed_of("odd counts"))
    wrong = []
    for number, case in enumerate(chance.sample(CASES, times(len(CASES), 60))):
        weights, column, at, value = case
        path = tmp_path / f"{number}.db"
        with Desk(path) as here, Desk(path) as there, contextlib.suppress(HoldfastError):
            # Given a line with one damaged row
            others = [wanted(weight) for weight in weights]
            inside: list[tuple[Claim, Any]] = [(one, here.join(one)) for one in others]
            if not replaced(path, "claims", column, at, value):
                continue
            # When the claims of the line leave in random order, between new claims that arrive
            late = [wanted(weight) for weight in (1, WRITER, 1, WRITER)]
            acts: list[tuple[Claim, int]] = [(one, answer[0]) for one, answer in inside]
            acts += [(one, -1) for one in late]
            chance.shuffle(acts)
            held: dict[str, int] = {}
            for one, fence in acts:
                with contextlib.suppress(HoldfastError):
                    if fence >= 0:
                        there.leave(one, fence)
                    elif isinstance(there.join(one, wait=False), Held):
                        held[one.id] = one.spec.weight
            # Then the new claims together never hold more than the capacity
            if sum(held.values()) > WRITER:
                wrong.append(f"{case}: {list(held.values())} hold at once")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("readers", [1, 6])
def test_a_waiter_that_weighs_less_than_nothing_makes_no_room(readers: int, path: Path) -> None:
    with Desk(path) as here, Desk(path) as there:
        # Given readers, and a waiting writer whose stored weight is negative
        for weight in [1] * readers + [WRITER]:
            here.join(wanted(weight))
        assert replaced(path, "claims", "weight", readers + 1, -readers)
        # When others come, then no writer is granted while the readers hold
        for weight in (1, WRITER):
            with contextlib.suppress(HoldfastError):
                assert not isinstance(there.join(wanted(weight), wait=False), Held)
