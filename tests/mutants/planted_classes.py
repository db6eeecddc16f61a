"""Bugs that only two failures in a row show, and the test that must catch each.

A test tries all pairs of failures, or draws histories. The authors of the code overlooked some of
these bugs; the others are of the same kind.
"""

from __future__ import annotations

from .bugs import bug
from .planted_queues_redis import lua

TAKING = "holdfast.core.queue.taking"
LEASE = "holdfast.core.queue.lease"
QUEUES = "tests/sim/test_queues.py::test_histories_in_a_row_violate_nothing"
TWICE = "tests/sim/test_twice.py::test_no_two_failures_that_follow_each_other_break_a_promise"

KIT = "tests/conformance/test_conformance.py::test_conforms[memory-sync-"
LOCK = f"{KIT}lock-two_failures_in_a_row_leave_one_holder_and_nothing_behind]"
SEVERAL = f"{KIT}all-two_failures_in_a_row_leave_one_holder_of_several_names]"
JOBS = f"{KIT}queue-two_failures_in_a_row_do_a_job_once_or_give_it_to_another]"
HANDED = f"{KIT}lock-two_failures_in_a_row_hand_a_hold_over_once_or_not_at_all]"
BROKEN = f"{KIT}lock-two_failures_in_a_row_break_the_one_hold_that_was_named]"
PERMITS = f"{KIT}semaphore-two_failures_in_a_row_let_no_more_in_than_a_resize_says]"
LETTERS = f"{KIT}queue-two_failures_in_a_row_revive_and_remove_what_they_are_told]"
VALUES = f"{KIT}guard-two_failures_in_a_row_store_no_value_that_was_dropped]"
LINE = "holdfast.stores.memory.line"
MEMORY_JOBS = "holdfast.stores.memory.jobs"
MEMORY_VALUES = "holdfast.stores.memory.values"
TOGETHER = "holdfast.core.together"
SETTLING = "holdfast.core.queue.settling"

FLIPPED = "tests/stores/redis/test_flipped.py"
THREADS = "tests/core/test_thread_start.py"
SQLITE = "holdfast.stores.sqlite.blocking"
DEAD = "tests/stores/sqlite/test_dead_waiters.py"
SERVED = f"{DEAD}::test_verbs_are_bounded_and_the_living_served_behind_thousands_of_dead"

CLASSES = [
    bug(
        "a claim forgets that its join was sent twice",
        LOCK,
        (
            "holdfast.core.claims",
            "                self.suspect = True\n                await self._silence(failure)\n",
            "                await self._silence(failure)\n",
        ),
    ),
    bug(
        "a join that arrives after its release enters the line",
        LOCK,
        (LINE, "        if leave.suspect:\n", "        if False:\n"),
    ),
    bug(
        "a client that is out of file descriptors assumes a reboot",
        "tests/stores/sqlite/test_few_descriptors.py"
        "::test_a_client_with_too_few_descriptors_takes_nothing[sync]",
        (
            f"{SQLITE}.header",
            "    except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError):\n",
            "    except (OSError, ValueError):\n",
        ),
        commands=True,
    ),
    bug(
        "a repeated adoption is refused",
        HANDED,
        (LINE, "        if keep.new_id and keep.new_id in line.held:\n", "        if False:\n"),
    ),
    bug(
        "a repeated resize counts twice",
        PERMITS,
        (
            LINE,
            "        if capacity != former:\n",
            "        capacity += capacity == former > 1\n        if capacity != former:\n",
        ),
    ),
    bug(
        "a removal of some dead letters also removes the others",
        LETTERS,
        (
            "holdfast.stores.memory.jobs_look",
            "if stands is JobState.TAKEN or (ids is not None and row.job.id not in ids):",
            "if stands is JobState.TAKEN:",
        ),
    ),
    bug(
        "a break also ends the hold of a later claim",
        BROKEN,
        (
            LINE,
            "next((r for r in line.rows() if r.ticket == ticket), None)",
            "next((r for r in line.rows() if r.ticket >= ticket), None)",
        ),
    ),
    bug(
        "all() withdraws suspect claims without tombstones",
        SEVERAL,
        (TOGETHER, "one.id, 0, suspect=True, ttl", "one.id, 0, suspect=False, ttl"),
    ),
    bug(
        "all() is granted though one of its claims was withdrawn",
        SEVERAL,
        (
            LINE,
            "            if self.tombs.get(claim.id, _NO_TOMB)[0] > now:\n",
            "            if False:\n",
        ),
    ),
    bug(
        "a repeated release of several names reports that nothing was held",
        SEVERAL,
        (TOGETHER, "there or (again and ctx.now() < lease.deadline)", "there"),
    ),
    bug(
        "a late take gets another job",
        JOBS,
        (
            MEMORY_JOBS,
            "        if mine is None and not given_up:\n",
            "        if mine is None:\n",
        ),
    ),
    bug(
        "a repeated ack reports that nothing was acked",
        JOBS,
        (
            SETTLING,
            "one._over(answer or (repeated and self._ctx.now() < lease.deadline), verdict)",
            "one._over(answer, verdict)",
        ),
    ),
    bug(
        "a late put is accepted again",
        JOBS,
        (
            MEMORY_JOBS,
            "        if put.number < number:\n",
            "        if False:\n",
        ),
        (
            MEMORY_JOBS,
            "        if put.number > number:\n",
            "        if put.number != number or any(answers):\n",
        ),
    ),
    bug(
        "a value is stored after its refresh lease was taken away",
        VALUES,
        (
            MEMORY_VALUES,
            "        if at.id != finish.id or at.fence != finish.fence:\n",
            "        if at.id and at.id != finish.id:\n",
        ),
    ),
    bug(
        "a lease counts from the repetition of a take whose reply was lost",
        f"{TWICE}[queues]",
        (
            TAKING,
            "        if self._since is None:\n            self._since = now\n",
            "        self._since = now\n",
        ),
    ),
    bug(
        "a job that was lost in its last attempt is delivered again",
        QUEUES,
        (
            LEASE,
            "Verdict.DEAD if self.last else Verdict.RETRY, reason=str(reason)",
            "Verdict.RETRY, reason=str(reason)",
        ),
    ),
    bug(
        "an interrupted take keeps the jobs that it got",
        QUEUES,
        (TAKING, "                await ctx.undo(self._take)\n", "                pass\n"),
    ),
    # -- thousands of dead waiters -------------------------------------------------------------
    bug(
        "one verb drops all dead waiters of a line",
        f"{SERVED}[silent-1]",
        (
            f"{SQLITE}.line",
            (
                "                if self.steps <= 0:\n                    return\n"
                "                self._bury("
            ),
            "                self._bury(",
        ),
    ),
    bug(
        "one verb drops all dead waiters ahead of a waiter",
        f"{SERVED}[killed-1]",
        (
            f"{SQLITE}.line",
            "not self.is_dead(ahead.session) or self.steps <= 0:\n",
            "not self.is_dead(ahead.session):\n",
        ),
    ),
    bug(
        "a waiter behind dead waiters polls only after a second",
        f"{SERVED}[silent-1]",
        (f"{SQLITE}.lines", "        if line.steps <= 0:\n", "        if False:\n"),
    ),
    bug(
        "one verb clears away all that a dead process left in a line",
        f"{DEAD}::test_what_a_dead_process_left_is_cleared_away_in_parts",
        (f"{SQLITE}.lines", "        left = STEPS\n", "        left = 10**9\n"),
    ),
    # -- limits of threads ---------------------------------------------------------------------
    bug(
        "a thread that ended before it began counts as started",
        f"{THREADS}::test_the_start_of_a_thread_that_ends_before_it_begins_fails_in_time",
        (
            "holdfast.runtime.starting.blocking",
            "        if not self._started.is_set() and self.give_up():\n",
            "        if False:\n",
        ),
    ),
    bug(
        "a thread that was given up still begins",
        f"{THREADS}::test_a_thread_that_begins_after_it_was_given_up_does_nothing",
        (
            "holdfast.runtime.starting.blocking",
            "        if self._decided.acquire(blocking=False):\n            super().run()",
            "        if True:\n            super().run()",
        ),
    ),
    bug(
        "a store thread that could not begin is never started again",
        f"{THREADS}::test_an_event_loop_continues_when_the_store_thread_cannot_start",
        (
            "holdfast.stores.sqlite.aio.loop",
            "        _working[thread] = self.jobs\n",
            "        _working[thread] = self.jobs\n        self.thread = thread\n",
        ),
    ),
    # -- damaged state in the store ------------------------------------------------------------
    bug(
        "a lock state on Redis that fits two holders is trusted",
        f"{FLIPPED}::test_no_flipped_bit_lets_a_second_one_in_that_both_keep",
        lua("and (kind ~= 'l' or capacity == 1 and used == holders and used <= 1)", ""),
    ),
    bug(
        "a lock state on Redis without an early expiry is trusted for a minute",
        f"{FLIPPED}::test_no_flipped_bit_locks_a_name[True]",
        lua("or now % (5 * SECOND) < SECOND)", ")"),
    ),
    bug(
        "a lease on Redis beyond the longest possible lease is trusted",
        f"{FLIPPED}::test_no_flipped_bit_locks_a_name[False]",
        lua("    if not (first <= longest(ttl)) then\n", "    if false then\n"),
    ),
]
