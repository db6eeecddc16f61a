"""``./dev test`` runs the tests in groups, a process each; together they run every test once."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tests.runner import __main__, groups
from tests.runner.groups import GROUPS, QUICK, TESTS, Group, command
from tests.tidy.covered import enough


def run_by(file: str, everything: Sequence[Group]) -> list[Group]:
    """Return the groups whose command gives this file to pytest."""
    path, found = TESTS / file, []
    for group in everything:
        words = command(group, everything)
        ways = [str(one) for one in (path, *path.parents)]
        if set(ways) & set(words) and not {f"--ignore={way}" for way in ways} & set(words):
            found.append(group)
    return found


def test_each_test_is_run_by_one_process() -> None:
    everything = groups.groups()
    enough("files of tests", groups.tests())
    for file in groups.tests():
        by = run_by(file, everything)
        if len(by) > 1:  # each a part of it
            *parts, other = sorted((group.only for group in by), key=lambda only: "not" in only)
            assert other == f"not ({' or '.join(parts)})", file
        else:
            assert [group.only for group in by] == [""], file


def test_a_group_names_existing_paths_and_has_a_unique_name() -> None:
    everything = groups.groups()
    assert all((TESTS / path).exists() for group in (*everything, *QUICK) for path in group.paths)
    names = [group.name for group in everything]
    assert len(set(names)) == len(names)


def test_a_folder_in_no_group_forms_a_separate_group(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given: more files than exist
    files = ["stores/new/deep/test_b.py", "stores/new/test_a.py", "none/test_c.py", "test_d.py"]
    monkeypatch.setattr(groups, "tests", lambda: [*files, "core/test_url.py"])
    # When
    last = groups.groups()[len(GROUPS) :]
    # Then
    assert [group.paths for group in last] == [("none",), ("stores/new",), ("test_d.py",)]
    assert [len(run_by(file, groups.groups())) for file in files] == [1, 1, 1, 1]


def test_the_quick_tests_need_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    # When a quick run is requested
    ran: list[Group] = []

    def run(chosen: Sequence[Group], *_: object) -> None:
        ran.extend(chosen)

    monkeypatch.setattr(__main__, "run", run)
    __main__.main("quick")
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
