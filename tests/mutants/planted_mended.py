"""Bugs of queues and guards that users have met, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

KIT = "tests/conformance/test_conformance.py::test_conforms"
SECOND = "tests/queues/test_second_failure.py"
MISUSE = "tests/queues/test_misuse.py"
MENDING = "holdfast.core.queue.mending"
DELIVERY = "holdfast.core.queue.delivery"
SETTLING = "holdfast.core.queue.settling"
QUEUE = "holdfast.core.queue.queue"
GUARD = "holdfast.core.guard.guard"

MENDED = [
    bug(
        "a character of an escape can separate two fields",
        "tests/core/test_template.py::test_what_an_escape_consists_of_marks_no_end_of_a_field[%]",
        ("holdfast.core.template", "if one not in _ESCAPES]", "if one]"),
    ),
    bug(
        "functions of one factory count as the same function",
        "tests/core/test_sameness.py"
        "::test_two_functions_of_one_factory_never_get_each_others_values",
        (
            "holdfast.core.sameness",
            'if "<" not in one.__code__.co_qualname',
            'if "?" not in one.__code__.co_qualname',
        ),
    ),
    bug(
        "a purge of one state counts the jobs of the others",
        f"{KIT}[memory-sync-queue-a_purge_of_one_state_removes_no_more_than_stood_so]",
        (MENDING, "one.waiting + (0 if state else one.dead)", "one.waiting + one.taken + one.dead"),
    ),
    bug(
        "a refused settle is recorded as done",
        f"{KIT}[memory-sync-queue-what_could_not_be_settled_is_renewed_and_may_be_settled_again]",
        (SETTLING, "        if not isinstance(failure, Exception):\n", "        if True:\n"),
    ),
    bug(
        "a body that could not settle its job keeps the job renewed",
        f"{KIT}[memory-sync-queue-what_a_loop_or_a_body_could_not_settle_comes_again]",
        (DELIVERY, "            self._give_up(ack)\n", ""),
    ),
    bug(
        "a job that dies again during a revival is revived again",
        f"{KIT}[memory-sync-queue-what_dies_again_while_dead_letters_are_revived_is_not_revived_again]",
        (
            MENDING,
            "    for start in range(0, len(wanted), batch):\n",
            (
                "    while ids is None and (more := await queues.revive(queue, None, REQUEST_S)):\n"
                "        done += more\n"
                "    for start in range(0, len(wanted), batch):\n"
            ),
        ),
    ),
    bug(
        "a purge removes more jobs than it counted at its start",
        f"{KIT}[memory-sync-queue-a_purge_leaves_what_is_put_before_its_first_request]",
        (MENDING, "queue, state, None, most - done,", "queue, state, None, BATCH_MAX,"),
    ),
    bug(
        "redis queues: a purge removes the newest jobs first",
        f"{KIT}[redis-sync-queue-a_purge_leaves_what_is_put_before_its_first_request]",
        ("holdfast.stores.redis.queue_look", "one = (-at, -abs(", "one = (at, -abs("),
    ),
    bug(
        "each missing value waits again for a store that is down",
        f"{KIT}[memory-sync-guard-an_outage_that_begins_behind_the_read_is_waited_for_once]",
        (
            "holdfast.core.guard.guard",
            "                down = self._shared.without != before\n",
            "",
        ),
    ),
    bug(
        "a purge continues as long as jobs are put",
        f"{KIT}[memory-sync-queue-a_purge_beside_somebody_who_puts_comes_to_an_end]",
        (MENDING, "    while done < most and (", "    while ("),
    ),
    bug(
        "a job that can't be started ends the other running jobs",
        "tests/cli/test_queue_work.py"
        "::test_a_job_that_cannot_be_started_is_answered_alone_and_named",
        (
            "holdfast.cli.queue.nursery",
            "        except OSError as wrong:  # no space",
            "        except BlockingIOError as wrong:  # no space",
        ),
        commands=True,
    ),
    bug(
        "several values are not computed while the store is away",
        f"{MISUSE}::test_several_values_are_computed_while_the_store_is_away",
        (GUARD, "                down = True\n                break\n", "                raise\n"),
    ),
    bug(
        "several values wait for the store as long as without on_store_error",
        f"{MISUSE}::test_several_values_are_computed_while_the_store_is_away",
        (
            GUARD,
            '            sent + (DOWN_S if options.on_store_error == "compute" else REQUEST_S),\n',
            "            sent + REQUEST_S,\n",
        ),
    ),
    bug(
        "a put that fails doesn't report the jobs that were accepted before",
        f"{MISUSE}::test_the_error_of_a_failed_put_counts_the_accepted_jobs",
        (
            QUEUE,
            "                if not receipts:\n                    raise\n",
            "                raise\n",
        ),
    ),
    bug(
        "a put that fails with another error doesn't report the accepted jobs",
        f"{MISUSE}::test_every_error_of_a_put_counts_the_accepted_jobs[sync-reason]",
        (QUEUE, "                    failure.add_note(before)\n", ""),
    ),
    bug(
        "work that a decorated function returned runs without the lock",
        "tests/core/test_decorated.py::test_work_that_a_plain_function_returned_is_refused[future]",
        ("holdfast.core.undone", 'hasattr(type(found), "add_done_callback")', "False"),
    ),
    bug(
        "a group behind a dead letter isn't shown as waiting",
        f"{KIT}[zookeeper-sync-queue-a_group_that_a_dead_letter_holds_back_is_seen_to_wait]",
        (
            "holdfast.stores.zookeeper.queues.mending",
            "        behind = [one for one in heads if one.group and one not in lone]\n",
            (
                "        behind = [\n"
                "            one for one in heads\n"
                "            if one.group and one not in lone and not one.blocked\n"
                "        ]\n"
            ),
        ),
    ),
    bug(
        "the memory store remembers every queue permanently",
        "tests/core/test_memory_names.py::test_names_of_unused_queues_are_forgotten",
        (
            "holdfast.stores.memory.blocking",
            "                del self.queues[name]\n",
            "                self.queues.move_to_end(name)\n",
        ),
    ),
    bug(
        "work whose ack isn't answered is reported as failed",
        f"{SECOND}::test_a_body_that_was_protected_until_its_end_is_not_reported_as_failed",
        (DELIVERY, "            self._go_on(ack, failure)\n", "            raise failure\n"),
    ),
    bug(
        "work whose ack got no reply before its lease ended is reported as failed",
        f"{SECOND}::test_a_body_whose_ack_is_unknown_until_after_its_lease_is_not_reported_as_failed",
        (DELIVERY, "        if protected and self._lease.unsure:\n", "        if False:\n"),
    ),
    bug(
        "an answer is final while another settle of the job is under way",
        f"{KIT}[memory-aio-queue-of_two_acks_of_a_job_that_is_lost_none_counts]",
        (
            SETTLING,
            "            elif answer is not True and one._lease.settling:\n",
            "            elif False:\n",
        ),
    ),
    bug(
        "an ack during another ack reports a finished job as lost",
        f"{KIT}[memory-sync-queue-two_acks_at_once_both_say_that_it_is_done]",
        (
            SETTLING,
            "        if lease.end is State.RELEASED and answer is not True:\n            return",
            "        if False:\n            return",
        ),
    ),
    bug(
        "two simultaneous acks count though the job was lost",
        f"{KIT}[memory-sync-queue-of_two_acks_of_a_job_that_is_lost_none_counts]",
        (
            SETTLING,
            "repeated = again or lease.asked or lease.settling > 0",
            "repeated = True",
        ),
    ),
]
