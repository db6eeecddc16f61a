"""The house rules for a single file, each a function from a file to its offences.

An offence is a line of text that names the place, the offence and the remedy. `test_rules.py`
applies every rule to every file that it concerns, and to a planted offence that it must find.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tests.tidy.tree import Import, imports

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60

#: Modules that use a clock, a source of chance, another thread or anything outside the process.
# fmt: off
WORLDLY = frozenset({
    "asyncio", "concurrent", "ctypes", "datetime", "fcntl", "io", "mmap", "multiprocessing",
    "os", "pathlib", "queue", "random", "secrets", "select", "selectors", "shutil", "signal",
    "socket", "sqlite3", "subprocess", "tempfile", "threading", "time", "uuid",
})
# fmt: on
#: Modules that only the rooms named `blocking` and `aio` can import: they block, or need a loop.
ROOMS = {
    "asyncio": "aio",
    **dict.fromkeys(
        ("fcntl", "mmap", "select", "selectors", "socket", "sqlite3", "threading", "time"),
        "blocking or aio",
    ),
    **dict.fromkeys(("hiredis", "redis"), "blocking or aio"),
    **dict.fromkeys(("asyncmy", "pymysql"), "blocking or aio"),
    "kazoo": "blocking or aio",
}
#: Packages outside the core's discipline, with the reason why.
FREE = {
    "cli": "a separate program, which serves one user and may block",
    "testing": "drives threads and asyncio, and the clock, on purpose",
}
#: Single exemptions from the rule of the rooms: path -> the allowed modules, and the reason.
EXCUSED: dict[str, tuple[frozenset[str], str]] = {}

#: Functions of `time` that return a time, which freezegun and time-machine patch in a test.
CLOCKS = frozenset(
    name + ending
    for name in ("time", "monotonic", "perf_counter", "clock_gettime")
    for ending in ("", "_ns")
)
#: The file that calls them for all others.
CLOCK_ROOM = "src/holdfast/runtime/blocking.py"
#: Timers of an event loop, whose clock freezegun patches; and the file that sets a client's timers.
TIMERS = frozenset({"call_later", "call_at", "wait_for", "timeout", "timeout_at", "sleep"})
TIMER_ROOM = "src/holdfast/runtime/timers/aio.py"

UNSAFE_MODULES = frozenset({"pickle", "cPickle", "marshal", "shelve", "dill"})
UNSAFE_CALLS = frozenset({"eval", "exec"})

# Written with a class of one character, so that this file does not offend against itself.
UNFINISHED = re.compile(r"\b(TOD[O]|FIXM[E]|XX[X])\b")
NOT_OURS = re.compile(
    r"/w[o]rk/|/r[o]ot/|/tmp/(?:v0|plan)\b|/opt/wh[e]els"
    r"|py[p]i\.org|python[h]osted|npm[j]s|deb\.debian\.o[r]g|find-l[i]nks|index-u[r]l"
    r"|\bissues? #?[0-9]"
)


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def size(text: str) -> Iterator[str]:
    """No file is too long to be read to the end."""
    lines = text.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"1: {lines} lines, at most {FILE_LINES_MAX}: which second idea wants its own file?"


def functions_of(module: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return every function of a module, at any depth."""
    return [node for node in ast.walk(module) if isinstance(node, FUNCTIONS)]


def functions(found: Iterable[ast.FunctionDef | ast.AsyncFunctionDef]) -> Iterator[str]:
    """No function is longer than a screen; its docstring doesn't count."""
    for node in found:
        lines = (node.end_lineno or node.lineno) - node.lineno + 1 - _docstring_lines(node)
        if lines > FUNCTION_LINES_MAX:
            yield f"{node.lineno}: {node.name} has {lines} lines, at most {FUNCTION_LINES_MAX}"


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    if ast.get_docstring(node) is None:
        return 0
    return (first.end_lineno or first.lineno) - first.lineno + 1


def pure(imported: Iterable[Import]) -> Iterator[str]:
    """The core and every `store.py` reach the outside only through ports."""
    for line, name in imported:
        if name.split(".")[0] in WORLDLY:
            yield f"{line}: imports {name}; what it gives must come through a port"


def room(imported: Iterable[Import], path: str) -> Iterator[str]:
    """Blocking code is in `blocking`, code for an event loop is in `aio`."""
    parts = path.removesuffix(".py").split("/")
    excused, _ = EXCUSED.get(path, (frozenset(), ""))
    for line, name in imported:
        top = name.split(".")[0]
        if top in ROOMS and top not in excused and not set(ROOMS[top].split()) & set(parts):
            yield f"{line}: imports {name}; only rooms named {ROOMS[top]} may"


def one_clock(module: ast.Module) -> Iterator[str]:
    """Code that measures time uses the one clock that a test can't freeze.

    A hold that a frozen clock keeps alive can have two holders, and a wait by a frozen clock never
    ends.
    """
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = {f"{node.value.id}.{node.attr}"}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
        else:
            continue
        for name in names & {f"time.{clock}" for clock in CLOCKS}:
            yield f"{node.lineno}: uses {name}; take boottime or walltime of runtime.blocking"


def real_timers(module: ast.Module) -> Iterator[str]:
    """A client in an event loop uses timers of real time."""
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and node.attr in TIMERS:
            of = ast.unparse(node.value)
            if of == "asyncio" or node.attr in ("call_later", "call_at"):
                yield f"{node.lineno}: uses {of}.{node.attr}; take what runtime.timers has"


def safe(module: ast.Module) -> Iterator[str]:
    """No code turns data into code, and no function is left to be written."""
    for line, name in imports(module):
        if name.split(".")[0] in UNSAFE_MODULES:
            yield f"{line}: imports {name}, which runs what it reads"
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _called(node) in UNSAFE_CALLS:
            yield f"{node.lineno}: calls {_called(node)}"
        if isinstance(node, ast.Attribute) and node.attr == "load" and _is_yaml(node.value):
            yield f"{node.lineno}: calls yaml.load, which runs what it reads"
        if isinstance(node, ast.Raise) and node.exc and "NotImplementedError" in _raised(node.exc):
            yield f"{node.lineno}: raises NotImplementedError; NotSupported has the reason"


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _is_yaml(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "yaml"


def _raised(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def finished(text: str) -> Iterator[str]:
    """Missing work is recorded in the list of issues, not in the text."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := UNFINISHED.search(line):
            yield f"{number}: contains {found[0]}; do it, or leave the note out"


def ours(text: str) -> Iterator[str]:
    """No text depends on one machine, or refers to the place where it was written."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := NOT_OURS.search(line):
            yield f"{number}: contains {found[0]!r}, which means nothing to a reader elsewhere"
