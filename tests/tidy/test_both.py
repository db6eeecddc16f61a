"""``./dev test`` runs in two processes: between them they run every test once."""

from __future__ import annotations

from tests.both import BESIDE, TESTS, commands


def test_each_folder_of_tests_is_in_one_of_the_two_processes() -> None:
    first, second = commands()
    ignored = {word.removeprefix("--ignore=") for word in first if word.startswith("--ignore=")}
    given = {word for word in second if word.startswith(str(TESTS))}
    assert ignored == given == {str(TESTS / folder) for folder in BESIDE}
    assert all((TESTS / folder).is_dir() for folder in BESIDE)
