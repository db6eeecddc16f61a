"""The checks of a store's doctor: which of them run, and what each finds."""

from __future__ import annotations

import pytest

from holdfast.core.finding import (
    APART_S,
    ROUNDS,
    Finding,
    Level,
    clock,
    fail,
    latency,
    lines,
    ok,
    run,
    warn,
)


def test_a_failed_check_ends_the_run_after_its_stage() -> None:
    first = {
        "one": lambda _: fail("broken"),
        "two": lambda _: [ok("good"), warn("odd", subject="its own")],
    }
    assert [*run(None, first, {"three": lambda _: ok("never asked")})] == [
        Finding(Level.FAIL, "one", "broken"),
        Finding(Level.OK, "two", "good"),
        Finding(Level.WARN, "its own", "odd"),
    ]


def test_a_check_that_finds_nothing_or_warns_ends_no_run() -> None:
    first = {"none": lambda _: None, "no": lambda _: False, "odd": lambda _: warn("odd")}
    found = run("the visit", first, {"next": ok})
    assert [(one.subject, one.text) for one in found] == [("odd", "odd"), ("next", "the visit")]


@pytest.mark.parametrize(
    "slowest, usual, worst_s, level",
    [
        (0.01, 0.01, None, Level.OK),
        (0.06, 0.06, None, Level.WARN),
        (0.3, 0.01, None, Level.WARN),
        (0.3, 0.01, 0.5, Level.OK),
        (0.2, 0.01, 0.1, Level.WARN),
    ],
)
def test_requests_are_slow_by_their_median_or_by_the_slowest(
    slowest: float, usual: float, worst_s: float | None, level: Level
) -> None:
    at, left = [100.0], [slowest, *[usual] * (ROUNDS - 1)]

    def ask() -> None:
        at[0] += left.pop()

    found = latency(lambda: at[0], ask, "a remedy", worst_s=worst_s)
    assert (found.level, left) == (level, [])
    took = f"a request takes {usual * 1e3:.2f} ms, {slowest * 1e3:.2f} ms at worst of {ROUNDS}"
    assert found.text == took
    assert found.remedy == ("a remedy" if level is Level.WARN else "")


@pytest.mark.parametrize(
    "ahead, by, words",
    [
        (0.5, 0.0, "+500 ms from ours"),
        (-0.5, 0.0, "-500 ms from ours"),
        (1.5, 1.0, "+1500 ms from ours"),
        (APART_S, 0.0, "1.0 s ahead of ours"),
        (-1.5, 0.0, "1.5 s behind ours"),
    ],
)
def test_a_clock_is_compared_with_ours(ahead: float, by: float, words: str) -> None:
    found = clock(ahead, by)
    assert found.text.startswith(words)
    assert (found.level is Level.OK) == ("from ours" in words)


@pytest.mark.parametrize("wrong, level", [(0, Level.OK), (1, Level.WARN)])
def test_lines_that_contradict_their_claims_are_a_warning(wrong: int, level: Level) -> None:
    assert lines(wrong).level is level
