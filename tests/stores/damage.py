"""What a store keeps is damaged, one thing at a time, between any two verbs: tests of each store.

A store's module has the fixture ``damaged``, where it is and how much is played, and imports the
tests.
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
    #: Number of things that there may be at most.
    items: int
    #: Rounds in a usual run, out of all that there are; and at the same time.
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
