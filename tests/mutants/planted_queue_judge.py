"""Bugs planted into the judge of queue histories, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

RULES = "holdfast.testing.histories.queue_rules"
JOBS = "holdfast.testing.histories.queues"
READER = "holdfast.testing.histories.reader"
TEST = "tests/testing/test_queue_judge.py::test_"
FOUND = f"{TEST}each_broken_promise_is_found_and_counted"

QUEUE_JUDGE = [
    bug(
        "a job that was never done isn't reported",
        f"{FOUND}[what was accepted and never done is lost]",
        (RULES, "        if accepted and (group, number) not in done and", "        if False and"),
    ),
    bug(
        "a job that is still in the queue counts as lost",
        f"{FOUND}[what the queue still has is not lost]",
        (RULES, " and (group, number) not in jobs.there:\n", ":\n"),
    ),
    bug(
        "an ack that the queue has forgotten isn't reported",
        f"{FOUND}[what was acked and is still in the queue is found]",
        (RULES, "            if one.done and one.kept and (", "            if not one.done and ("),
    ),
    bug(
        "a refused ack counts",
        f"{FOUND}[a refused ack does not count]",
        (
            JOBS,
            'return self.how == "ack" and self.kept is not False',
            'return self.how == "ack"',
        ),
    ),
    bug(
        "only the last execution is checked for an overlap",
        f"{FOUND}[two overlaps with one long execution are found]",
        (
            RULES,
            "        if going is None or one.end > going.end:\n            going = one\n",
            "        going = one\n",
        ),
    ),
    bug(
        "a released job counts as done",
        f"{FOUND}[a job whose forerunner is not done is found]",
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
