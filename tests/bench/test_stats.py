"""The arithmetic of the benchmarks."""

from __future__ import annotations

import random

import pytest

from bench.stats import jain, median, quantile, spread


def test_the_median_and_its_quartiles() -> None:
    assert spread([5.0, 1.0, 3.0, 2.0, 4.0]) == (3.0, 2.0, 4.0)
    assert spread([7.0]) == (7.0, 7.0, 7.0)
    assert median([1.0, 2.0, 10.0, 20.0]) == 6.0


def test_the_width_of_a_spread_is_a_part_of_its_median() -> None:
    assert spread([5.0, 1.0, 3.0, 2.0, 4.0]).width == pytest.approx(2 / 3)
    assert spread([0.0, 0.0]).width == 0.0


@pytest.mark.parametrize("count", [1, 2, 9, 10, 999, 1000, 1001])
@pytest.mark.parametrize("part", [0.5, 0.9, 0.99, 0.999, 1.0])
def test_a_quantile_is_a_value_seen_that_covers_its_part_and_no_smaller_one_does(
    count: int, part: float
) -> None:
    chance = random.Random(count)
    values = [float(chance.randrange(1_000_000)) for _ in range(count)]

    found = quantile(values, part)

    assert found in values
    assert sum(value <= found for value in values) >= part * count - 1e-6
    assert sum(value < found for value in values) < part * count


def test_a_far_tail_of_few_values_is_the_greatest() -> None:
    assert quantile([1.0] * 998 + [50.0], 0.999) == 50.0
    assert quantile([1.0] * 1999 + [50.0], 0.999) == 1.0


def test_a_part_that_is_none_is_refused() -> None:
    for part in (0.0, -1.0, 1.5):
        with pytest.raises(ValueError, match="above 0 and at most 1"):
            quantile([1.0], part)


def test_jains_index_distinguishes_equal_from_unequal_shares() -> None:
    assert jain([3, 3, 3]) == pytest.approx(1.0)
    assert jain([9, 0, 0]) == pytest.approx(1 / 3)
    assert jain([0, 0]) == 0.0
