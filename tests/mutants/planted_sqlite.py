"""Bugs around the files of the embedded store, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

WAY = "holdfast.stores.sqlite.blocking.way"
TESTS = "tests/stores/sqlite"

SQLITE = [
    bug(
        "verbs pass the gate of the embedded store without locking it",
        f"{TESTS}/test_only_inside.py::test_nobody_commits_or_checkpoints_outside_the_gate",
        (
            WAY,
            "flock(files.gate.held, TRY)  # A second time",
            "flock(files.gate.held, LOCK_UN)  # A second time",
        ),
    ),
]
