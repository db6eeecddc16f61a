"""A usual run proves planted bugs that a change is about, and reports how many are left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import change
from tests.change import BASE, base, git
from tests.tidy.tree import ROOT

from . import changed
from .changed import proven
from .failure import MODE, file
from .test_mutants import NAMES
from .test_mutants import NEAR as SIMULATED
from .test_planted import BUGS, NEAR

SRC = ROOT / "src/holdfast"
Commit = Callable[[str], str]


@pytest.fixture(autouse=True)
def usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it a usual run whose selections don't appear in the report."""
    monkeypatch.delenv(MODE, raising=False)
    monkeypatch.setattr(changed, "FULL", False)
    monkeypatch.setattr(changed, "LEFT_OUT", {})


@pytest.fixture
def commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commit:
    """Return a function that commits a new file to a temporary repository in place of ours."""
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", BASE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(change, "ROOT", tmp_path)
    git("init", "-q", "-b", "main")

    def act(name: str) -> str:
        (tmp_path / name).touch()
        git("add", ".")
        git("-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "-m", name)
        return git("rev-parse", "HEAD")[0]

    return act


def test_a_change_is_all_since_what_was_landed_last(
    commit: Commit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given no history, the change is unknown
    assert change.files() is None
    commit("first")
    assert change.files() is None
    # When a landed commit is tested by the build server
    landed = commit("landed")
    git("update-ref", "refs/remotes/origin/main", landed)
    assert change.files() == {tmp_path / "landed"}
    # When there are later commits and uncommitted work
    commit("mine")
    (tmp_path / "new").touch()
    (tmp_path / "landed").write_text("changed")
    assert change.files() == {tmp_path / name for name in ("mine", "new", "landed")}
    # When the environment names the base
    monkeypatch.setenv(BASE, "HEAD")
    assert base() == "HEAD"
    assert change.files() == {tmp_path / name for name in ("new", "landed")}


def test_a_change_is_about_what_is_planted_in_its_files_and_caught_by_its_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def near(*files: Path) -> set[str]:
        monkeypatch.setattr(change, "files", lambda: {*files})
        return {*proven("planted", BUGS, NEAR, most=1000)}

    # Given a module, a script of one store, a test, a case of the kit, a record
    by = {
        path: near(SRC / path)
        for path in (
            "core/door.py",
            "stores/postgres/schema/line.sql",
            "stores/redis/lua/line.lua",
            "testing/conformance/cases/second_failures.py",
        )
    }
    # Then
    assert all(by.values())
    assert all(len(names) < len(NEAR) / 10 for names in by.values())
    modules = {e.module for n in by["stores/postgres/schema/line.sql"] for e in BUGS[n].edits}
    assert modules == {"holdfast.stores.postgres.ddl"}
    assert near(SRC / "stores/postgres/ddl.py").isdisjoint(by["stores/postgres/schema/line.sql"])
    one = next(iter(BUGS.values()))
    assert one.name in near(ROOT / one.node.partition("::")[0])
    assert near(file("planted", one.name)) == {one.name}
    assert near(ROOT / "README.md") == set()
    # And the bugs that the simulator must catch are near the simulator
    monkeypatch.setattr(change, "files", lambda: {SRC / "testing/simulator/server.py"})
    assert len(proven("simulated", NAMES, SIMULATED, most=1000)) == len(NAMES)


def test_a_usual_run_proves_a_limited_number_of_bugs_and_reports_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given an unknown change
    monkeypatch.setattr(change, "files", lambda: None)
    usual = [*NEAR]
    # When
    names = proven("planted", BUGS, NEAR, most=10)
    # Then it proves some of all bugs
    assert names == proven("planted", BUGS, NEAR, most=10)
    assert len({*names}) == 10
    assert names[0] == usual[0]
    assert names[-1] in usual[-len(usual) // 10 :]
    said = f"10 of {len(BUGS)} planted bugs are proven: the changes are unknown"
    assert changed.LEFT_OUT["planted"].startswith(said)
    # And it proves all bugs in a full run
    monkeypatch.setattr(changed, "FULL", True)
    assert proven("planted", BUGS, NEAR, most=10) == [*BUGS]
