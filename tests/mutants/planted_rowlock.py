"""Bugs planted into the row lock, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

MYSQL = "holdfast.sql.mysql"
POSTGRES = "holdfast.sql.postgres"
TAKE = "holdfast.sql.take"
LOCK = "tests/sql/test_row_lock.py"
PURGE = "tests/sql/test_purge.py"
STALE = (
    "tests/sql/test_snapshots.py::test_what_was_read_before_the_last_holder_committed_is_noticed"
)
RAISED = """
UPDATE {table} AS r SET fence = ABS(r.fence) + 1, used = clock_timestamp()
FROM mine WHERE r.kind = mine.kind AND r.name = mine.name
RETURNING r.fence"""
READ = """
SELECT ABS(r.fence) FROM {table} AS r, mine WHERE r.kind = mine.kind AND r.name = mine.name"""

ROWLOCK = [
    bug(
        "what a plain read shows isn't compared with what is locked",
        f"{STALE}[mariadb-REPEATABLE READ]",
        (
            MYSQL,
            "if plain != held and not (plain is None and held < 0):",
            "if plain == -held:",
        ),
    ),
    bug(
        "the row is locked, and not changed",
        f"{STALE}[postgres-REPEATABLE READ]",
        (
            POSTGRES,
            RAISED,
            READ,
        ),
    ),
    bug(
        "the row of a new name is made in the caller's transaction",
        f"{LOCK}::test_a_try_does_not_wait_for_who_uses_the_name_first[postgres]",
        (
            TAKE,
            "made = await beside.do(lambda other: ensure(dialect, other, row))",
            "made = await ensure(dialect, teller, row)",
        ),
    ),
    bug(
        "a row in use is skipped, and the gap behind it is locked",
        f"{LOCK}::test_a_miss_locks_nothing_else[mariadb-REPEATABLE READ]",
        (MYSQL, '_TRY = f"{_LOCK} NOWAIT"', '_TRY = f"{_LOCK} SKIP LOCKED"'),
    ),
    bug(
        "the fences of a name begin anew with its row",
        f"{LOCK}::test_fences_rise_even_if_the_row_was_removed_in_between[mariadb]",
        (MYSQL, "VALUES (<kind>, <key>, -{clock},", "VALUES (<kind>, <key>, -1,"),
    ),
    bug(
        "after a deadlock it waits again in the transaction that is gone",
        f"{LOCK}::test_a_deadlock_is_told_and_not_repeated[mariadb]",
        (MYSQL, "_BUSY = (_LOCK_TIMEOUT, 3572)", "_BUSY = (_LOCK_TIMEOUT, 3572, 1213)"),
    ),
    bug(
        "the purge doesn't look at a row again that it has locked",
        f"{PURGE}::test_a_name_that_is_used_while_the_purge_looks_at_it_stays",
        (
            MYSQL,
            "AND name IN ({only}) AND used <= <cutoff> FOR UPDATE",
            "AND name IN ({only}) FOR UPDATE",
        ),
    ),
    bug(
        "the purge waits for a name in use",
        f"{PURGE}::test_only_what_is_old_and_not_in_use_is_removed[mariadb]",
        (MYSQL, "AND used <= <cutoff> FOR UPDATE SKIP LOCKED", "AND used <= <cutoff> FOR UPDATE"),
    ),
]
