"""Delays of the machine: their sum, the largest in a short span, and a step that has not ended."""

from __future__ import annotations

import threading
from collections import deque

import pytest

from holdfast.testing import lag

#: The end of each late step, and its delay: three close to each other, and one much later.
NOTED = [(10.0, 0.1), (10.3, 0.2), (10.9, 0.1), (20.0, 0.3)]


@pytest.fixture(autouse=True)
def notes(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Simulate these delays, at a time when no step is late."""
    monkeypatch.setattr(lag, "_late", deque(NOTED))
    monkeypatch.setattr(lag, "_due", [30.0])
    monkeypatch.setattr(lag, "_running", [threading.current_thread()])
    monkeypatch.setattr(lag, "boottime", lambda: 29.999)
    return monkeypatch


def test_since_is_all_that_was_stolen_since_then_and_at_most_a_second_for_others() -> None:
    assert lag.since(0.0) == pytest.approx(0.7 + 1.0)
    assert lag.since(10.3) == pytest.approx(0.4 + 0.8)
    assert lag.since(25.0) == 0


def test_an_unfinished_step_counts_with_its_delay_so_far(notes: pytest.MonkeyPatch) -> None:
    notes.setattr(lag, "boottime", lambda: 30.5)
    assert lag.since(25.0) == pytest.approx(0.5 + 1.0)
    assert lag.since(30.4) == pytest.approx(0.1 + 0.2)
    assert lag.most(25.0, 1.0) == pytest.approx(0.5)
    # No delay counts if no thread records steps, as in a forked child
    notes.setattr(lag, "_running", [])
    assert lag.since(25.0) == 0


@pytest.mark.parametrize(
    "span, stolen", [(0.05, 0.3), (0.1, 0.3), (0.5, 0.3), (0.61, 0.4), (8.9, 0.4), (9.9, 0.7)]
)
def test_most_is_the_largest_delay_of_an_action_of_this_length(span: float, stolen: float) -> None:
    assert lag.most(0.0, span) == pytest.approx(stolen)


def test_most_is_nothing_where_nothing_was_stolen() -> None:
    assert lag.most(25.0, 5.0) == 0
