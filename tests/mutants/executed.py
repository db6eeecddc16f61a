"""The tests that execute each line of files with bugs: ``python -m tests.mutants.executed FILE``.

Each test runs alone, in a process forked after all imports, while a trace function records the
lines. The result is kept in the cache of ``./dev``, for exactly this source and these tests.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.fetching import cache

from .forking import forked
from .operators import Mutation

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
#: The folders with bugs: the core and the memory store.
CORE = ("holdfast/core", "holdfast/stores/memory")
#: The environment of a judge: a usual run, which imports all of holdfast at its start.
USUAL = {"PYTHONPATH": str(SOURCE), "HOLDFAST_TORTURE": "", "HOLDFAST_COMPILED": ""}
AT_ONCE = 4


def statement(source: bytes, bug: Mutation) -> set[int]:
    """Return the lines of the statement with this bug; of a compound statement only its head."""
    found: ast.stmt | None = None
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= bug.line <= (node.end_lineno or 0):
            found = node if found is None or node.lineno >= found.lineno else found
    if found is None:
        return {bug.line}
    body = getattr(found, "body", None)
    end = max(found.lineno, body[0].lineno - 1) if body else found.end_lineno or 0
    return {bug.line, *range(found.lineno, end + 1)}


class Known(NamedTuple):
    """The measured seconds of a test, and the lines that it executes, by file below ``src``.

    The lines are None if they can't be known: the test forks, or can't run with a trace function.
    """

    seconds: float
    lines: dict[str, list[int]] | None

    def executes(self, path: str, lines: set[int]) -> bool:
        """Return whether the test can execute one of these lines."""
        return self.lines is None or not lines.isdisjoint(self.lines.get(path, ()))


class Recorder:
    """Records which lines of these files this process executes, in all threads begun later."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._lines: dict[str, set[int]] = {str(file): set() for file in files}
        #: True if the process was forked, or a test has replaced the trace function.
        self.unsure = False
        sys.addaudithook(self._audit)

    def begin(self) -> None:
        """Forget all lines, and record."""
        for lines in self._lines.values():
            lines.clear()
        self.unsure = False
        threading.settrace(self._call)
        sys.settrace(self._call)
        self.unsure = False

    def end(self) -> dict[str, list[int]] | None:
        """Return the lines by file below ``src``, or None if they can't be known."""
        unsure = self.unsure
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        found = {
            Path(file).relative_to(SOURCE).as_posix(): sorted(lines)
            for file, lines in self._lines.items()
            if lines
        }
        return None if unsure else found

    def _audit(self, event: str, _: object) -> None:
        # Each new thread sets the trace function of this recorder.
        begins = event == "sys.settrace" and sys._getframe(1).f_globals["__name__"] != "threading"
        if begins or event in ("os.fork", "os.forkpty"):
            self.unsure = True

    def _call(self, frame: FrameType, event: str, _: object) -> Any:
        return self._line if frame.f_code.co_filename in self._lines else None

    def _line(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            self._lines[frame.f_code.co_filename].add(frame.f_lineno)
        return self._line


class Book(NamedTuple):
    """The lines that every process executes at its imports, and what is known of each test.

    A test that fails without a bug judges nothing.
    """

    imports: Known
    tests: dict[str, Known]
    fail: dict[str, str]


def book() -> Book:
    """Return what is known of the tests; measure it first if it isn't in the cache."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted([*SOURCE.rglob("*.py"), *ROOT.joinpath("tests").rglob("*.py")]):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    folder = cache.have(cache.CACHE / f"executed-{digest.hexdigest()[:16]}", _measure)
    imports, tests, fail = json.loads(folder.joinpath("book.json").read_text("utf-8"))
    return Book(Known(*imports), {node: Known(*one) for node, one in tests.items()}, fail)


def _measure(folder: Path) -> None:
    from holdfast.testing.surroundings import surroundings

    words = [sys.executable, "-m", "tests.mutants.executed", folder / "book.json"]
    cache.run(words, **surroundings(**USUAL))


def main(told: str) -> int:
    """Measure all tests, and write the book to this file."""
    recorder = Recorder(file for one in CORE for file in (SOURCE / one).rglob("*.py"))
    recorder.begin()
    from .judged import collected, failed

    def alone(item: pytest.Item, place: Path, recorded: bool = True) -> str:
        if recorded:
            recorder.begin()
        began = time.monotonic()
        said = failed([item], place)
        return json.dumps([said, time.monotonic() - began, recorder.end() if recorded else None])

    def measure(items: Sequence[pytest.Item]) -> None:
        known = Book(Known(0.0, recorder.end()), {}, {})
        left = [*items]
        for work in (alone, alone, partial(alone, recorded=False)):
            known.fail.clear()
            for item, said in forked(left, work, AT_ONCE):
                wrong, seconds, lines = json.loads(said) if said[0] == "[" else (said, 0.0, None)
                if wrong:
                    known.fail[item.nodeid] = wrong
                else:
                    known.tests[item.nodeid] = Known(seconds, lines)
            left = [item for item in items if item.nodeid in known.fail]
        assert any(one.lines for one in known.tests.values()), "another holdfast was imported"
        Path(told).write_text(json.dumps(known), "utf-8")

    return collected(measure)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
