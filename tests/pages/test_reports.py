"""The page of public reports: each row names an existing test or case of the kit."""

from __future__ import annotations

import ast
import re

from tests.tidy.tree import ROOT

PAGE = ROOT / "docs" / "reports.md"
ROW = re.compile(
    r"\| \[([\w.-]+)#(\d+)\]\(https://github\.com/[\w.-]+/\1/(?:issues|pull)/\2\)"
    r" \| [^|]+ \| [^|]+ \| \[`(\w+)`\]\(\.\./((?:tests|src)/[\w/]+\.py)\) \|"
)
LEAST = 40


def test_each_report_has_a_unique_address_and_an_existing_test() -> None:
    lines = [one for one in PAGE.read_text("utf-8").splitlines() if "github.com" in one]
    found = [ROW.fullmatch(one) for one in lines]
    assert [line for line, row in zip(lines, found, strict=True) if row is None] == []
    rows = [row.groups() for row in found if row is not None]
    assert len(rows) >= LEAST
    assert len({line.split("(", 1)[1].split(")")[0] for line in lines}) == len(rows)
    for _, _, name, path in rows:
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        there = {one.name for one in ast.walk(tree) if isinstance(one, functions)}
        assert name in there, f"{PAGE.name} names {name}, which isn't in {path}"
        # A helper is no test
        assert name.startswith("test_") or path.startswith("src/holdfast/testing/conformance/")
