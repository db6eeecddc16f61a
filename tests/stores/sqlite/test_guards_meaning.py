"""The verbs of refresh guards against the memory store: random sequences, equal replies."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.guard.model import (
    Abandon,
    Busy,
    Duty,
    Entry,
    EntryRecord,
    Failing,
    Finish,
    GuardCounts,
    Prolong,
    Value,
    Wish,
)
from holdfast.stores.memory.values import Values
from holdfast.stores.sqlite.blocking import annex, way
from holdfast.stores.sqlite.blocking.values import engine as engines
from holdfast.stores.sqlite.blocking.values.engine import ValueEngine
from holdfast.stores.sqlite.blocking.wake import Boxes
from holdfast.url import find
from tests.torture.scale import seed_of, times

WITHIN = 10.0
#: Two of these entries share one change counter.
ENTRIES = [Entry("g", ""), Entry("g", "a\0b"), Entry("g\0a", "b"), Entry("other", "\N{SNOWMAN}")]


class Bench:
    """The same guards in both stores, under one clock that the test moves; both get the same
    requests."""

    def __init__(self, path: Path, dice: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dice = dice
        self.now = 10_000.0
        for module in (way, annex, engines):
            monkeypatch.setattr(module, "boottime", lambda: self.now)
        self.engines = [ValueEngine(find(f"sqlite://{path}")[1], Boxes()) for _ in range(3)]
        self.memory = Values()
        #: Fences of the embedded store, by the memory store's fence of the same refresh.
        self.fences: dict[int, int] = {0: 0}
        self.wishes: list[Wish] = []
        self.duties: list[tuple[Wish, int]] = []
        self.finishes: list[Finish] = []

    @property
    def engine(self) -> ValueEngine:
        """Return a random one of several clients, each of which has read something before."""
        return self.dice.choice(self.engines)

    def seen(self, found: Value | None) -> Any:
        """Return a comparable form of a value from either store: equal for equal values."""
        if found is None:
            return None
        ages = (pytest.approx(found.fresh_in, abs=1e-6), pytest.approx(found.stale_in, abs=1e-6))
        return (found.data, *ages, found.cost, found.version)

    def same(self, ours: Value | None, theirs: Value | None) -> None:
        if theirs is not None:
            theirs = theirs._replace(version=self.fences[theirs.version])
        assert self.seen(ours) == self.seen(theirs)

    def read(self) -> None:
        for one in self.engines:
            entries = self.dice.sample(ENTRIES, self.dice.randint(1, len(ENTRIES)))
            for entry, ours in zip(entries, one.read(entries, WITHIN), strict=True):
                self.same(ours, self.memory.read(entry, self.now))

    def begin(self) -> None:
        if self.wishes and self.dice.random() < 0.2:
            wish = self.dice.choice(self.wishes)
        else:
            known = self.dice.choice([0, 0, *self.fences])
            number = f"{len(self.wishes):032x}"
            wish = Wish(
                self.dice.choice(ENTRIES), number, "me", self.dice.choice([1, 5, 50]), known
            )
            self.wishes.append(wish)
        expected = self.memory.begin(wish, self.now, None)
        found = self.engine.begin(wish._replace(known=self.fences[wish.known]), WITHIN)
        assert type(found) is type(expected)
        if isinstance(expected, Value):
            assert isinstance(found, Value)
            self.same(found, expected)
        elif isinstance(expected, Duty):
            assert isinstance(found, Duty)
            if expected.fence not in self.fences:
                assert found.fence > max(self.fences.values())
                self.fences[expected.fence] = found.fence
            assert self.fences[expected.fence] == found.fence
            assert found.failures == expected.failures
            self.duties.append((wish, expected.fence))
        else:
            assert isinstance(expected, Busy | Failing)
            assert found == pytest.approx(expected, abs=1e-6) or (
                found[1:] == expected[1:] and found[0] == pytest.approx(expected[0], abs=1e-6)  # type: ignore[index]
            )

    def finish(self) -> None:
        if self.finishes and self.dice.random() < 0.2:
            finish = self.dice.choice(self.finishes)
        elif self.duties:
            wish, fence = self.dice.choice(self.duties)
            data = self.dice.randbytes(self.dice.choice([0, 3, 3, 20_000]))
            spans = [self.dice.choice([0.5, 2.0, 20.0]) for _ in range(3)]
            finish = Finish(wish.entry, wish.id, fence, data, *spans, 0.25)
            self.finishes.append(finish)
        else:
            return
        ours = finish._replace(fence=self.fences[finish.fence])
        assert self.engine.finish(ours, WITHIN) == self.memory.finish(finish, self.now)

    def abandon(self) -> None:
        if self.duties:
            wish, _ = self.dice.choice(self.duties)
            pause = self.dice.choice([0.0, 1.0, 10.0])
            one = Abandon(wish.entry, wish.id, 5.0, pause, 4 * pause, "no value")
            assert self.engine.abandon(one, WITHIN) == self.memory.abandon(one, self.now)

    def prolong(self) -> None:
        if self.duties:
            wish, fence = self.dice.choice(self.duties)
            one = Prolong(wish.entry, wish.id, fence, 5.0)
            expected = self.memory.prolong(one, self.now)
            ours = one._replace(fence=self.fences[fence])
            (found,) = self.engine.prolong([ours], WITHIN)
            assert type(found) is type(expected)

    def invalidate(self) -> None:
        entries = self.dice.sample(ENTRIES, self.dice.choice([1, 1, 1, 2]))
        expected = [self.memory.invalidate(entry, self.now) for entry in entries]
        assert self.engine.invalidate(entries, WITHIN) == expected

    def look(self) -> None:
        for entry in ENTRIES:
            theirs = self.memory.look(entry, self.now)
            theirs = theirs._replace(version=self.fences[theirs.version])
            assert self.plain(self.engine.look(entry, WITHIN)) == self.plain(theirs)

    @staticmethod
    def plain(record: EntryRecord) -> list[Any]:
        return [
            pytest.approx(value, abs=1e-6) if isinstance(value, float) else value
            for value in record
        ]

    def step(self) -> None:
        verbs = [self.begin, self.begin, self.finish, self.finish, self.read, self.read]
        self.dice.choice([*verbs, self.abandon, self.prolong, self.invalidate, self.look])()
        # Always more than zero, because the memory store takes its fences from the clock.
        self.now += self.dice.choice([0.0001, 0.0001, 0.001, 0.3, 1.1, 3.0])


@pytest.fixture
def bench(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Guards in both stores."""
    made = Bench(path, random.Random(seed_of("values, as in memory")), monkeypatch)
    yield made
    for one in made.engines:
        one.close(WITHIN)


def test_random_verbs_are_answered_as_the_memory_store_answers_them(bench: Bench) -> None:
    for _ in range(times(100_000, 1200)):
        bench.step()
    assert len(bench.finishes) > 100


def test_what_is_counted_adds_up_and_is_forgotten_after_a_week(bench: Bench) -> None:
    for one in bench.engines:
        one.tally("g", GuardCounts(*range(9)), WITHIN)
    one.tally("gg", GuardCounts(hits=1), WITHIN)
    one.tally("h\N{SNOWMAN}", GuardCounts(hits=2), WITHIN)
    assert [(r.name, r.tally) for r in one.survey("g", False, WITHIN)] == [
        ("g", GuardCounts(*(3 * n for n in range(9)))),
        ("gg", GuardCounts(hits=1)),
    ]
    assert [r.name for r in one.survey("g", True, WITHIN)] == ["g"]
    assert len(one.survey("", False, WITHIN)) == 3
    bench.now += 7 * 86_400.0 + 1
    assert one.survey("", False, WITHIN) == []
    one.tally("g", GuardCounts(hits=1), WITHIN)
    assert one.survey("", False, WITHIN)[0].tally == GuardCounts(hits=1)
