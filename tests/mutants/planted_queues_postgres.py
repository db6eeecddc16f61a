"""Bugs planted into the functions of PostgreSQL's queues, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug
from .planted_postgres import _instead

MEETING = "tests/stores/postgres/test_queue.py"
LOST = "tests/stores/postgres/test_queue_lost.py"
COST = "tests/stores/postgres/test_cost.py"
QUEUES = "holdfast.stores.postgres.queues"

QUEUES_POSTGRES = [
    bug(
        "a group's row isn't locked before a job is put behind its jobs",
        f"{MEETING}::test_a_put_into_a_group_waits_for_the_uncommitted_put_before_it",
        _instead(
            (
                "ORDER BY gen DESC LIMIT 1 FOR UPDATE;\n    IF g.queue IS NULL THEN\n",
                "ORDER BY gen DESC LIMIT 1;\n    IF g.queue IS NULL THEN\n",
            )
        ),
    ),
    bug(
        "takers wait for each other",
        f"{MEETING}::test_takers_dont_wait_for_each_other",
        _instead(
            (
                "ORDER BY r.queue, r.lane, r.place, r.seq LIMIT want FOR UPDATE SKIP LOCKED",
                "ORDER BY r.queue, r.lane, r.place, r.seq LIMIT want FOR UPDATE",
            )
        ),
    ),
    bug(
        "a worker begins to wait although a put is under way",
        f"{MEETING}::test_a_job_that_is_being_put_when_a_worker_goes_to_sleep_wakes_it",
        _instead(("asleep := pg_try_advisory_xact_lock(queue_bell(p_queue));", "asleep := true;")),
    ),
    bug(
        "a put wakes no waiter",
        f"{MEETING}::test_one_put_wakes_one_sleeping_waiter",
        _instead(("PERFORM pg_notify(w.address", "PERFORM concat(w.address")),
    ),
    bug(
        "the last reply to a producer isn't remembered",
        f"{LOST}::test_each_verb_that_is_cut_off_counts_once",
        _instead(("    IF a.number >= p_number THEN", "    IF false THEN")),
    ),
    bug(
        "a copy of an earlier put is accepted",
        f"{MEETING}::test_a_late_copy_of_a_put_changes_nothing",
        _instead(("    IF a.number >= p_number THEN", "    IF a.number = p_number THEN")),
    ),
    bug(
        "a repeated take ignores the jobs that it already has",
        f"{MEETING}::test_a_take_and_its_copies_and_its_undo_at_once",
        _instead(
            (
                "IF EXISTS (SELECT FROM loans l WHERE l.take",
                "IF false AND EXISTS (SELECT FROM loans l WHERE l.take",
            )
        ),
    ),
    bug(
        "an abandoned take leaves no tombstone",
        f"{LOST}::test_a_late_copy_of_a_take_that_was_given_up_gets_nothing",
        _instead(
            (
                "IF EXISTS (SELECT FROM tombs t WHERE t.id = p_id",
                "IF EXISTS (SELECT FROM tombs t WHERE false AND t.id = p_id",
            )
        ),
    ),
    bug(
        "a delivery isn't on the disk before it is acknowledged",
        f"{MEETING}::test_what_must_be_on_the_disk_is_waited_for",
        _instead(
            (
                "    now_us := queue_begin(p_relaxed);\n    PERFORM queue_alone",
                "    now_us := queue_begin(true);\n    PERFORM queue_alone",
            )
        ),
    ),
    bug(
        "recovery delivers jobs in the grace period",
        f"{MEETING}::test_after_a_relaxed_crash_no_job_is_delivered_in_the_grace_period",
        _instead(
            (
                "            room := 0;\n            retry := least(retry, a.until",
                "            retry := least(retry, a.until",
            )
        ),
    ),
    bug(
        "leases that end together are passed over beyond the first hundred",
        f"{MEETING}::test_hundreds_of_leases_that_end_together_are_all_recovered",
        _instead(("        IF steps = 100 THEN", "        IF false THEN")),
        full=True,
    ),
    bug(
        "dedup ids are never forgotten",
        f"{MEETING}::test_done_jobs_leave_no_row",
        _instead(("FROM known WHERE until <= p_now", "FROM known WHERE false")),
    ),
    bug(
        "each take starts its search at the lowest key",
        f"{COST}::test_a_take_looks_only_where_something_may_be",
        (
            "holdfast.stores.postgres.queues",
            "        return self.marks\n",
            "        return Marks()\n",
        ),
    ),
]
