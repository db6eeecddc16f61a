"""The judge of bugs made by rule knows which tests execute a bug, and plants it in loaded code."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import drawn, executed, judged
from .drawn import Drawn
from .executed import Recorder, statement
from .failure import NOTES
from .operators import mutations

MODULE = """
def outer(least, most):
    def inner(value):
        return (
            value > least
            and value < most
        )

    return inner


kept = outer(1, 9)


def doubled(value):
    return value + value
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a loaded module, and of no other test."""
    file = tmp_path / "some_module.py"
    file.write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    for one in (drawn, executed, judged):
        monkeypatch.setattr(one, "SOURCE", tmp_path)
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    importlib.import_module(file.stem)
    yield file
    del sys.modules[file.stem]


def bug(file: Path, what: str) -> Drawn:
    every = mutations(file.read_bytes())
    (found,) = [one for one in every if what in one.what]
    return Drawn(file.name, every.index(found), found)


def test_a_bug_is_executed_with_any_line_of_its_statement(module: Path) -> None:
    source = module.read_bytes()
    assert statement(source, bug(module, "value < most' becomes 'value <=").mutation) == {
        *range(4, 8)
    }


def test_the_lines_of_all_threads_are_recorded(module: Path) -> None:
    recorder = Recorder([module])
    former = sys.gettrace()
    try:
        recorder.begin()
        thread = threading.Thread(target=sys.modules[module.stem].doubled, args=[1])
        thread.start()
        thread.join()
        found = recorder.end()
    finally:
        sys.settrace(former)
    assert found == {module.name: [16]}


def test_a_test_that_forks_can_execute_everything(module: Path) -> None:
    recorder = Recorder([module])
    recorder.begin()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert recorder.end() is None


def test_a_bug_is_planted_in_functions_that_are_in_use(module: Path) -> None:
    loaded = sys.modules[module.stem]
    kept, doubled = loaded.kept, loaded.doubled
    assert not kept(9)
    assert judged.replant(bug(module, "value < most' becomes 'value <="), judged.functions())
    assert kept(9)
    assert judged.replant(bug(module, "value + value"), judged.functions())
    assert doubled(3) == 0
    judged.restore()
    assert (kept(9), doubled(3)) == (False, 6)


def test_a_bug_that_closes_over_other_variables_is_planted_by_an_import(module: Path) -> None:
    assert not judged.replant(bug(module, "becomes '((value > least))'"), judged.functions())
