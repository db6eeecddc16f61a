"""Bugs made by rule: one small change at each place of a module's code that a rule fits.

The rules are those of mutation testing (DeMillo, Lipton and Sayward, "Hints on test data
selection", 1978): a comparison that is off by one, a condition negated, a call or a field left out,
``min`` for ``max``. Code that only formats or logs an error is left alone, as no judge reads it.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

#: Each comparison, and its replacement.
COMPARED = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
#: Calls on which no promise depends.
IDLE = {"debug", "info", "warning", "error", "exception", "warn", "log", "collect"}
#: Functions that give attributes their first values.
BEGINS = {"__init__", "_start", "begin"}
#: Statements and texts without an effect that a judge could see.
SILENT = (ast.Raise, ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom)


class Mutation(NamedTuple):
    """A change of the bytes from ``start`` to ``end``."""

    line: int
    what: str
    start: int
    end: int
    new: str

    def of(self, source: bytes) -> str:
        """Return the source with this change."""
        return (source[: self.start] + self.new.encode() + source[self.end :]).decode()


class _Places(ast.NodeVisitor):
    """Collects the changes of one module."""

    def __init__(self, source: bytes) -> None:
        self.found: list[Mutation] = []
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _add(self, node: ast.expr | ast.stmt, new: str) -> None:
        old = " ".join(self._text(node).split())
        self.found.append(Mutation(node.lineno, f"{old!r} becomes {new!r}", *self._span(node), new))

    def visit(self, node: ast.AST) -> None:
        """Visit the parts of a node, unless no judge could see a change there."""
        if isinstance(node, SILENT) or (isinstance(node, ast.Call) and _name(node.func) in IDLE):
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        super().visit(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in ("__repr__", "__str__"):
            return
        for one in node.body:
            # Without its first value an attribute is missing, and no code runs.
            begins = node.name in BEGINS and isinstance(one, ast.Assign)
            self.visit(one.value if begins else one)  # type: ignore[attr-defined]

    visit_FunctionDef = _function  # noqa: N815
    visit_AsyncFunctionDef = _function  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Change the value, not the annotation."""
        if node.value is not None:
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Make an operator off by one, or the opposite."""
        if len(node.ops) == 1:
            operator = COMPARED[type(node.ops[0])]
            self._add(node, f"{self._text(node.left)} {operator} {self._text(node.comparators[0])}")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Leave out one part of a condition."""
        word = " and " if isinstance(node.op, ast.And) else " or "
        for left_out in range(len(node.values)):
            kept = [self._text(one) for at, one in enumerate(node.values) if at != left_out]
            self._add(node, f"({word.join(f'({one})' for one in kept)})")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Leave out a ``not``."""
        if isinstance(node.op, ast.Not):
            self._add(node, f"bool({self._text(node.operand)})")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        """Negate a plain condition."""
        if isinstance(node.test, ast.Name | ast.Attribute | ast.Call | ast.Await):
            self._add(node.test, f"not ({self._text(node.test)})")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Swap ``min`` and ``max``; leave out an argument of ``_replace``."""
        name = _name(node.func)
        if isinstance(node.func, ast.Name) and name in SWAPPED:
            self._add(node.func, SWAPPED[name])
        if name == "_replace":
            for word in node.keywords:
                self._add(word.value, f"{self._text(node.func).rpartition('.')[0]}.{word.arg}")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Make a sum a difference, or a difference a sum."""
        signs = {ast.Add: "-", ast.Sub: "+"}
        if (sign := signs.get(type(node.op))) and not isinstance(node.left, ast.Constant):
            self._add(node, f"{self._text(node.left)} {sign} {self._text(node.right)}")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Invert True or False."""
        if isinstance(node.value, bool):
            self._add(node, str(not node.value))

    def visit_Expr(self, node: ast.Expr) -> None:
        """Leave out a call."""
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(value, ast.Call) and _name(value.func) not in IDLE:
            self._add(node, "pass")
        if not isinstance(value, ast.Constant):
            self.generic_visit(node)

    def _assigned(self, node: ast.Assign | ast.AugAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(targets[0], ast.Attribute | ast.Subscript):
            self._add(node, "pass")
        self.visit(node.value)

    visit_Assign = _assigned  # noqa: N815
    visit_AugAssign = _assigned  # noqa: N815

    def visit_Delete(self, node: ast.Delete) -> None:
        """Leave out a ``del``."""
        self._add(node, "pass")


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def mutations(source: bytes) -> list[Mutation]:
    """Return all changes of a module, in the order of their lines."""
    places = _Places(source)
    places.visit(ast.parse(source))
    return sorted(places.found)
