"""Bugs planted into queues and refresh guards, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

JOBS = [
    bug(
        "a removal of some dead letters also removes the others",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-queue-two_failures_in_a_row_revive_and_remove_"
            "what_they_are_told]"
        ),
        (
            "holdfast.stores.memory.jobs_look",
            "if stands is JobState.TAKEN or (ids is not None and row.job.id not in ids):",
            "if stands is JobState.TAKEN:",
        ),
    ),
    bug(
        "a late take gets another job",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-queue-two_failures_in_a_row_do_a_job_once_or_"
            "give_it_to_another]"
        ),
        (
            "holdfast.stores.memory.jobs",
            "        if mine is None and not given_up:\n",
            "        if mine is None:\n",
        ),
    ),
    bug(
        "a repeated ack reports that nothing was acked",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-queue-two_failures_in_a_row_do_a_job_once_or_"
            "give_it_to_another]"
        ),
        (
            "holdfast.core.queue.settling",
            "one._over(answer or (repeated and self.ctx.now() < lease.deadline), verdict)",
            "one._over(answer, verdict)",
        ),
    ),
    bug(
        "a late put is accepted again",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-queue-two_failures_in_a_row_do_a_job_once_or_"
            "give_it_to_another]"
        ),
        ("holdfast.stores.memory.jobs", "        if put.number < number:\n", "        if False:\n"),
        (
            "holdfast.stores.memory.jobs",
            "        if put.number > number:\n",
            "        if put.number != number or any(answers):\n",
        ),
    ),
    bug(
        "a value is stored after its refresh lease was taken away",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-guard-two_failures_in_a_row_store_no_value_"
            "that_was_dropped]"
        ),
        (
            "holdfast.stores.memory.values",
            "        if at.id != finish.id or at.fence != finish.fence:\n",
            "        if at.id and at.id != finish.id:\n",
        ),
    ),
    bug(
        "a lease counts from the repetition of a take whose reply was lost",
        (
            "tests/sim/test_twice.py"
            "::test_no_two_failures_that_follow_each_other_break_a_promise[queues]"
        ),
        (
            "holdfast.core.asking",
            "        if self.first is None:\n            self.first = now\n",
            "        self.first = now\n",
        ),
    ),
    bug(
        "a job that was lost in its last attempt is delivered again",
        "tests/sim/test_simulator.py::test_histories_in_a_row_violate_nothing[queues-400]",
        (
            "holdfast.core.queue.lease",
            "Verdict.DEAD if self.last else Verdict.RETRY, reason=str(reason)",
            "Verdict.RETRY, reason=str(reason)",
        ),
    ),
    bug(
        "an interrupted take keeps the jobs that it got",
        "tests/sim/test_simulator.py::test_histories_in_a_row_violate_nothing[queues-400]",
        (
            "holdfast.core.queue.taking",
            "                await ctx.undo(self._take)\n",
            "                pass\n",
        ),
    ),
    bug(
        "an invalidation doesn't clear the local cache of its process",
        "tests/sim/test_simulator.py::test_histories_in_a_row_violate_nothing[guards-60]",
        (
            "holdfast.core.guard.near",
            "        for key in keys:\n            self._held.pop(key, None)",
            "        for key in ():\n            self._held.pop(key, None)",
        ),
    ),
    bug(
        "a job that dies again during a revival is revived again",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-queue-what_dies_again_while_dead_letters_are_"
            "revived_is_not_revived_again]"
        ),
        (
            "holdfast.core.queue.mending",
            "    for start in range(0, len(wanted), batch):\n",
            (
                "    while ids is None and (more := await queues.revive(queue, None, "
                "REQUEST_S)):\n"
                "        done += more\n"
                "    for start in range(0, len(wanted), batch):\n"
            ),
        ),
    ),
    bug(
        "several values are not computed while the store is away",
        ("tests/queues/test_misuse.py::test_several_values_are_computed_while_the_store_is_away"),
        (
            "holdfast.core.guard.guard",
            ("                down = True\n                break\n"),
            "                raise\n",
        ),
    ),
    bug(
        "a put that fails doesn't report the jobs that were accepted before",
        ("tests/queues/test_misuse.py::test_the_error_of_a_failed_put_counts_the_accepted_jobs"),
        (
            "holdfast.core.queue.queue",
            ("                if not receipts:\n                    raise\n"),
            "                raise\n",
        ),
    ),
    bug(
        "a lease counts from the last copy of a take",
        (
            "tests/queues/test_second_failure.py"
            "::test_two_workers_never_believe_in_one_job_after_a_lost_reply[sync]"
        ),
        ("holdfast.core.asking", "        if self.first is None:\n", "        if True:\n"),
    ),
    bug(
        "a repeated take is not renewed immediately",
        ("tests/queues/test_second_failure.py::test_what_was_repeated_is_renewed_at_once[sync]"),
        ("holdfast.core.queue.queue", "            if suspect:\n", "            if False:\n"),
    ),
    bug(
        "a delivery whose ack is unknown is no longer renewed",
        (
            "tests/queues/test_second_failure.py"
            "::test_a_delivery_whose_ack_is_unknown_is_renewed_on[sync]"
        ),
        (
            "holdfast.core.queue.delivery",
            "            self._ctx.keeper.add_early(lease, self._ctx.now())\n",
            "            pass\n",
        ),
    ),
    bug(
        "an exit in a handler ends its worker's loop",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-queue-whatever_a_handler_does_the_worker_goes_"
            "on_and_the_attempt_counts]"
        ),
        (
            "holdfast.sync.queue",
            "            except BaseException as failure:  # also what would end this thread\n",
            "            except Exception as failure:\n",
        ),
    ),
    bug(
        "the return value of a handler is not checked",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-queue-whatever_a_handler_does_the_worker_goes_"
            "on_and_the_attempt_counts]"
        ),
        ("holdfast.core.queue.handlers", "    if what is None:\n", "    if True:\n"),
    ),
    bug(
        "a loss that the renewer noticed is not raised",
        (
            "tests/queues/test_second_failure.py"
            "::test_a_loss_seen_by_the_renewer_is_raised_at_the_end_of_the_"
            "body[sync-with]"
        ),
        (
            "holdfast.core.queue.delivery",
            ("        if self.settled:\n            return\n        if failure is None:"),
            (
                "        if self._lease.end is not None:\n"
                "            return\n"
                "        if failure is None:"
            ),
        ),
    ),
    bug(
        "a returned ungrouped job keeps its place",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-queue-a_returned_job_of_the_plain_lane_comes_"
            "behind_those_that_were_due]"
        ),
        (
            "holdfast.stores.memory.jobs",
            "            row.not_before = when\n        self.rest_or",
            "        self.rest_or",
        ),
    ),
]
