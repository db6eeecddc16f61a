"""The data of a store is damaged, one item at a time, between any two verbs: tests of each store.

A store's module imports these tests. It has the fixture ``damaged``: the store and the number of
rounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from holdfast.testing.faults.damage import Case, Round, cases, rounds
from tests.torture.scale import seed_of, times


class Damaged(NamedTuple):
    """A store whose rows, keys or nodes are damaged."""

    #: See `holdfast.testing.faults.damage.Ground`.
    ground: Any
    #: Maximum number of items in the store.
    items: int
    #: Number of rounds in a usual run, and number of rounds at the same time.
    usual: int
    at_once: int


def test_what_is_damaged_is_refused_clearly_or_healed_in_time(damaged: Damaged) -> None:
    seed = seed_of("damage")
    chosen = list(cases(seed, items=damaged.items))[: times(100_000, damaged.usual)]
    wrong = rounds(damaged.ground, chosen, damaged.at_once)
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.usual(0)
def test_without_damage_the_scenario_plays_to_its_end(damaged: Damaged) -> None:
    verdict = Round(damaged.ground, Case(-1, 0, "removed", 1)).play()
    assert verdict.wrong == []
