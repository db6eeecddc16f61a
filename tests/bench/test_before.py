"""Two source trees are measured in turns, each with its own sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import before

QUICK = ["uncontended", "--store", "embedded", "--quick"]


def test_a_tree_is_compared_with_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert before.run("HEAD", QUICK, turns=1) == 0
    said = capsys.readouterr().out
    assert "· holdfast · pair: " in said
    assert "ratio" in said


def test_each_turn_imports_the_tree_that_it_measures(tmp_path: Path) -> None:
    # Given a source tree that can't be imported
    source = before.extract("HEAD", tmp_path)
    (source / "holdfast" / "__init__.py").write_text("raise ImportError('this tree')\n")
    # When the tree is measured, then the turn fails
    with pytest.raises(SystemExit, match="ended with 1"):
        before.turn(source, QUICK, tmp_path)


def test_ratios_are_of_medians_and_the_spread_is_that_of_the_turns() -> None:
    key = ("uncontended", "a pair", "holdfast", "pair")
    (line,) = before.compared({key: [10.0, 11.0, 30.0]}, {key: [11.0, 11.0, 12.0]})
    assert line.endswith("11 -> 11, ratio 1.000 (turns 0.400 to 1.100)")
