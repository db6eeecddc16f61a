"""Bugs planted into the queues of MySQL and MariaDB, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug
from .planted_mysql import KIT, _instead

ROWS = "tests/stores/mysql/test_queue_rows.py"
LOST = "tests/stores/mysql/test_queue_lost.py"
COST = "tests/stores/mysql/test_cost.py"
QUEUES = "holdfast.stores.mysql.queues"

QUEUES_MYSQL = [
    bug(
        "a take doesn't lock the rows that it delivers",
        f"{ROWS}::test_many_simultaneous_takes_keep_each_group_in_order",
        _instead((" FOR UPDATE SKIP LOCKED;", ";")),
    ),
    bug(
        "a group's row isn't locked while jobs are put into it",
        f"{ROWS}::test_a_group_is_not_called_empty_while_a_job_is_put_into_it",
        _instead(
            (
                (
                    "    INSERT INTO holdfast_tracks (queue, grp, single, stands, moment)\n"
                    "      VALUES (v_queue, v_grp, 0, 4, v_now + 3600000000)\n"
                    "      ON DUPLICATE KEY UPDATE changes = changes + 1;\n"
                ),
                (
                    "    SET v_stands = NULL;\n"
                    "    SELECT stands INTO v_stands FROM holdfast_tracks\n"
                    "      WHERE queue = v_queue AND grp = v_grp AND single = 0;\n"
                    "    IF v_stands IS NULL THEN\n"
                    "      INSERT INTO holdfast_tracks (queue, grp, single, stands, moment)\n"
                    "        VALUES (v_queue, v_grp, 0, 4, v_now + 3600000000);\n"
                    "    END IF;\n    SET @nothing = 0;\n"
                ),
            )
        ),
    ),
    bug(
        "mysql: a job that waits after a failure counts as misplaced",
        f"{KIT}[mysql-sync-queue-the_pause_of_a_failed_job_lasts_however_often_it_is_asked_for]",
        _instead(
            (
                "AND t.moment > t.rest AND t.moment > t.ready)",
                "AND t.moment > t.rest AND t.moment > j.ready)",
            ),
            ("IF v_head = v_former AND v_retry > v_ready THEN", "IF FALSE THEN"),
        ),
    ),
    bug(
        "a copy of a take takes another job",
        f"{ROWS}::test_a_take_and_its_copies_and_its_undo_at_once",
        _instead(
            (
                "DECLARE CONTINUE HANDLER FOR 1062 SET v_buried = 1;",
                "DECLARE CONTINUE HANDLER FOR 1062 BEGIN END;",
            )
        ),
    ),
    bug(
        "an undo leaves no tombstone for a late take",
        f"{LOST}::test_a_late_copy_of_a_take_that_was_given_up_gets_nothing",
        _instead(
            (
                "VALUES (p_take, v_now + p_bury, 1, 0, '')",
                "VALUES (UNHEX(REPLACE(UUID(), '-', '')), v_now + p_bury, 1, 0, '')",
            )
        ),
    ),
    bug(
        "an expired lease still counts",
        f"{ROWS}::test_what_a_dead_worker_had_comes_first_again_or_is_a_dead_letter",
        _instead(
            (
                "SET v_mine = COALESCE(v_mine, 0) AND v_moment > v_now;",
                "SET v_mine = COALESCE(v_mine, 0);",
            )
        ),
    ),
    bug(
        "the interval isn't counted from the end of a lease",
        f"{ROWS}::test_the_interval_is_kept_after_a_lost_lease_and_a_return",
        _instead(
            (
                "SET v_rest = GREATEST(v_rest, p_when + GREATEST(0, LEAST(v_gap, 86400000000)));",
                "SET v_rest = v_rest;",
            )
        ),
    ),
    bug(
        "a take never waits for a group that it has passed over",
        f"{ROWS}::test_a_group_whose_row_is_locked_is_waited_for_and_no_other",
        _instead(("SET v_patient = 1, v_dry = 0;", "SET v_patient = 0;")),
    ),
    bug(
        "an idle worker starts again with short pauses",
        f"{COST}::test_an_idle_worker_asks_less_than_ten_times_a_second",
        (QUEUES, "        left = self._left.pop(queue, [])", "        left: Any = []"),
        (QUEUES, "from typing import Protocol", "from typing import Any, Protocol"),
    ),
    bug(
        "mysql: jobs that don't fit into one request are refused",
        "tests/stores/mysql/test_queue_rows.py"
        "::test_more_jobs_than_fit_into_one_request_are_put_in_several",
        (
            QUEUES,
            "            raise TooLarge(\n",
            "            raise ValueError(\n",
        ),
    ),
    bug(
        "mysql: every server counts as one that accepts the longest request",
        "tests/stores/mysql/test_queue_rows.py"
        "::test_a_server_that_takes_shorter_packets_gets_the_jobs_in_more_requests[threads]",
        (QUEUES, "SELECT @@max_allowed_packet", "SELECT 16777216"),
    ),
    bug(
        "mysql: a connection that was cut for a long request is used again",
        "tests/stores/mysql/test_queue_rows.py"
        "::test_a_connection_cut_for_a_long_request_is_not_reused",
        ("holdfast.stores.mysql.complaints", "1152, _TOO_LONG, 1159", "1152, 1159"),
    ),
]
