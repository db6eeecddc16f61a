"""The judge of guards finds all values that were too old, and no others."""

from __future__ import annotations

import json
from typing import Any

from holdfast.testing.histories import Violation, judge


def changed(when: float, key: str, version: int) -> dict[str, Any]:
    return {"t": when, "p": "one", "op": "changed", "key": key, "version": version}


def got(asked: float, when: float, key: str, version: int) -> dict[str, Any]:
    known = {"key": key, "version": version, "asked": asked, "how": "plain"}
    return {"t": when, "p": "two", "op": "got", **known}


def stale(*events: dict[str, Any], torn: str = "") -> list[Violation]:
    lines = [json.dumps(event) + "\n" for event in events]
    return judge([*lines, torn] if torn else lines).violations


def test_an_answer_older_than_what_was_invalidated_before_is_found() -> None:
    (found,) = stale(changed(1.0, "a", 7), got(1.001, 1.002, "a", 6))
    assert found.promise == "no stale value"
    assert found.text == "plain: version 6, though 7 was invalidated before"


def test_what_was_asked_for_before_or_of_another_key_may_be_older() -> None:
    asked = [got(1.0, 1.5, "a", 6), got(2.0, 2.1, "b", 0), got(2.0, 2.1, "a", 7)]
    assert stale(changed(1.0, "a", 7), *asked) == []


def test_an_invalidation_that_returns_late_takes_none_back() -> None:
    assert len(stale(changed(1.0, "a", 8), changed(1.5, "a", 7), got(2.0, 2.1, "a", 7))) == 1


def test_a_line_that_was_cut_short_by_a_kill_is_left_out() -> None:
    whole = json.dumps(got(2.0, 2.1, "a", 6))
    assert stale(changed(1.0, "a", 7), got(2.0, 2.1, "a", 7), torn=whole[:-9]) == []
