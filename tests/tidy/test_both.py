"""``./dev test`` runs in two processes, and some tests before: together, every test once."""

from __future__ import annotations

from tests.both import ALONE, BESIDE, TESTS, commands


def test_each_test_is_run_by_one_of_the_processes() -> None:
    alone, first, second = commands()
    ignored = {word.removeprefix("--ignore=") for word in first if word.startswith("--ignore=")}
    given = [word for word in alone + second if word.startswith(str(TESTS))]
    assert sorted(ignored) == sorted(given)
    assert len(given) == len(ALONE) + len(BESIDE)
    assert all((TESTS / file).is_file() for file in ALONE)
    assert all((TESTS / folder).is_dir() for folder in BESIDE)
    assert not any(file.startswith(f"{folder}/") for file in ALONE for folder in BESIDE)
