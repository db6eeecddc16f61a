"""Queues of the embedded store against the memory store: random sequences, equal replies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.queue.model import BATCH_MAX, Job, Put, Settle, Verdict
from holdfast.stores.sqlite.blocking import annex, way
from holdfast.stores.sqlite.blocking.queues.engine import JobEngine
from holdfast.stores.sqlite.blocking.sql import guards as value_statements
from holdfast.stores.sqlite.blocking.sql import jobs as job_statements
from holdfast.stores.sqlite.blocking.values.engine import ValueEngine
from holdfast.stores.sqlite.blocking.wake import Boxes
from holdfast.url import find
from tests.stores.job_twins import *  # noqa: F403
from tests.stores.job_twins import JobTwins
from tests.torture.scale import seed_of, times

WITHIN = 10.0
TABLES = ("groups", "jobs", "ready", "loans", "known", "lanes", "tombs")
SEED = seed_of("jobs, as in memory")


class FileTwins(JobTwins):
    """The embedded store and the memory store, compared verb by verb."""

    def __init__(self, path: Path, seed: object, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(seed)
        offset = 0.0
        for module in (way, annex):
            monkeypatch.setattr(module, "boottime", lambda: self.now - offset)
        self.engine = JobEngine(find(f"sqlite://{path}?sync=none")[1], Boxes())
        self.engine.put(Put(self.name, "set-up", 1, (), 0.0), WITHIN)
        files = self.engine._files
        assert files is not None
        self.run, offset = files.run, files.offset
        self.now += offset

    def ask(self, verb: str, *what: Any) -> Any:
        return getattr(self.engine, verb)(*what, WITHIN)

    def look(self) -> None:
        """Compare the jobs, and check that the stored counts equal the numbers of rows."""
        super().look()
        counts = "jobs", "loans", "jobs WHERE dead"
        jobs, taken, dead = (self.count(one) for one in counts)
        groups = self.count("(SELECT DISTINCT grp FROM jobs WHERE grp)")
        row = self.run("SELECT waiting, taken, dead, groups FROM queues").fetchone()
        assert row == (jobs - taken - dead, taken, dead, groups)

    def count(self, rows: str) -> int:
        return int(self.run(f"SELECT count(*) FROM {rows}").fetchone()[0])


@pytest.fixture
def twins(
    path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[FileTwins]:
    """A queue in both stores, with another seed for each test."""
    made = FileTwins(path, f"{SEED} {request.node.name}", monkeypatch)
    yield made
    made.engine.close(WITHIN)


@pytest.mark.parametrize("number", range(times(200, 12)))
def test_random_verbs_are_answered_as_the_memory_store_answers_them(
    twins: FileTwins, number: int
) -> None:
    twins.walk(200)
    # When all jobs are purged, and the records for dedup have expired
    twins.ask("purge", twins.name, None, None, BATCH_MAX)
    twins.now += 5000.0
    while twins.ask("purge", twins.name, None, None, BATCH_MAX):
        pass
    twins.now += 5000.0
    # Each settle removes one tombstone more than it writes
    for turn in range(twins.count("tombs") + 20):
        twins.ask("put", Put(twins.name, "last", turn + 1, (Job("x", "g", b""),), 0.0))
        (job,) = twins.ask("take", take := twins.wish()).deliveries or (None,)
        if job is not None:
            done = Settle(twins.name, "g", job.seq, take.id, Verdict.ACK, suspect=True)
            twins.ask("settle", [done])
        twins.now += 100.0
    twins.ask("purge", twins.name, None, None, BATCH_MAX)
    # Then only one producer, the last tombstones, and one resting group are left
    left = {table: twins.count(table) for table in TABLES}
    assert left.pop("lanes") == 1
    assert left.pop("tombs") <= 2
    assert left.pop("groups") <= 1
    assert set(left.values()) == {0}, left


#: Engines with their statements, except statements that scan a small table, or list rows in order.
STATEMENTS: dict[str, tuple[Any, Any, set[str]]] = {
    "queues": (
        JobEngine,
        job_statements,
        {"latest", "queues_forget", "sessions", "session_there", "oldest"},
    ),
    "values": (ValueEngine, value_statements, {"tallies_fade", "session_there", "session_over"}),
}


@pytest.mark.usual(2)
@pytest.mark.parametrize("product", STATEMENTS)
def test_no_verb_reads_a_table_from_end_to_end(url: str, product: str) -> None:
    make, statements, walks = STATEMENTS[product]
    engine = make(find(url)[1], Boxes())
    engine.survey("", False, WITHIN)
    for name, sql in vars(statements()).items():
        if name in walks or name.startswith("listed"):
            continue
        numbers = [int(one) for one in re.findall(r"\?(\d+)", sql)]
        values = [1] * max(numbers, default=sql.count("?"))
        for row in engine._files.run("EXPLAIN QUERY PLAN " + sql, values):
            assert not row[3].startswith("SCAN") or "CONSTANT" in row[3], (name, row)
            assert "TEMP B-TREE" not in row[3] or name == "loans_of_take", (name, row)
    engine.close(WITHIN)
