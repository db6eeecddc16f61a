"""The judge of tortured guards says which answers were too old, and no others."""

from __future__ import annotations

from pathlib import Path

from holdfast.testing.guards.torture import judge


def journals(place: Path, *texts: str) -> list[str]:
    for number, text in enumerate(texts):
        (place / f"journal.{number}").write_text(text, encoding="ascii")
    return judge(place).stale


def test_an_answer_older_than_what_was_invalidated_before_is_found(tmp_path: Path) -> None:
    stale = journals(tmp_path, "changed 1 7 1000\n", "got 1 6 1001 1002 plain\n")
    assert stale == ["plain: version 6 of 1, though 7 was invalidated before"]


def test_what_was_asked_for_before_or_of_another_key_may_be_older(tmp_path: Path) -> None:
    asked = "got 1 6 1000 1005 plain\ngot 2 0 2000 2001 stale\ngot 1 7 2000 2001 early\n"
    assert journals(tmp_path, "changed 1 7 1000\n", asked) == []


def test_an_invalidation_that_returns_late_takes_none_back(tmp_path: Path) -> None:
    changed = "changed 1 8 1000\nchanged 1 7 1500\n"
    assert len(journals(tmp_path, changed, "got 1 7 2000 2001 plain\n")) == 1


def test_a_line_that_was_cut_short_by_a_kill_is_left_out(tmp_path: Path) -> None:
    assert journals(tmp_path, "changed 1 7 1000\ngot 1 7 2000 2001 plain\ngot 1 6 20") == []
