"""The verbs of refresh guards against the memory store: random sequences, equal replies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.guard.model import Entry, GuardCounts
from holdfast.stores.sqlite.blocking import annex, way
from holdfast.stores.sqlite.blocking.values import engine as engines
from holdfast.stores.sqlite.blocking.values.engine import ValueEngine
from holdfast.stores.sqlite.blocking.wake import Boxes
from holdfast.url import find
from tests.stores.value_twins import ValueTwins
from tests.torture.scale import seed_of, times

WITHIN = 10.0
#: Two of these entries share one change counter.
ENTRIES = [Entry("g", ""), Entry("g", "a\0b"), Entry("g\0a", "b"), Entry("other", "\N{SNOWMAN}")]


class FileTwins(ValueTwins):
    """The embedded store, in which each verb is sent by a random one of several clients."""

    def __init__(self, path: Path, seed: object, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(seed, ENTRIES)
        for module in (way, annex, engines):
            monkeypatch.setattr(module, "boottime", lambda: self.now)
        self.engines = [ValueEngine(find(f"sqlite://{path}")[1], Boxes()) for _ in range(3)]

    def ask(self, verb: str, what: Any) -> Any:
        if verb == "read":  # by each client, which has read something before
            found = [one.read(what, WITHIN) for one in self.engines]
            assert found == found[:1] * 3
            return found[0]
        return getattr(self.dice.choice(self.engines), verb)(what, WITHIN)


@pytest.fixture
def twins(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileTwins]:
    """Guards in both stores."""
    made = FileTwins(path, seed_of("values, as in memory"), monkeypatch)
    yield made
    for one in made.engines:
        one.close(WITHIN)


def test_random_verbs_are_answered_as_the_memory_store_answers_them(twins: FileTwins) -> None:
    twins.walk(times(100_000, 1200))
    assert len(twins.finishes) > 100


def test_what_is_counted_adds_up_and_is_forgotten_after_a_week(twins: FileTwins) -> None:
    for one in twins.engines:
        one.tally("g", GuardCounts(*range(9)), WITHIN)
    one.tally("gg", GuardCounts(hits=1), WITHIN)
    one.tally("h\N{SNOWMAN}", GuardCounts(hits=2), WITHIN)
    assert [(r.name, r.tally) for r in one.survey("g", False, WITHIN)] == [
        ("g", GuardCounts(*(3 * n for n in range(9)))),
        ("gg", GuardCounts(hits=1)),
    ]
    assert [r.name for r in one.survey("g", True, WITHIN)] == ["g"]
    assert len(one.survey("", False, WITHIN)) == 3
    twins.now += 7 * 86_400.0 + 1
    assert one.survey("", False, WITHIN) == []
    one.tally("g", GuardCounts(hits=1), WITHIN)
    assert one.survey("", False, WITHIN)[0].tally == GuardCounts(hits=1)
