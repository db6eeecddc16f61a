"""A proof accepts the failure that a bug was planted for, and no other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance import test_differential, test_kit
from tests.fenced import test_power
from tests.interop import test_planted as interop
from tests.tidy.tree import ROOT
from tests.torture import test_queues
from tests.torture.scale import times

from . import failure, hunt, test_planted
from .failure import Failure, broken, judge, noted, watched
from .simulated import MUTANTS

#: The names of all planted bugs, by the folder of their records.
TABLES = {
    test_planted.TABLE: [*test_planted.BUGS],
    hunt.TABLE: [one.name for one in MUTANTS],
    test_kit.TABLE: [*test_kit.EACH],
    test_differential.TABLE: [*test_differential.FAULTS],
    test_power.TABLE: [*test_power.BUGS],
    test_queues.TABLE: [*test_queues.BUGS],
    interop.TABLE: [*interop.BUGS],
}
#: Bugs whose replaced text is a whole statement, so a call can replace it.
STATEMENTS = [
    "an extension keeps the renewal pauses of the former length",
    "the fence in a token is trusted",
    "several values are not computed while the store is away",
    "a delivery whose ack is unknown is no longer renewed",
]
#: Broken code fails in one of the first histories; the hunt would run all others without need.
HISTORIES = times(hunt.HISTORIES, 100)
UNKNOWN = """
import sys
from tests.mutants import {module} as room
from tests.mutants.plant import unknown
table = room.{table}
where = [one.name for one in table].index({name!r})
table[where] = table[where]._replace(edits=unknown(table[where].edits))
"""


def _run(module: str, table: str, name: str, then: str) -> subprocess.CompletedProcess[str]:
    script = UNKNOWN.format(module=module, table=table, name=name) + then
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=110, cwd=ROOT
    )


@pytest.mark.usual(1)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_bug_that_is_a_call_of_an_unknown_name_is_not_caught(name: str) -> None:
    # Given a planted bug whose new text is a call of an unknown name
    done = _run("prove", "PLANTED", name, f"sys.exit(room.main({name!r}))")
    # When its test fails
    assert done.returncode == test_planted.FAILED, done.stdout + done.stderr
    told = eval(done.stdout.splitlines()[-1])
    # Then the proof is refused, though the test can fail in the same line
    with pytest.raises(AssertionError, match=r"can't run .*NameError"):
        judge(test_planted.TABLE, name, found=told["failure"], wrong=told["broken"])


@pytest.mark.parametrize("name", ["an acquire that times out stays in the line"])
def test_the_simulator_does_not_catch_an_unknown_name_either(name: str) -> None:
    number = [one.name for one in MUTANTS].index(name)
    done = _run(
        "hunt",
        "MUTANTS",
        name,
        f"room.HISTORIES = {HISTORIES}; print(*room.told({number}), sep='\\n')",
    )
    assert done.returncode == 0, done.stderr
    found, _, wrong = done.stdout.splitlines()
    assert found
    with pytest.raises(AssertionError, match=r"can't run .*NameError"):
        judge(hunt.TABLE, name, found, wrong)


@pytest.mark.parametrize("table", TABLES)
def test_the_failure_of_each_planted_bug_is_recorded(table: str) -> None:
    missing = [name for name in TABLES[table] if not failure.recorded(table, name)]
    assert not missing, "run: python -m tests.mutants.record"


def test_no_record_is_left_of_a_bug_that_is_gone() -> None:
    assert failure.orphans(TABLES) == []


# -- the parts -------------------------------------------------------------------------------


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of records."""
    monkeypatch.setattr(failure, "RECORDS", tmp_path)
    monkeypatch.delenv(failure.MODE, raising=False)
    return tmp_path


@pytest.mark.usefixtures("records")
def test_a_bug_without_a_record_is_refused_with_what_to_do() -> None:
    with pytest.raises(AssertionError, match=r"python -m tests\.mutants\.record -k 'a bug'"):
        judge("some", "a bug", Failure("AssertionError", "assert held"))


@pytest.mark.usefixtures("records")
def test_another_failure_than_the_recorded_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given
    first, second = Failure("AssertionError", "assert held"), Failure("TimeoutError", "5 s")
    monkeypatch.setenv(failure.MODE, "again")
    judge("some", "a bug", first)
    monkeypatch.delenv(failure.MODE)
    # When, then
    judge("some", "a bug", first)
    with pytest.raises(AssertionError, match="was planted for"):
        judge("some", "a bug", second)
    # When the second failure is added, then both are accepted
    monkeypatch.setenv(failure.MODE, "add")
    judge("some", "a bug", second)
    monkeypatch.delenv(failure.MODE)
    judge("some", "a bug", first)
    judge("some", "a bug", second)


def test_numbers_paths_ids_and_addresses_make_no_difference() -> None:
    one = "still 12.5 s after b5bb9d8014a0f9b1 in /tmp/x-1/y.db at redis://127.0.0.1:8123/0"
    other = "still 3 s after 0123456789abcdef in /tmp/z/y.db at redis://127.0.0.1:9/1"
    assert (
        failure.normalised(one) == failure.normalised(other) == "still N s after N in PATH at URL"
    )


@pytest.mark.parametrize(
    "error",
    [
        NameError("x"),
        UnboundLocalError("x"),
        ImportError("x"),
        SyntaxError("x"),
        AssertionError("the worker failed: Traceback ...\nAttributeError: 'int' has no 'x'"),
        AssertionError("Script attempted to access nonexistent global variable 'x'"),
        ExceptionGroup("several", [ValueError(), NameError("x")]),
    ],
    ids=repr,
)
def test_code_that_can_not_run_is_seen_wherever_it_comes_up(error: Exception) -> None:
    assert broken(error)
    behind = AssertionError("it failed")
    behind.__cause__ = error
    assert broken(behind)


def test_an_ordinary_failure_is_not_taken_for_broken_code() -> None:
    assert broken(AssertionError("assert held is None")) == ""


def test_a_swallowed_name_error_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given planted code that can't run, in a class whose caller swallows all errors
    source = '''
class Keeper:
    async def renew(self):
        """Renew."""
        unknown_name()
    def also(self): return 7
'''
    notes = tmp_path / "notes"
    monkeypatch.setenv(failure.NOTES, str(notes))
    room: dict[str, type] = {}
    exec(compile(watched(source, str(notes)), "planted.py", "exec"), room)
    keeper = room["Keeper"]()
    assert keeper.also() == 7
    assert noted() == ""
    # When
    with pytest.raises(NameError):
        keeper.renew().send(None)
    # Then
    assert noted() == "NameError: name 'unknown_name' is not defined"
    assert keeper.renew.__doc__ == "Renew."
