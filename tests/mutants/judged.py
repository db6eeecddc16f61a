"""Judge bugs made by rule in Python: ``python -m tests.mutants.judged [PATH NUMBER]``.

The judges of a bug are the tests that execute its statement, the fastest first: histories of the
simulator, tests of the core, and the kit on the memory store. All are imported once. For each bug
a process is forked, in which the functions with the bug get their changed code. A test notices the
bug if it fails twice, and then passes without the bug: a busy machine can make a test fail.

It reads bugs as a line of JSON, and writes a line with the report on each. If the bug changes what
an import does, a separate process plants it: the one that ``PATH`` and ``NUMBER`` name.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import IO, TYPE_CHECKING, TypeVar

from .drawn import Drawn, mutations
from .executed import SOURCE, Book, book, statement
from .failure import NOTES, noted, watched
from .forking import forked
from .plant import Edit, plant
from .prove import Seen

if TYPE_CHECKING:
    import pytest

TESTS = Path(__file__).parents[1]
JUDGES = (
    *("mutants/played.py", "core", "queues", "guard", "caches/test_elsewhere.py"),
    *("fenced/test_sql.py", "conformance/test_conformance.py", "conformance/test_differential.py"),
)
#: The kit runs on the memory store. The sqlite store answers as the model in memory does.
ONLY = "differential and sqlite or not (differential or sqlite) and (not conforms or [memory-)"
#: Bugs that are judged at the same time: the tests wait most of their time.
AT_ONCE = 16
#: A test hangs if it takes this many times its measured seconds, and these seconds more.
SLOWER, HANGS_S = 10, 20.0
SEEN = Seen()
#: The functions with a bug, and their code without it.
_FORMER: list[tuple[FunctionType, CodeType]] = []
Items = Sequence["pytest.Item"]
V = TypeVar("V")
#: Functions or their code, by file, qualified name and first line.
Functions = dict[tuple[str, str, int], list[V]]


def collected(work: Callable[[Items], None]) -> int:
    """Call ``work`` with all judges, instead of running them; return the exit code of pytest."""
    import pytest

    class Instead:
        def pytest_runtestloop(self, session: pytest.Session) -> bool:
            work(session.items)
            return True

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    ways = [
        *("-q", "--tb=native", "--assert=plain", "-o", "faulthandler_timeout=0", "-k", ONLY),
        *("-p", "no:cacheprovider", "-p", "no:threadexception", "-p", "no:unraisableexception"),
        *(str(TESTS / one) for one in JUDGES),
    ]
    return int(pytest.main(ways, plugins=[Instead(), SEEN]))


def failed(items: Items, place: Path, known: Book | None = None) -> str:
    """Run these tests; return the number of the first that fails and its failure, or nothing."""
    session = items[0].session
    for number, item in enumerate(items):
        session.items = [item]
        place.joinpath("now").write_text(f"{number} {item.nodeid}", "utf-8")
        seconds = known.tests[item.nodeid].seconds if known else HANGS_S
        faulthandler.dump_traceback_later(HANGS_S + SLOWER * seconds, exit=True)
        after = items[number + 1] if number + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if session.testsfailed:
            return f"{number} {SEEN.node}: {SEEN.failure}"
    return ""


class Court:
    """Judges bugs by the known results of tests, and reports on each."""

    def __init__(self, known: Book, bugs: Sequence[Drawn], planted: bool, told: IO[str]) -> None:
        self.known, self.bugs, self.planted, self.told = known, bugs, planted, told

    def __call__(self, items: Items) -> None:
        """Judge all bugs, a few at a time."""
        tests = self.known.tests
        ours = (one for one in items if one.nodeid in tests)
        self.items = sorted(ours, key=lambda one: tests[one.nodeid].seconds)
        self.functions = functions()
        for bug, said in forked(self.bugs, self._judge, AT_ONCE):
            (report,) = json.loads(said)
            self.told.write(json.dumps([bug.path, bug.number, report]) + "\n")
            self.told.flush()

    def _judge(self, bug: Drawn, place: Path) -> str:
        lines, tests = statement(bug.source(), bug.mutation), self.known.tests
        imported = self.known.imports.executes(bug.path, lines)
        if not self.planted:
            os.environ[NOTES] = f"{place}/notes"
            if imported or not replant(bug, self.functions):
                return json.dumps([separately(bug)])
        chosen = [
            one for one in self.items if imported or tests[one.nodeid].executes(bug.path, lines)
        ]
        return json.dumps([self._noticed(chosen)])

    def _noticed(self, left: Items) -> str:
        while left:
            number, said = self._run(left)
            if not said:
                return ""
            one = left[number : number + 1]
            if self._run(one)[1] and (self.planted or not self._run(one, whole=True)[1]):
                return "?" * bool(noted()) + said
            left = left[number + 1 :]
        return ""

    def _run(self, items: Items, whole: bool = False) -> tuple[int, str]:
        """Run these tests until one fails; ``whole``: without the bug."""

        def run(items: Items, place: Path) -> str:
            if whole:
                restore()
            return failed(items, place, self.known)

        ((_, said),) = forked([items], run, 1)
        number, _, report = said.partition(" ")
        return int(number or 0), report


def separately(bug: Drawn) -> str:
    """Return the report of a process that plants the bug before its imports."""
    words = [sys.executable, "-m", "tests.mutants.judged", bug.path, str(bug.number)]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    lines = done.stdout.splitlines()
    return json.loads(lines[0])[2] if lines else f"imports: exit {done.returncode}"


def functions() -> Functions[FunctionType]:
    """Return the functions of this process."""
    gc.unfreeze()
    found: Functions[FunctionType] = defaultdict(list)
    for one in gc.get_objects():
        if isinstance(one, FunctionType):
            code = one.__code__
            found[code.co_filename, code.co_qualname, code.co_firstlineno].append(one)
    gc.freeze()
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def replant(bug: Drawn, functions: Functions[FunctionType]) -> bool:
    """Give the loaded functions of a module their changed code; False if that can't plant it."""
    source, (line, _, start, end, new) = bug.source(), bug.mutation
    file, more = str(SOURCE / bug.path), new.count("\n") - source.count(b"\n", start, end)
    changed = compile(watched(bug.mutation.of(source), os.environ[NOTES]), file, "exec")
    codes: Functions[CodeType] = defaultdict(list)
    for code in _codes(changed):
        first = code.co_firstlineno
        codes[file, code.co_qualname, first - more * (first > line)].append(code)
    planted = False
    for place in codes.keys() & functions.keys():
        for one in functions[place]:
            last = max(at or 0 for _, _, at in one.__code__.co_lines())
            planted |= place[2] <= line <= last
            former = one.__code__
            try:
                (one.__code__,) = codes[place]
                _FORMER.append((one, former))
            except ValueError:  # two functions in one line, or not the same closed variables
                return False
    return planted


def restore() -> None:
    """Give the functions their former code."""
    while _FORMER:
        one, one.__code__ = _FORMER.pop()


def main(path: str = "", number: str = "") -> int:
    """Judge the bugs on the standard input, or plant and judge this bug."""
    known = book()
    asked = [(path, int(number))] if path else json.loads(sys.stdin.read())
    bugs = [Drawn(one, at, mutations(SOURCE / one)[at]) for one, at in asked]
    if path:
        changed = bugs[0].mutation.of(bugs[0].source())
        module = ".".join(Path(path).with_suffix("").parts)
        plant([Edit(module, bugs[0].source().decode(), changed)])
    return collected(Court(known, bugs, bool(path), os.fdopen(os.dup(1), "w")))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
