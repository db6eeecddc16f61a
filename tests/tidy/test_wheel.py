"""The wheel leaves out what only the tests of holdfast use, and nothing else needs that."""

from __future__ import annotations

import ast
import sys
import tomllib

import pytest

from holdfast.testing.__main__ import main
from tests.tidy.tree import ROOT, SRC, files

WHEEL = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"][
    "targets"
]["wheel"]
LEFT_OUT = [ROOT / path.strip("/") for path in WHEEL["exclude"]]


def test_everything_that_is_left_out_exists() -> None:
    assert [path for path in LEFT_OUT if not path.exists()] == []


def test_nothing_in_the_wheel_imports_what_is_left_out() -> None:
    names = {path.stem for path in LEFT_OUT}
    wrong = []
    for path in files(".py", under=SRC / "testing"):
        if any(path.is_relative_to(one) for one in LEFT_OUT):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                parts = {*(node.module or "").split("."), *(one.name for one in node.names)}
                if parts & names:
                    wrong.append(f"{path}: {ast.unparse(node)}")
    assert wrong == []


def test_without_a_checkout_the_simulator_is_reported_as_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    simulator = "holdfast.testing.simulator"
    for name in [one for one in sys.modules if one.startswith(f"{simulator}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, simulator, None)
    assert main(["sim"]) == 69
    assert "./dev sim" in capsys.readouterr().err
