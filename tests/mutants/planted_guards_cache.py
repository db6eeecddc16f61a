"""Bugs planted into guards with an external cache, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

ELSEWHERE = "holdfast.core.guard.elsewhere"
REFRESH = "holdfast.core.guard.refresh"
MUTEX = "holdfast.caches.mutex"
MEND = "holdfast.cli.guard.mend"
TESTS = "tests/caches/test_elsewhere.py::test_"

GUARDS_CACHE = [
    bug(
        "a fresh value is read from the store though an external cache keeps it",
        f"{TESTS}a_fresh_value_is_one_read_of_the_cache_and_the_store_is_not_asked",
        (REFRESH, "if guard._elsewhere is None else guard._elsewhere", ""),
    ),
    bug(
        "the external cache is written without a check of the refresh lease",
        f"{TESTS}what_is_invalidated_while_it_is_computed_never_gets_into_the_cache",
        (ELSEWHERE, "        if isinstance(ours, Held):\n", "        if True:\n"),
    ),
    bug(
        "a value that the store refused stays in the external cache",
        f"{TESTS}what_is_invalidated_while_it_is_written_is_taken_out_again",
        (ELSEWHERE, "        if not stored:\n", "        if False:\n"),
    ),
    bug(
        "a refused caller removes the value of another caller from the cache",
        f"{TESTS}what_is_taken_out_again_is_only_our_own",
        (
            ELSEWHERE,
            "if found is not None and found.version == finish.fence:",
            "if found is not None:",
        ),
    ),
    bug(
        "callers wait for a value that the cache has lost",
        f"{TESTS}what_the_cache_has_lost_is_computed_by_one",
        (ELSEWHERE, "            wish = wish._replace(known=begun.version)\n", ""),
    ),
    bug(
        "any value in the cache counts as the one that the store has",
        f"{TESTS}what_the_cache_brings_back_from_before_is_not_taken_for_the_present",
        (ELSEWHERE, "found.version == begun.version and ", ""),
    ),
    bug(
        "an invalidation leaves the value in the cache",
        f"{TESTS}an_invalidation_empties_the_cache",
        (
            ELSEWHERE,
            "        for entry in entries:\n            await self._cache.drop",
            "        for entry in entries[:0]:\n            await self._cache.drop",
        ),
    ),
    bug(
        "dogpile's mutex releases its holds in the order of their acquisition",
        "tests/caches/test_dogpile.py"
        "::test_each_releases_its_own_also_when_one_was_lost[who has it]",
        (MUTEX, "key=lambda one: one[0] != here", "key=lambda one: False"),
    ),
    bug(
        "the command line invalidates a value that an external cache keeps",
        "tests/cli/test_guard.py::test_values_in_an_external_cache_are_not_invalidated_by_the_command",
        (MEND, "value is not None and value.data == ELSEWHERE", "False"),
    ),
]
