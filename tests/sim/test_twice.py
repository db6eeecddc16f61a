"""All pairs of failures that are close to each other, over short histories."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from holdfast.testing.simulator.fates import FIRST, SECOND
from holdfast.testing.simulator.twice import every, pairs

#: For each contract: a seed whose history has many verbs, the maximum distance of two failures, the
#: part of the pairs that is run, and the number of parts. The part of queues has a take whose reply
#: is lost, and a connection that is gone at the next renewal.
SEEDS = {"locks": (0, 5, 3, 24), "queues": (7, 3, 1, 4), "guards": (0, 5, 3, 12)}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    yield
    logging.getLogger("holdfast").setLevel(logging.NOTSET)


@pytest.mark.usual(1)
@pytest.mark.parametrize("kind", SEEDS)
def test_no_two_failures_that_follow_each_other_break_a_promise(kind: str) -> None:
    seed, reach, part, parts = SEEDS[kind]
    found = every(kind, seed, reach, part, parts)
    assert found.violations == []
    assert found.runs > 50
    assert len(found.verbs) >= 3


def test_all_pairs_are_there() -> None:
    some = list(pairs(4, reach=2))
    assert len(set(some)) == len(some) == 4 * len(FIRST) * 2 * len(SECOND)
    assert {one.fate for one, _ in some} == {*FIRST}
    assert {other.fate for _, other in some} == {*SECOND}
