"""The harness measures in turns, compares within rounds, and hides no failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bench import report
from bench.harness import measure
from bench.machine import Quiet
from bench.model import Case, Column, Metric, Panel, Reading, Result, Target, from_json, to_json
from bench.stats import quantile

COLUMN = Column("us", "µs", "ratio")


def gives(values: Sequence[float], order: list[str] | None = None, name: str = "") -> Case:
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


def panel(
    cases: Sequence[Case],
    rounds: int,
    targets: Sequence[Target] = (),
    metrics: Sequence[Metric] = (Metric(COLUMN, "us"),),
) -> Panel:
    return Panel("key", "Title", "spread", cases, metrics, "peer", rounds, targets)


def measured(planned: Panel) -> Result:
    return measure("arena", "suite", planned, lambda _: None, Quiet(0.0))


def test_every_case_has_its_turn_in_every_round_and_each_begins_once() -> None:
    order: list[str] = []
    cases = [gives([1.0] * 3, order, name) for name in "abc"]

    measured(panel(cases, 3))

    assert order == [*"abc", *"bca", *"cab"]


def test_a_ratio_is_computed_within_each_round() -> None:
    # Given a machine that becomes three times slower in the middle
    cases = [gives([2.0, 6.0, 2.2], name="ours"), gives([4.0, 12.0, 4.0], name="peer")]

    result = measured(panel(cases, 3))

    # Then the ratio is unaffected, although the values change
    row = result.row("ours")
    assert row is not None
    assert row.figures["us"].value == 2.2
    assert row.figures["us"].compared == pytest.approx((0.5, 0.5, 0.525))
    reference = result.row("peer")
    assert reference is not None
    assert reference.figures["us"].compared is None


def test_a_tail_is_taken_from_all_rounds_together() -> None:
    def tail(values: Sequence[float]) -> float:
        return quantile(values, 0.75)

    metric = Metric(Column("p75", "p75"), "us", tail, pooled=True)
    cases = [gives([1.0, 1.0, 1.0, 9.0], name="ours")]

    row = measured(panel(cases, 4, metrics=[metric])).row("ours")

    assert row is not None
    assert row.figures["p75"].value == 1.0
    assert row.figures["p75"].rounds == (1.0, 1.0, 3.0)


def test_a_failing_case_is_reported_and_the_others_are_measured() -> None:
    cases = [Case("broken", fails), gives([1.0, 2.0], name="ours"), gives([1.0] * 2, name="peer")]

    result = measured(panel(cases, 2, [Target("broken", "us", "ratio", at_most=1.0)]))

    assert result.failed == ["broken: OSError: no such lock"]
    assert result.row("broken") is None
    assert result.row("ours") is not None
    text = "\n".join(report.text(result))
    assert "FAILED  broken: OSError: no such lock" in text
    assert "not measured" in text


def test_without_its_reference_a_case_is_measured_and_not_compared() -> None:
    target = Target("ours", "us", "ratio", at_most=0.5)

    result = measured(panel([gives([1.0], name="ours")], 1, [target]))

    row = result.row("ours")
    assert row is not None
    assert row.figures["us"].compared is None
    assert not result.verdicts[0].met
    assert "not measured" in report.verdict(result.verdicts[0], result)
    assert result.failed == []


KINDS = {
    "at most, met": (Target("ours", "us", "ratio", at_most=0.5, stretch=0.2), 0.25, "met"),
    "at most, hoped for": (
        Target("ours", "us", "ratio", at_most=0.5, stretch=0.25),
        0.25,
        "met, and what we hoped for",
    ),
    "at most, missed": (Target("ours", "us", "ratio", at_most=0.2), 0.25, "MISSED"),
    "faster": (Target("ours", "us", "faster", at_least=4.0, stretch=5.0), 4.0, "met"),
    "too slow": (Target("ours", "us", "faster", at_least=5.0), 4.0, "MISSED"),
    "over": (Target("ours", "us", "over", at_most=-3.0), -3.0, "met"),
    "value": (Target("ours", "us", "value", at_most=0.9), 1.0, "MISSED"),
}


@pytest.mark.parametrize("target, figure, word", KINDS.values(), ids=KINDS)
def test_a_target_is_judged(target: Target, figure: float, word: str) -> None:
    cases = [gives([1.0], name="ours"), gives([4.0], name="peer")]

    result = measured(panel(cases, 1, [target]))

    verdict = result.verdicts[0]
    assert verdict.figure == figure
    assert report.verdict(verdict, result).endswith(f": {word}")


def test_a_missed_target_of_safety_is_a_failure() -> None:
    target = Target("ours", "us", "value", at_most=0.0, safety=True)

    assert measured(panel([gives([0.0], name="ours")], 1, [target])).failed == []
    assert measured(panel([gives([2.0], name="ours")], 1, [target])).failed == ["ours: us is 2"]


def test_wide_ratios_are_called_noisy() -> None:
    cases = [gives([1.0, 2.0, 3.0], name="ours"), gives([1.0] * 3, name="peer")]

    assert any("ours spread" in line for line in report.noise(measured(panel(cases, 3))))


def test_what_is_read_once_is_a_figure_too() -> None:
    counted = Metric(Column("calls", "system calls"), "calls")
    case = gives([1.0, 2.0], name="ours")
    case = Case(case.label, case.read, lambda _: {"calls": [6.0]})

    row = measured(panel([case], 2, metrics=[Metric(COLUMN, "us"), counted])).row("ours")

    assert row is not None
    assert row.figures["calls"].value == 6.0


def test_a_result_survives_being_written_down() -> None:
    cases = [gives([1.0, 2.0], name="ours"), Case("broken", fails), gives([1.0] * 2, name="peer")]
    result = measured(panel(cases, 2, [Target("ours", "us", "ratio", at_most=0.5)]))

    again = from_json(to_json(result))

    assert list(report.text(again)) == list(report.text(result))
    assert again == from_json(to_json(again))


@pytest.mark.parametrize(
    "value, text",
    [(0.0, "0"), (0.01234, "0.0123"), (21.36, "21.4"), (999.0, "999"), (48213.0, "48,200")],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert report.number(value) == text


def test_folders_are_gone_after_a_reading() -> None:
    seen: list[Path] = []

    def read(place: Path) -> Reading:
        (place / "file").write_text("x")
        seen.append(place)
        return {"us": [1.0]}

    look: Callable[[Path], bool] = Path.exists
    measured(panel([Case("ours", read)], 2))

    assert len(set(seen)) == 2
    assert not any(look(place) for place in seen)
