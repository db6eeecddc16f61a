"""Compare the failure that caught a planted bug with the failure that it was planted for.

A file in ``failures/TABLE/`` records the known failures of each bug. Each line has the type of the
error and its message without numbers and paths. A proof compares its failure with these lines.
Code that can't run proves nothing: an unknown name, an unknown attribute, a failed import, wrong
syntax or an error in a fixture never counts, wherever it occurs.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RECORDS = HERE / "failures"
#: ``python -m tests.mutants.record`` sets them: "missing", "again" or "add", and a part of a name.
MODE, PART = "HOLDFAST_RECORD", "HOLDFAST_RECORD_NAME"
#: The variable with the file in which planted modules note that their code can't run.
NOTES = "HOLDFAST_PLANTED_NOTES"
#: Errors of broken code, which any test would notice.
BROKEN = (NameError, AttributeError, ImportError, SyntaxError)
#: The same errors in a quoted text: of another process, of Lua, of SQL.
QUOTED = re.compile(
    r"\b(NameError|UnboundLocalError|AttributeError|ImportError|ModuleNotFoundError|SyntaxError"
    r"|IndentationError|Undefined(?:Column|Function|Table|Parameter))\b"
    r"|nonexistent global variable|syntax error at or near|error in your SQL syntax"
)
LENGTH = 160

#: Patterns of text that differs from run to run, and their replacements, applied in this order.
_VARIES = [
    (re.compile(r"\b[a-z][a-z+]*://[^\s'\"]*"), "URL"),
    (re.compile(r"(?<![\w'])(?:/[\w.@+-]+){2,}"), "PATH"),
    (re.compile(r"(?<=-)[a-z0-9_]{8}(?=/)"), "N"),  # the end of a temporary folder's name
    (re.compile(r"0x[0-9a-f]+|\b(?=\w*\d)[0-9a-f]{8,}\b"), "N"),
    (re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?"), "N"),
    (re.compile(r"N(?:(?:, |\.)N)+"), "N"),
]


class Failure(NamedTuple):
    """The failure of a test: the type of the error, and its message without varying parts."""

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def normalised(text: str) -> str:
    """Return the first line with text, without numbers, ids, paths and addresses."""
    line = next((one.strip() for one in text.splitlines() if one.strip()), "")
    line = line.replace(socket.gethostname(), "HOST")
    for pattern, instead in _VARIES:
        line = pattern.sub(instead, line)
    return line[:LENGTH].strip()


def failure(error: BaseException) -> Failure:
    """Return the failure that describes this error.

    The message of an ``assert`` is its statement, as the values in its own message differ from run
    to run. ``promised`` and the waits of the kit wrap a failed assertion; the assertion counts.
    """
    kind = type(error).__name__
    if kind in ("PromiseBroken", "TooLate"):
        kind = AssertionError.__name__
        error = error.__cause__ or error
    message, statement = normalised(str(error)), _statement(error.__traceback__)
    if not message or statement.startswith("assert "):
        message = statement or message
    return Failure(kind, message)


def _statement(traceback: TracebackType | None) -> str:
    """Return the innermost line of a test, or of ``holdfast.testing``, that led to the error."""
    found = ""
    while traceback is not None:
        path = traceback.tb_frame.f_code.co_filename
        if f"{os.sep}tests{os.sep}" in path or f"{os.sep}testing{os.sep}" in path:
            found = linecache.getline(path, traceback.tb_lineno).strip() or found
        traceback = traceback.tb_next
    return normalised(found)


def broken(error: BaseException) -> str:
    """Return a sign that code could not run, in this error or its causes; else an empty text."""
    for one in _chain(error, set()):
        if isinstance(one, BROKEN):
            return f"{type(one).__name__}: {one}"
        if said := QUOTED.search(f"{type(one).__name__} {one}"):
            return f"{type(one).__name__}, with the message {said[0]}"
    return ""


def _chain(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    for one in (error.__cause__, error.__context__):
        yield from _chain(one, seen)
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _chain(one, seen)


# -- the records -----------------------------------------------------------------------------


def file(table: str, name: str) -> Path:
    """Return the path of the record of this bug."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return RECORDS / table / f"{slug[:120]}.txt"


def recorded(table: str, name: str) -> list[str]:
    """Return the recorded failures of this bug."""
    try:
        return file(table, name).read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []


def recording() -> str:
    """Return the mode of a run that records failures; an empty text in other runs."""
    return os.environ.get(MODE, "")


def chosen(table: str, names: Iterable[str], usual: Iterable[str]) -> list[str]:
    """Return the bugs to prove in this run: the usual ones, or the bugs that it records."""
    if not recording():
        return list(usual)
    part = os.environ.get(PART, "").lower()
    return [
        name
        for name in names
        if part in name.lower() and (recording() != "missing" or not recorded(table, name))
    ]


def judge(table: str, name: str, found: Failure | str, wrong: str = "") -> None:
    """Raise AssertionError if this isn't the failure that the bug was planted for.

    ``wrong`` is the result of ``broken``. A run that records writes the failure to the record.
    """
    assert not wrong, (
        f"{name!r} proves nothing: the planted code can't run ({wrong}). Repair its text."
    )
    line = str(found)
    if recording():
        known = recorded(table, name) if recording() == "add" else []
        path = file(table, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{one}\n" for one in sorted({*known, line})), "utf-8")
        return
    known = recorded(table, name)
    assert known, (
        f"no failure is recorded for {name!r}; it failed with {line!r}."
        f" If that is what it was planted for: python -m tests.mutants.record -k {name!r}"
    )
    assert line in known, (
        f"{name!r} was planted for {known}, but failed with {line!r}."
        f" If that is right as well: python -m tests.mutants.record --add -k {name!r}"
    )


def orphans(tables: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the records of bugs that no table has, and of tables that don't exist."""
    wanted = {file(table, name) for table, names in tables.items() for name in names}
    return sorted(str(one.relative_to(RECORDS)) for one in {*RECORDS.rglob("*.txt")} - wanted)


# -- planted code that can't run ---------------------------------------------------------------


_NOTE = """
try:
    pass
except (NameError, AttributeError, ImportError) as _planted_error:
    with open({path!r}, 'a') as _planted_notes:
        _planted_notes.write(f'{{type(_planted_error).__name__}}: {{_planted_error}}\\n')
    raise
"""


class _Watching(ast.NodeTransformer):
    """Makes functions note the errors of ``BROKEN`` that leave them; a caller can swallow these."""

    def __init__(self, path: str) -> None:
        self._path = path

    def _watch(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("__getattr"):
            return node
        body = node.body
        said = body[:1] if ast.get_docstring(node, clean=False) is not None else []
        (noting,) = ast.parse(_NOTE.format(path=self._path)).body
        assert isinstance(noting, ast.Try)
        noting.body = body[len(said) :] or [ast.Pass()]
        node.body = [*said, noting]
        return node

    visit_FunctionDef = _watch  # noqa: N815
    visit_AsyncFunctionDef = _watch  # noqa: N815


def watched(source: str, notes: str) -> ast.Module:
    """Return the module with functions that note in this file that their code can't run."""
    tree = _Watching(notes).visit(ast.parse(source))
    return ast.fix_missing_locations(tree)


def noted() -> str:
    """Return the notes of the planted modules in this run, or an empty text."""
    path = os.environ.get(NOTES, "")
    try:
        return normalised(Path(path).read_text("utf-8")) if path else ""
    except FileNotFoundError:
        return ""
