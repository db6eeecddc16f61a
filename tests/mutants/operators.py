"""Bugs made by rule: one small change at each place of a module's code that a rule fits.

The rules are those of mutation testing (DeMillo, Lipton and Sayward, "Hints on test data
selection", 1978): a comparison that is off by one, a condition negated, a call or a field left out,
``min`` for ``max``. Some changes can't have an effect that a judge could see. No rule makes them:

* the formatting of texts, errors and log messages, the condition of an ``if`` on which only log
  messages depend, and a call of a function that only logs: no judge reads the texts;
* ``<`` for ``<=`` next to a reading of the clock: two readings are never equal. Such a comparison
  is negated instead;
* ``strict=`` of ``zip``: it asserts equal lengths, as ``assert`` does.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef

#: Each comparison, and its replacement.
COMPARED = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
#: The same for a comparison with a reading of the clock, which is negated.
TIMED = {ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<"}
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
        #: Local names of readings of the clock.
        self._read: set[str] = set()
        self._idle: set[str] = set()
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

    def _operator(self, node: ast.expr, left: ast.expr, right: ast.expr, new: str) -> None:
        """Replace the operator between these operands of a node."""
        start, middle, last = self._span(node)[0], self._span(left)[1], self._span(right)[0]
        end = self._span(node)[1]
        between = re.sub(rb"[^\s()]+( not| in)?", new.encode(), self._source[middle:last], count=1)
        changed = self._source[start:middle] + between + self._source[last:end]
        self._add(node, changed.decode())

    def visit(self, node: ast.AST) -> None:
        """Visit the parts of a node, unless no judge could see a change there."""
        if isinstance(node, SILENT) or self._logs(node):
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        super().visit(node)

    def _logs(self, node: ast.AST) -> bool:
        """Return True if the node only logs, or reports what is wrong."""
        match node:
            case ast.Call():
                return _name(node.func) in IDLE | self._idle
            case ast.Expr() | ast.Await():
                return self._logs(node.value)
            case ast.If():
                return all(map(self._logs, [*node.body, *node.orelse]))
        return False

    def visit_Module(self, node: ast.Module) -> None:
        """Find the functions that only log."""
        for one in ast.walk(node):
            if isinstance(one, Function):
                body = one.body[ast.get_docstring(one) is not None :]
                if body and all(map(self._logs, body)):
                    self._idle.add(one.name)
        self.generic_visit(node)

    def _function(self, node: Function) -> None:
        if node.name in ("__repr__", "__str__"):
            return
        outside, self._read = self._read, {"now", *self._read}
        for one in ast.walk(node):
            if isinstance(one, ast.Assign | ast.NamedExpr) and self._reading(one.value):
                target = one.targets[0] if isinstance(one, ast.Assign) else one.target
                self._read |= {target.id} if isinstance(target, ast.Name) else set()
        for one in node.body:
            # Without its first value an attribute is missing, and no code runs.
            begins = node.name in BEGINS and isinstance(one, ast.Assign)
            self.visit(one.value if begins else one)  # type: ignore[attr-defined]
        self._read = outside

    def _reading(self, node: ast.expr) -> bool:
        """Return True if this is a reading of the clock, or a sum or difference with one."""
        match node:
            case ast.Name():
                return node.id in self._read
            case ast.Call():
                return _name(node.func) == "now"
            case ast.NamedExpr():
                return self._reading(node.value)
            case ast.BinOp():
                return self._reading(node.left) or self._reading(node.right)
        return False

    visit_FunctionDef = _function  # noqa: N815
    visit_AsyncFunctionDef = _function  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Change the value, not the annotation."""
        if node.value is not None:
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Make an operator off by one, or the opposite."""
        if len(node.ops) == 1:
            kind, left, right = type(node.ops[0]), node.left, node.comparators[0]
            timed = self._reading(left) or self._reading(right)
            new = TIMED.get(kind, COMPARED[kind]) if timed else COMPARED[kind]
            self._operator(node, left, right, new)
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
        if name == "zip":
            node.keywords = []
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Make a sum a difference, or a difference a sum."""
        signs = {ast.Add: "-", ast.Sub: "+"}
        if (sign := signs.get(type(node.op))) and not isinstance(node.left, ast.Constant):
            self._operator(node, node.left, node.right, sign)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Invert True or False."""
        if isinstance(node.value, bool):
            self._add(node, str(not node.value))

    def visit_Expr(self, node: ast.Expr) -> None:
        """Leave out a call."""
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(value, ast.Call):
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
