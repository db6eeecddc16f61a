"""The harness measures in turns, compares within rounds, and hides no failure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench import report
from bench.harness import measure
from bench.machine import Quiet
from bench.model import (
    Case,
    Column,
    Metric,
    Panel,
    Reading,
    Result,
    Row,
    Target,
    from_json,
    to_json,
)
from bench.stats import jain, median, quantile, spread

COLUMN = Column("us", "µs", "ratio")


def gives(values: Sequence[float], name: str = "ours", order: list[str] | None = None) -> Case:
    """A case whose rounds return these values, one after the other."""
    left = iter(values)

    def read(place: Path) -> Reading:
        assert place.is_dir()
        if order is not None:
            order.append(name)
        return {"us": [next(left)]}

    return Case(name, read)


def fails(_: Path) -> Reading:
    raise OSError("no such lock")


def measured(
    cases: Sequence[Case],
    rounds: int = 1,
    targets: Sequence[Target] = (),
    metrics: Sequence[Metric] = (Metric(COLUMN, "us"),),
) -> Result:
    panel = Panel("key", "Title", "spread", cases, metrics, "peer", rounds, targets)
    return measure("arena", "suite", panel, lambda _: None, Quiet(0.0))


def row(result: Result, name: str = "ours") -> Row:
    found = result.row(name)
    assert found is not None
    return found


def test_every_case_has_its_turn_in_every_round_and_each_begins_once() -> None:
    order: list[str] = []
    measured([gives([1.0] * 3, name, order) for name in "abc"], 3)
    assert order == [*"abc", *"bca", *"cab"]


def test_a_ratio_is_computed_within_each_round() -> None:
    # Given a machine that becomes three times slower in the middle
    result = measured([gives([2.0, 6.0, 2.2]), gives([4.0, 12.0, 4.0], "peer")], 3)
    # Then the ratio is unaffected, although the values change
    figure = row(result).figures["us"]
    assert (figure.value, figure.compared) == (2.2, pytest.approx((0.5, 0.5, 0.525)))
    assert row(result, "peer").figures["us"].compared is None
    # And wide ratios are called noisy
    wide = measured([gives([1.0, 2.0, 3.0]), gives([1.0] * 3, "peer")], 3)
    assert any("ours spread" in line for line in report.noise(wide))


def test_a_tail_is_taken_from_all_rounds_together() -> None:
    metric = Metric(Column("p75", "p75"), "us", lambda us: quantile(us, 0.75), pooled=True)
    figure = row(measured([gives([1.0, 1.0, 1.0, 9.0])], 4, metrics=[metric])).figures["p75"]
    assert (figure.value, figure.rounds) == (1.0, (1.0, 1.0, 3.0))


def test_a_failing_case_is_reported_and_the_others_are_measured() -> None:
    cases = [Case("broken", fails), gives([1.0, 2.0]), gives([1.0] * 2, "peer")]
    result = measured(cases, 2, [Target("broken", "us", "ratio", at_most=1.0)])
    assert result.failed == ["broken: OSError: no such lock"]
    assert result.row("broken") is None
    assert result.row("ours") is not None
    text = "\n".join(report.text(result))
    assert "FAILED  broken: OSError: no such lock" in text
    assert "not measured" in text
    # And the result survives being written down
    assert list(report.text(from_json(to_json(result)))) == list(report.text(result))


def test_without_its_reference_a_case_is_measured_and_not_compared() -> None:
    result = measured([gives([1.0])], 1, [Target("ours", "us", "ratio", at_most=0.5)])
    assert row(result).figures["us"].compared is None
    assert not result.verdicts[0].met
    assert "not measured" in report.verdict(result.verdicts[0], result)
    assert result.failed == []


@pytest.mark.parametrize(
    "compared, most, least, stretch, figure, word",
    [
        ("ratio", 0.5, None, 0.2, 0.25, "met"),
        ("ratio", 0.5, None, 0.25, 0.25, "met, and what we hoped for"),
        ("ratio", 0.2, None, None, 0.25, "MISSED"),
        ("faster", None, 4.0, 5.0, 4.0, "met"),
        ("faster", None, 5.0, None, 4.0, "MISSED"),
        ("over", -3.0, None, None, -3.0, "met"),
        ("value", 0.9, None, None, 1.0, "MISSED"),
    ],
)
def test_a_target_is_judged(
    compared: Any,
    most: float | None,
    least: float | None,
    stretch: float | None,
    figure: float,
    word: str,
) -> None:
    target = Target("ours", "us", compared, at_most=most, at_least=least, stretch=stretch)
    result = measured([gives([1.0]), gives([4.0], "peer")], 1, [target])
    (verdict,) = result.verdicts
    assert verdict.figure == figure
    assert report.verdict(verdict, result).endswith(f": {word}")


def test_a_missed_target_of_safety_is_a_failure() -> None:
    targets = [Target("ours", "us", "value", at_most=0.0, safety=True)]
    assert measured([gives([0.0])], 1, targets).failed == []
    assert measured([gives([2.0])], 1, targets).failed == ["ours: us is 2"]


# -- the arithmetic ------------------------------------------------------------------------------


def test_a_spread_is_the_median_and_its_quartiles() -> None:
    found = spread([5.0, 1.0, 3.0, 2.0, 4.0])
    assert (found, found.width) == ((3.0, 2.0, 4.0), pytest.approx(2 / 3))
    assert spread([7.0]) == (7.0, 7.0, 7.0)
    assert spread([0.0, 0.0]).width == 0.0
    assert median([1.0, 2.0, 10.0, 20.0]) == 6.0


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


def test_jains_index_distinguishes_equal_from_unequal_shares() -> None:
    assert jain([3, 3, 3]) == pytest.approx(1.0)
    assert jain([9, 0, 0]) == pytest.approx(1 / 3)
    assert jain([0, 0]) == 0.0
