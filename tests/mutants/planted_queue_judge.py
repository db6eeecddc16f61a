"""Bugs planted into the judge of queue histories, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

RULES = "holdfast.testing.histories.queue_rules"
JOBS = "holdfast.testing.histories.queues"
READER = "holdfast.testing.histories.reader"
TEST = "tests/testing/test_queue_judge.py::test_"

QUEUE_JUDGE = [
    bug(
        "a job that was never done isn't reported",
        f"{TEST}what_was_accepted_and_never_done_is_lost",
        (RULES, "        if accepted and (group, number) not in done and", "        if False and"),
    ),
    bug(
        "a job that is still in the queue counts as lost",
        f"{TEST}what_the_queue_still_has_is_not_lost",
        (RULES, " and (group, number) not in jobs.there:\n", ":\n"),
    ),
    bug(
        "an ack that the queue has forgotten isn't reported",
        f"{TEST}what_was_acked_and_is_still_in_the_queue_is_found",
        (RULES, "            if one.done and one.kept and (", "            if not one.done and ("),
    ),
    bug(
        "a refused ack counts",
        f"{TEST}a_refused_ack_does_not_count",
        (
            JOBS,
            'return self.how == "ack" and self.kept is not False',
            'return self.how == "ack"',
        ),
    ),
    bug(
        "only the last execution is checked for an overlap",
        f"{TEST}two_overlaps_with_one_long_execution_are_found",
        (
            RULES,
            "        if going is None or one.end > going.end:\n            going = one\n",
            "        going = one\n",
        ),
    ),
    bug(
        "a released job counts as done",
        f"{TEST}a_job_whose_forerunner_is_not_done_is_found",
        (
            RULES,
            "            done = done or one.done\n",
            "            done = True\n",
        ),
    ),
    bug(
        "the interval counts from the beginning of the last execution",
        f"{TEST}an_execution_that_comes_too_soon_is_found",
        (
            RULES,
            'since = former.asked if interval_from == "take" else min(former.end, one.took)',
            'since = former.asked if interval_from == "take" else former.took',
        ),
    ),
    bug(
        "the execution of a killed worker never ends",
        f"{TEST}the_interval_of_a_dead_worker_counts_from_its_death",
        (JOBS, "one.died = dead.get(one.worker, math.inf)", "one.died = math.inf"),
    ),
    bug(
        "a line that is no event is skipped",
        f"{TEST}a_torn_last_line_is_no_error_and_any_other_is",
        (
            READER,
            '                torn = text or " "\n                continue\n',
            "                continue\n",
        ),
    ),
]
