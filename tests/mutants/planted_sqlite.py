"""Bugs around the files of the embedded store, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

WAY = "holdfast.stores.sqlite.blocking.way"
MENDING = "holdfast.stores.sqlite.blocking.queues.mending"
FOREIGN = "holdfast.stores.sqlite.blocking.foreign"
TESTS = "tests/stores/sqlite"

SQLITE = [
    bug(
        "verbs of the embedded store run without locking the file mutex",
        f"{TESTS}/test_only_inside.py::test_no_commit_or_checkpoint_happens_outside_the_file_mutex",
        (
            WAY,
            "flock(files.gate.held, TRY)  # A second time",
            "flock(files.gate.held, LOCK_UN)  # A second time",
        ),
    ),
    bug(
        "doctor overlooks programs that bypass the file mutex",
        f"{TESTS}/test_foreign.py"
        "::test_a_program_that_can_write_without_the_file_mutex_is_named[locks.db-queues]",
        (FOREIGN, "writes |= bool(may_write)", "writes |= not may_write"),
    ),
    bug(
        "doctor relies on SQLite's own check of the queues",
        f"{TESTS}/test_books.py::test_a_take_names_the_damage_and_its_repair_and_works_afterwards",
        (MENDING, 'return books.broken(old) if verdict == "ok"', 'return [] if verdict == "ok"'),
    ),
    bug(
        "a repair of the queues forgets the deliveries",
        f"{TESTS}/test_books.py::test_a_take_names_the_damage_and_its_repair_and_works_afterwards",
        (
            "holdfast.stores.sqlite.blocking.queues.books",
            'NUMBERED = ("queues", "groups", "jobs", "loans")',
            'NUMBERED = ("queues", "groups", "jobs")',
        ),
    ),
    bug(
        "a committed verb of a queue is repeated if the file mutex was deleted",
        f"{TESTS}/test_gate_deleted.py"
        "::test_a_commit_while_the_file_mutex_was_deleted_is_reported[ack]",
        (
            "holdfast.stores.sqlite.blocking.queues.engine",
            "        if files.replaced():\n",
            "        if files.moved():\n",
        ),
    ),
    bug(
        "a release doesn't search the files that replaced deleted files",
        f"{TESTS}/test_gate_deleted.py"
        "::test_a_claim_in_the_files_that_took_their_place_is_found[alone]",
        (
            "holdfast.stores.sqlite.blocking.engine",
            "        if not there and files.gate.moved():",
            "        if not there and not files:",
        ),
    ),
]
