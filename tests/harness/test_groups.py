"""``./dev test`` runs the tests in groups, a process each: together, every test once."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import groups
from tests.groups import ALONE, GROUPS, QUICK, TESTS, Group, command, summed
from tests.tidy.covered import enough
from tests.tidy.tree import ROOT


def run_by(file: str, everything: Sequence[Group]) -> list[Group]:
    """The groups whose command gives this file to pytest."""
    path, found = TESTS / file, []
    for group in everything:
        words = command(group, everything)
        ways = [str(one) for one in (path, *path.parents)]
        if set(ways) & set(words) and not {f"--ignore={way}" for way in ways} & set(words):
            found.append(group)
    return found


def test_each_test_is_run_by_one_process() -> None:
    everything = [ALONE, *groups.groups()]
    enough("files of tests", groups.tests())
    for file in groups.tests():
        by = run_by(file, everything)
        if len(by) == 2:  # each a part of it
            one, other = sorted((group.only for group in by), key=len)
            assert other == f"not ({one})", file
        else:
            assert [group.only for group in by] == [""], file


def test_a_group_names_what_there_is_and_has_a_name_of_its_own() -> None:
    everything = [ALONE, *groups.groups()]
    assert all((TESTS / path).exists() for group in (*everything, *QUICK) for path in group.paths)
    names = [group.name for group in everything]
    assert len(set(names)) == len(names)
    assert all((TESTS / path).is_file() for path in ALONE.paths)


def test_a_folder_that_no_group_names_is_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given: more files than there are
    files = ["stores/new/deep/test_b.py", "stores/new/test_a.py", "sql/test_c.py", "test_d.py"]
    monkeypatch.setattr(groups, "tests", lambda: [*files, "core/test_url.py"])
    # When
    last = groups.groups()[len(GROUPS) :]
    # Then
    assert [group.paths for group in last] == [("sql",), ("stores/new",), ("test_d.py",)]
    assert [len(run_by(file, [ALONE, *groups.groups()])) for file in files] == [1, 1, 1, 1]


def test_the_quick_tests_need_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    # When a quick run is asked for
    ran: list[Group] = []

    def run(chosen: Sequence[Group], everything: Sequence[Group], at_once: int) -> list[Any]:
        ran.extend(chosen)
        return [(0, "1 passed in 1.00s")] * len(chosen)

    monkeypatch.setattr(groups, "run", run)
    assert groups.main("quick") == 0
    # Then
    assert ran == [*QUICK]
    quick = [file for file in groups.tests() if run_by(file, QUICK)]
    assert len(quick) > 60
    servers = r"\b(new|shared)_(redis|postgres|mariadb|zookeeper)\b|\b(postgres|mariadb)_url\b"
    wanting = [one for one in quick if re.search(servers, (TESTS / one).read_text("utf-8"))]
    assert wanting == []


def test_a_part_of_a_folder_may_be_another_groups() -> None:
    outer, inner = Group("outer", ("a", "b")), Group("inner", ("a/b", "a/test_c.py"))
    assert [word for word in command(outer, [outer, inner]) if "ignore" in word] == [
        f"--ignore={TESTS / 'a/b'}",
        f"--ignore={TESTS / 'a/test_c.py'}",
    ]
    assert not [word for word in command(inner, [outer, inner]) if "ignore" in word]


def test_the_last_line_is_the_sum() -> None:
    lines = [
        "===== 1 failed, 3 passed, 1 skipped in 2.00s =====",
        "==== 14 passed, 2 errors in 61.20s (0:01:01) ====",
        "no tests ran in 0.12s",
    ]
    assert summed(lines, 63.2) == "1 failed, 17 passed, 1 skipped, 2 errors in 63.20s"


RUN = """
import sys
from pathlib import Path
from tests import groups

groups.TESTS = Path(sys.argv[1])
groups.ALONE = groups.Group("alone", ("test_alone.py",))
groups.GROUPS = (groups.Group("one", ("one",)), groups.Group("other", ("one/test_inner.py",)))
sys.exit(groups.main(*sys.argv[2:]))
"""


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A folder with a test in each of three groups; one fails."""
    (tmp_path / "one").mkdir()
    passes, fails = "def test_it():\n    assert True\n", "def test_it():\n    assert not 'wrong'\n"
    (tmp_path / "test_alone.py").write_text(passes)
    (tmp_path / "one" / "test_outer.py").write_text(passes)
    (tmp_path / "one" / "test_inner.py").write_text(fails)
    return tmp_path


def play(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    """Run those groups, in a process that has no other children."""
    return subprocess.run(
        [sys.executable, "-c", RUN, str(folder), *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_what_fails_in_one_group_fails_the_whole_and_is_shown(few: Path) -> None:
    done = play(few)

    assert done.returncode == 1
    assert "assert not 'wrong'" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("2 passed, 1 failed in ")
    assert "other FAILED (1) in " in done.stderr


def test_some_groups_can_be_chosen(few: Path) -> None:
    done = play(few, "alone", "one")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("2 passed in ")
    assert play(few, "noone").returncode == 64


def test_what_a_thread_says_after_pytest_hides_no_sum() -> None:
    said = "1 failed, in a log\n=== 1 failed, 3 passed in 2.00s (0:00:02) ===\nDropped\n"
    assert groups.last_line(said) == "=== 1 failed, 3 passed in 2.00s (0:00:02) ==="
    assert groups.last_line("Traceback\n") == ""
