"""Every file keeps the house rules, and every rule finds a planted offence."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.tidy import rules
from tests.tidy.covered import DIALECTS, STORES, enough
from tests.tidy.tree import ROOT, SRC, Import, files, imports_of, relative, tree
from tests.tidy.tree import imports as tree_imports

PYTHON = files(".py")
SOURCES = [p for p in PYTHON if SRC in p.parents]
TEXTS = files(".py", ".md", ".toml", ".sh", ".sql", ".txt", "")


def keep(what: str, paths: Sequence[Path], rule: Callable[[Path], Iterator[str]]) -> None:
    """Fail with every offence of these files against the rule, or if they are too few."""
    enough(what, paths)
    found = [f"{relative(path)}:{offence}" for path in paths for offence in rule(path)]
    assert not found, "\n".join(["", *found])


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def is_pure(path: Path) -> bool:
    """Return whether this is a file of the core, or the `store.py` of a store."""
    return path.name == "store.py" or SRC / "core" in path.parents


def has_rooms(path: Path) -> bool:
    return path.relative_to(SRC).parts[0].removesuffix(".py") not in rules.FREE


def test_the_walk_sees_the_project() -> None:
    assert len(SOURCES) > 20
    assert ROOT / "dev" in TEXTS
    assert ROOT / ".ci" / "run" in TEXTS
    assert ROOT / "pyproject.toml" in TEXTS


def test_no_file_is_over_400_lines() -> None:
    keep("files of at most 400 lines", [*PYTHON, ROOT / "dev"], lambda p: rules.size(text(p)))


def test_no_function_is_over_60_lines() -> None:
    seen = 0

    def rule(path: Path) -> Iterator[str]:
        nonlocal seen
        found = rules.functions_of(tree(path))
        seen += len(found)
        yield from rules.functions(found)

    keep("files of at most 400 lines", PYTHON, rule)
    enough("functions of at most 60 lines", seen)


def test_the_core_and_every_store_reach_the_outside_through_ports() -> None:
    paths = [p for p in SOURCES if is_pure(p)]
    homes = SRC / "stores", SRC / "dialects"
    stores = {p.parent.name for p in paths if p.parent.parent in homes and p.name == "store.py"}
    assert stores == STORES | DIALECTS
    assert [p for p in paths if p.parent == SRC / "core"]
    keep("pure files", paths, lambda p: rules.pure(imports_of(p)))
    enough("imports of pure files", [one for p in paths for one in imports_of(p)])


def test_blocking_code_and_loop_code_are_in_their_own_rooms() -> None:
    paths = [p for p in SOURCES if has_rooms(p) and not is_pure(p)]
    keep("files with rooms", paths, lambda p: rules.room(imports_of(p), relative(p)))
    enough("imports of files with rooms", [one for p in paths for one in imports_of(p)])


def test_every_excuse_is_still_needed() -> None:
    for path, (excused, _) in rules.EXCUSED.items():
        used = {name.split(".")[0] for _, name in imports_of(ROOT / path)}
        assert excused <= used, f"{path} no longer imports {excused - used}"


def test_all_times_come_from_one_clock() -> None:
    paths = [p for p in SOURCES if relative(p) != rules.CLOCK_ROOM]
    keep("one clock", paths, lambda p: rules.one_clock(tree(p)))
    assert list(rules.one_clock(tree(ROOT / rules.CLOCK_ROOM)))


def test_a_client_waits_in_a_loop_by_real_time() -> None:
    paths = [p for p in SOURCES if has_rooms(p) and relative(p) != rules.TIMER_ROOM]
    keep("real timers", paths, lambda p: rules.real_timers(tree(p)))
    assert list(rules.real_timers(tree(ROOT / rules.TIMER_ROOM)))


def test_nothing_turns_data_into_code_or_is_left_unwritten() -> None:
    keep("nothing turns data into code", SOURCES, lambda p: rules.safe(tree(p)))


def test_nothing_is_left_to_be_done_later() -> None:
    keep("nothing is left to be done", TEXTS, lambda p: rules.finished(text(p)))


def test_no_file_mentions_the_place_where_it_was_written() -> None:
    keep("nothing names its place", TEXTS, lambda p: rules.ours(text(p)))


def imports(text: str) -> list[Import]:
    return list(tree_imports(ast.parse(text)))


def long_functions(text: str) -> Iterator[str]:
    return rules.functions(rules.functions_of(ast.parse(text)))


PLANTED = {
    "a long file": lambda: rules.size("\n" * 401),
    "a long function": lambda: long_functions("def f():\n" + "    x = 1\n" * 60),
    "a clock in the core": lambda: rules.pure(imports("import time")),
    "chance in the core": lambda: rules.pure(imports("def f():\n    from random import random")),
    "a loop outside aio": lambda: rules.room(imports("import asyncio"), "src/x/blocking.py"),
    "a driver outside its room": lambda: rules.room(imports("import sqlite3"), "src/x/store.py"),
    "an installed driver": lambda: rules.room(imports("import redis"), "src/x/config.py"),
    "a driver's part": lambda: rules.room(imports("import sqlite3.dbapi2"), "src/x/y.py"),
    "a separate clock": lambda: rules.one_clock(ast.parse("now = time.monotonic()")),
    "an imported clock": lambda: rules.one_clock(ast.parse("from time import sleep, time_ns")),
    "a timer of the loop": lambda: rules.real_timers(ast.parse("self._loop.call_later(1, f)")),
    "a time-out of asyncio": lambda: rules.real_timers(ast.parse("asyncio.timeout(1)")),
    "pickle": lambda: rules.safe(ast.parse("from pickle import loads")),
    "eval": lambda: rules.safe(ast.parse("eval('1')")),
    "yaml": lambda: rules.safe(ast.parse("yaml.load(x)")),
    "a stub": lambda: rules.safe(ast.parse("raise NotImplementedError('later')")),
    "a bare stub": lambda: rules.safe(ast.parse("raise NotImplementedError")),
    "a note to self": lambda: rules.finished("# {}DO: think".format("TO")),
    "a path of ours": lambda: rules.ours("see /{}ork/shared".format("w")),
    "an issue's number": lambda: rules.ours("as in {} 3".format("issue")),
}
INNOCENT = {
    "a docstring doesn't count": lambda: long_functions(
        'def f():\n    """\n' + "    x\n" * 60 + '    """\n    return 1'
    ),
    "the blocking room": lambda: rules.room(imports("import time"), "src/x/blocking.py"),
    "a package as room": lambda: rules.room(imports("import fcntl"), "src/x/blocking/gate.py"),
    "the loop's room": lambda: rules.room(imports("import asyncio, time"), "src/x/aio.py"),
    "sleeping": lambda: rules.one_clock(ast.parse("time.sleep(1)\nself.clock.time()")),
    "another sleep": lambda: rules.real_timers(ast.parse("await runtime.sleep(1)")),
    "evaluating by method": lambda: rules.safe(ast.parse("cursor.exec('x')")),
    "our own error": lambda: rules.safe(ast.parse("raise NotSupported('no')")),
}


@pytest.mark.parametrize("offence", PLANTED.values(), ids=PLANTED)
def test_a_planted_offence_is_found(offence: Callable[[], Iterator[str]]) -> None:
    assert len(list(offence())) == 1


@pytest.mark.parametrize("text", INNOCENT.values(), ids=INNOCENT)
def test_what_is_allowed_is_left_alone(text: Callable[[], Iterator[str]]) -> None:
    assert list(text()) == []
