"""Queues of the embedded store against the memory store: random sequences, equal replies."""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.model import Gone, Held
from holdfast.core.queue.model import (
    BATCH_MAX,
    Delivered,
    Extend,
    Job,
    JobState,
    Pace,
    Patience,
    Put,
    Settle,
    Start,
    Take,
    Taken,
    Verdict,
)
from holdfast.errors import StoreUnavailable
from holdfast.stores.memory import jobs_look
from holdfast.stores.memory.jobs import Queue
from holdfast.stores.sqlite.blocking import annex, way
from holdfast.stores.sqlite.blocking.queues.engine import JobEngine
from holdfast.stores.sqlite.blocking.sql import guards as value_statements
from holdfast.stores.sqlite.blocking.sql import jobs as job_statements
from holdfast.stores.sqlite.blocking.values.engine import ValueEngine
from holdfast.stores.sqlite.blocking.wake import Boxes
from holdfast.url import find
from tests.torture.scale import seed_of, times

WITHIN = 10.0
#: How often each verb is sent.
CHANCES = {
    "put": 30,
    "take": 40,
    "settle": 30,
    "extend": 8,
    "again": 15,
    "revive": 4,
    "purge": 2,
    "give back": 5,
}
TABLES = ("groups", "jobs", "ready", "loans", "known", "lanes", "tombs")


class Bench:
    """One queue in both stores, under one clock that the test moves; both get the same requests."""

    def __init__(self, path: Path, dice: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dice = dice
        self.now = 10_000.0
        for module in (way, annex):
            monkeypatch.setattr(module, "boottime", lambda: self.now)
        self.engine = JobEngine(find(f"sqlite://{path}?sync=none")[1], Boxes())
        self.engine.put(Put("q", "set-up", 1, (), 0.0), WITHIN)
        files = self.engine._files
        assert files is not None
        self.run = files.run
        self.offset = files.offset
        self.memory = Queue()
        #: The memory store's job numbers by the embedded store's numbers, and the last fence of
        #: each store.
        self.theirs: dict[int, int] = {}
        self.fences = (0, 0)
        self.lanes: dict[str, int] = {}
        self.puts: list[Put] = []
        self.takes: list[Take] = []
        self.given: list[tuple[Take, Delivered]] = []

    @property
    def moment(self) -> float:
        """Return the time by the clock of the queues."""
        return self.now + self.offset

    def put(self, put: Put) -> None:
        try:
            expected: object = self.memory.put(put, self.moment)
        except StoreUnavailable:
            with pytest.raises(StoreUnavailable, match="came late"):
                self.engine.put(put, WITHIN)
        else:
            assert self.engine.put(put, WITHIN) == expected

    def take(self, take: Take) -> None:
        expected = self.memory.take(take, self.moment)
        found = self.engine.take(take, WITHIN)
        # The memory store can also count from a lease that was renewed or has ended since.
        assert expected.retry_in - 1e-3 <= found.retry_in <= 1.0
        self._same(take, expected, found)

    def _same(self, take: Take, expected: Taken, found: Taken) -> None:
        assert len(found.deliveries) == len(expected.deliveries)
        for theirs, ours in zip(expected.deliveries, found.deliveries, strict=True):
            words = (ours.id, ours.group, ours.payload, ours.attempt)
            assert words == (theirs.id, theirs.group, theirs.payload, theirs.attempt)
            assert ours.age == pytest.approx(theirs.age, abs=1e-3)
            known = [one for _, one in self.given if one.fence == ours.fence]
            if not known:
                assert ours.fence > self.fences[1]
                self.fences = (theirs.fence, ours.fence)
                self.given.append((take, ours))
            self.theirs[ours.seq] = theirs.seq

    def settle(self, settle: Settle) -> None:
        expected = self.memory.settle(self._there(settle), self.moment)
        assert self.engine.settle([settle], WITHIN) == [expected]

    def extend(self, extend: Extend) -> None:
        expected = self.memory.extend(self._there(extend), self.moment)
        (found,) = self.engine.extend([extend], WITHIN)
        assert type(found) is type(expected)
        assert isinstance(found, Held | Gone)

    def _there(self, asked: Any) -> Any:
        return asked._replace(seq=self.theirs[asked.seq])

    def give_back(self, take: Take) -> None:
        expected = self.memory.give_back(take, self.moment)
        assert self.engine.give_back(take, WITHIN) == expected

    def look(self) -> None:
        """Compare what both stores list; expired leases are reaped before that."""
        self.give_back(self.new_take())
        expected = jobs_look.survey("q", self.memory, self.moment)
        (found,) = self.engine.survey("q", True, WITHIN)
        assert found._replace(oldest=0.0) == expected._replace(oldest=0.0)
        for state in (None, *JobState):
            for group in (None, "", "a"):
                theirs = [
                    one
                    for one in jobs_look.records(self.memory, self.moment)
                    if state in (None, one.state) and group in (None, one.group)
                ]
                ours = self.engine.jobs("q", state, group, 10_000, WITHIN)
                assert [_words(one) for one in ours] == [_words(one) for one in theirs]
        self.sums()

    def sums(self) -> None:
        """Check that the stored counts equal the numbers of rows."""
        counts = "jobs", "loans", "jobs WHERE dead"
        jobs, taken, dead = (self.count(one) for one in counts)
        groups = self.count("(SELECT DISTINCT grp FROM jobs WHERE grp)")
        row = self.run("SELECT waiting, taken, dead, groups FROM queues").fetchone()
        assert row == (jobs - taken - dead, taken, dead, groups)

    def count(self, rows: str) -> int:
        return int(self.run(f"SELECT count(*) FROM {rows}").fetchone()[0])

    def new_take(self, **other: Any) -> Take:
        dice = self.dice
        interval = dice.choice([0.0, 0.0, 0.3, 2.0])
        pace = Pace(interval, dice.choice([Start.ACK, Start.TAKE]), dice.choice([1e9, 5.0]))
        patience = Patience(dice.choice([1, 2, 10]), dice.random() < 0.5)
        ttl = dice.choice([0.2, 1.0, 5.0])
        return Take("q", secrets.token_hex(16), 1, ttl, "me", pace, patience)._replace(**other)

    # -- random requests -------------------------------------------------------------------

    def step(self) -> None:
        """Send one verb to both stores, a new request or a repeated one."""
        dice = self.dice
        self.now += dice.choice([1e-4, 1e-3, 0.1, 0.1, 0.7]) * dice.uniform(0.5, 1.5)
        kind = dice.choices([*CHANCES], [*CHANCES.values()])[0]
        if kind == "put":
            self.put(self._new_put())
        elif kind == "take":
            self.takes.append(self.new_take())
            self.take(self.takes[-1])
        elif kind == "give back":
            self.give_back(dice.choice([self.new_take(), *self.takes[-3:]]))
        elif kind == "settle" and self.given:
            self.settle(self._settle_of(*dice.choice(self.given[-4:])))
        elif kind == "extend" and self.given:
            take, job = dice.choice(self.given[-4:])
            self.extend(Extend("q", job.group, job.seq, take.id, job.fence, dice.uniform(0.1, 3)))
        elif kind == "again" and self.puts and self.takes:
            if dice.random() < 0.5:
                self.put(dice.choice(self.puts[-5:]))
            else:
                self.take(dice.choice(self.takes[-5:]))
        else:
            self._mend(kind)

    def _new_put(self) -> Put:
        dice, jobs = self.dice, []
        for _ in range(dice.choice([1, 1, 3])):
            known = dice.random() < 0.4
            job_id = f"k{dice.randrange(12)}" if known else secrets.token_hex(8)
            # No two jobs are due at the same moment, because their order would then be undefined
            delay = dice.choice([0.0, 0.0, 1.0]) + dice.random() * 1e-4
            group = dice.choice(["a", "b", "c", ""])
            jobs.append(Job(job_id, group, secrets.token_bytes(4), delay, known))
        lane = dice.choice(["one", "two"])
        self.lanes[lane] = self.lanes.get(lane, 0) + 1
        self.puts.append(Put("q", lane, self.lanes[lane], tuple(jobs), dice.choice([0.5, 5.0])))
        return self.puts[-1]

    def _settle_of(self, take: Take, job: Delivered) -> Settle:
        dice = self.dice
        verdict = dice.choice([Verdict.ACK, Verdict.ACK, *Verdict])
        delay = dice.choice([0.0, 0.5]) if verdict is Verdict.RETRY else 0.0
        reason = dice.choice(["", "why"]) if verdict in (Verdict.RETRY, Verdict.DEAD) else ""
        what = (job.seq, take.id, verdict, delay, reason, take.ttl, dice.random() < 0.2)
        return Settle("q", job.group, *what)

    def _mend(self, kind: str) -> None:
        self.give_back(self.new_take())  # so that leases that are over are taken back by both
        records = jobs_look.records(self.memory, self.moment)
        wanted = [one.id for one in records if kind == "purge" or one.state is JobState.DEAD]
        if not wanted or len({one.id for one in records}) != len(records):
            return
        ids: Sequence[str] = [self.dice.choice(wanted)]
        if kind == "revive":
            expected = jobs_look.revive(self.memory, ids, self.moment)
            assert self.engine.revive("q", ids, WITHIN) == expected
        elif kind == "purge":
            expected = jobs_look.purge(self.memory, None, ids, BATCH_MAX, self.moment)
            assert self.engine.purge("q", None, ids, BATCH_MAX, WITHIN) == expected


def _words(record: Any) -> tuple[Any, ...]:
    """Return a record with rounded times, so that the small differences between the stores don't
    count."""
    times_of = (record.due_in, record.expires_in)
    return (*record._replace(age=0, due_in=0, expires_in=0), *[round(one, 2) for one in times_of])


@pytest.fixture
def bench(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A queue in both stores."""
    made = Bench(path, random.Random(seed_of("jobs, as in memory")), monkeypatch)
    yield made
    made.engine.close(WITHIN)


@pytest.mark.parametrize("number", range(times(200, 12)))
def test_random_verbs_are_answered_as_the_memory_store_answers_them(
    bench: Bench, number: int
) -> None:
    for step in range(200):
        bench.step()
        if step % 20 == 0:
            bench.look()
    bench.look()
    # When all jobs are purged, and the records for dedup have expired
    bench.engine.purge("q", None, None, BATCH_MAX, WITHIN)
    bench.now += 5000.0
    bench.give_back(bench.new_take())
    while bench.engine.purge("q", None, None, BATCH_MAX, WITHIN):
        pass
    bench.now += 5000.0
    # Each settle removes one tombstone more than it writes
    for turn in range(bench.count("tombs") + 20):
        bench.engine.put(Put("q", "last", turn + 1, (Job("x", "g", b""),), 0.0), WITHIN)
        (job,) = bench.engine.take(take := bench.new_take(), WITHIN).deliveries or (None,)
        if job is not None:
            bench.engine.settle(
                [Settle("q", "g", job.seq, take.id, Verdict.ACK, suspect=True)], WITHIN
            )
        bench.now += 100.0
    bench.engine.purge("q", None, None, BATCH_MAX, WITHIN)
    # Then only one producer, the last tombstones, and one resting group are left
    left = {table: bench.count(table) for table in TABLES}
    assert left.pop("lanes") == 1
    assert left.pop("tombs") <= 2
    assert left.pop("groups") <= 1
    assert set(left.values()) == {0}, left


def test_a_late_copy_of_an_undone_take_gets_nothing(bench: Bench) -> None:
    bench.put(Put("q", "lane", 1, (Job("a", "g", b""),), 0.0))
    take = bench.new_take(pace=Pace())
    bench.give_back(take)
    bench.take(take)
    assert not bench.given


def test_a_group_waits_for_its_first_delivery_whatever_is_removed(bench: Bench) -> None:
    bench.put(Put("q", "lane", 1, tuple(Job(one, "g", b"") for one in "abc"), 0.0))
    bench.take(bench.new_take(ttl=5.0, pace=Pace()))
    assert len(bench.given) == 1
    assert bench.engine.purge("q", None, ["b"], BATCH_MAX, WITHIN) == 1
    assert not bench.engine.take(bench.new_take(pace=Pace()), WITHIN).deliveries
    bench.sums()


#: Engines with their statements, except those that scan a small table, or list rows in order.
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
