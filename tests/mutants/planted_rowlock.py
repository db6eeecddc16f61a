"""Bugs planted into the row lock, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

MYSQL = "holdfast.sql.mysql"
POSTGRES = "holdfast.sql.postgres"
TAKE = "holdfast.sql.take"
LOCK = "tests/sql/test_row_lock.py"
POOLER = "tests/sql/test_pooler.py"
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
        "the side connection of a thread waits for a pooler session without a limit",
        f"{POOLER}::test_new_names_in_all_transactions_of_a_small_pool_are_refused_in_time",
        (
            "holdfast.sql.blocking.beside",
            "end = None if limit is None else boottime() + limit",
            "end = None",
        ),
    ),
    bug(
        "the side connection of a task is cancelled and its reply awaited",
        f"{POOLER}::test_tasks_are_refused_in_time_too",
        (
            "holdfast.sql.aio.beside",
            "answer = await work(teller)",
            "answer = await asyncio.wait_for(work(teller), limit)",
        ),
        (
            "holdfast.sql.aio.beside",
            "alarm = None if end is None else later(loop, end - boottime(), bound.cut)",
            "alarm = None",
        ),
    ),
    bug(
        "the value of a plain read isn't compared with the locked value",
        f"{STALE}[mariadb-REPEATABLE READ]",
        (
            MYSQL,
            "if plain != held and not (plain is None and held < 0):",
            "if plain == -held:",
        ),
    ),
    bug(
        "the row is locked but not changed",
        f"{STALE}[postgres-REPEATABLE READ]",
        (
            POSTGRES,
            RAISED,
            READ,
        ),
    ),
    bug(
        "the row of a new name is made in the caller's transaction",
        f"{LOCK}::test_a_try_does_not_wait_for_the_first_user_of_a_name[postgres]",
        (
            TAKE,
            "made = await beside.do(lambda other: ensure(dialect, other, row), _limit(end, now))",
            "made = await ensure(dialect, teller, row)",
        ),
    ),
    bug(
        "a row in use is skipped, and the gap behind it is locked",
        f"{LOCK}::test_a_miss_locks_nothing_else[mariadb-REPEATABLE READ]",
        (MYSQL, '_TRY = f"{_LOCK} NOWAIT"', '_TRY = f"{_LOCK} SKIP LOCKED"'),
    ),
    bug(
        "the fences of a name start again with its row",
        f"{LOCK}::test_fences_rise_even_if_the_row_was_removed_in_between[mariadb]",
        (MYSQL, "VALUES (<kind>, <key>, -{clock},", "VALUES (<kind>, <key>, -1,"),
    ),
    bug(
        "a claim waits again in a transaction that a deadlock has ended",
        f"{LOCK}::test_a_deadlock_is_raised_and_not_retried[mariadb]",
        (MYSQL, "_BUSY = (_LOCK_TIMEOUT, 3572)", "_BUSY = (_LOCK_TIMEOUT, 3572, 1213)"),
    ),
    bug(
        "the purge doesn't check a row again after it has locked it",
        f"{PURGE}::test_a_name_that_is_used_while_the_purge_looks_at_it_stays",
        (
            MYSQL,
            "WHERE r.used <= <cutoff> FOR UPDATE SKIP LOCKED",
            "WHERE 1 = 1 FOR UPDATE SKIP LOCKED",
        ),
    ),
    bug(
        "the purge waits for a name in use",
        f"{PURGE}::test_only_what_is_old_and_not_in_use_is_removed[mariadb]",
        (MYSQL, "r.used <= <cutoff> FOR UPDATE SKIP LOCKED", "r.used <= <cutoff> FOR UPDATE"),
    ),
]
