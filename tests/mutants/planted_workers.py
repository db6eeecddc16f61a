"""Bugs planted into workers, into deliveries after a lost reply, and into the keys of guards."""

from __future__ import annotations

from .bugs import bug

KIT = "tests/conformance/test_conformance.py::test_conforms"
SECOND = "tests/queues/test_second_failure.py"
MISUSE = "tests/queues/test_misuse.py"
TAKING = "holdfast.core.queue.taking"
DELIVERY = "holdfast.core.queue.delivery"
QUEUE = "holdfast.core.queue.queue"
WORKER = "holdfast.core.queue.worker"
FUNCTIONS = "holdfast.core.functions"
HANDLERS = "holdfast.core.queue.handlers"
TEMPLATE = "holdfast.core.template"
THREADS = "holdfast.sync.queue"
TASKS = "holdfast.aio.queue"
JOBS = "holdfast.stores.memory.jobs"


def kit(store: str, face: str, case: str) -> str:
    """Return the test id of a case of the conformance kit."""
    return f"{KIT}[{store}-{face}-queue-{case}]"


ANY = "whatever_a_handler_does_the_worker_goes_on_and_the_attempt_counts"
KINDS = "a_handler_of_the_wrong_kind_is_refused_at_once"

WORKERS = [
    bug(
        "a lease counts from the last copy of a take",
        f"{SECOND}::test_two_workers_never_believe_in_one_job_after_a_lost_reply[sync]",
        (TAKING, "        if self._since is None:\n", "        if True:\n"),
    ),
    bug(
        "a repeated take is not renewed immediately",
        f"{SECOND}::test_what_was_repeated_is_renewed_at_once[sync]",
        (QUEUE, "            if suspect:\n", "            if False:\n"),
    ),
    bug(
        "a delivery whose ack is unknown is no longer renewed",
        f"{SECOND}::test_a_delivery_whose_ack_is_unknown_is_renewed_on[sync]",
        (
            DELIVERY,
            "            self._ctx.keeper.add_early(lease, self._ctx.now())\n",
            "            pass\n",
        ),
    ),
    bug(
        "an exit in a handler ends its worker's loop",
        kit("memory", "sync", ANY),
        (
            THREADS,
            "            except BaseException as failure:  # also what would end this thread\n",
            "            except Exception as failure:\n",
        ),
    ),
    bug(
        "a cancellation in a handler ends its worker's loop",
        kit("memory", "aio", ANY),
        (
            TASKS,
            "                if self._ctx.runtime.interrupts(cancelled):\n",
            "                if True:\n",
        ),
    ),
    bug(
        "the return value of a handler is not checked",
        kit("memory", "sync", ANY),
        (HANDLERS, "    if what is None:\n", "    if True:\n"),
    ),
    bug(
        "a partial hides a handler of the wrong kind",
        kit("memory", "sync", KINDS),
        (FUNCTIONS, "        if isinstance(inner, partial):\n", "        if False:\n"),
    ),
    bug(
        "a failure that can't be printed ends its worker",
        kit("memory", "sync", ANY),
        (
            "holdfast.core.queue.payload",
            '    except Exception:\n        return f"{name}, which',
            '    except KeyError:\n        return f"{name}, which',
        ),
    ),
    bug(
        "a failed attempt doesn't count if its error is no Exception",
        kit("memory", "sync", ANY),
        (
            WORKER,
            "job._failed_request(failure)\n",
            (
                "job._failed_request(failure)\n"
                "        if failure is not None and not isinstance(failure, Exception):\n"
                "            settle = job._return_request()\n"
            ),
        ),
    ),
    bug(
        "a worker doesn't report the failure that ended it",
        kit("memory", "sync", "a_worker_says_what_ended_it"),
        (WORKER, "                tally.failure = failure\n", ""),
    ),
    bug(
        "a loss that the renewer noticed is not raised",
        f"{SECOND}::test_a_loss_seen_by_the_renewer_is_raised_at_the_end_of_the_body[sync-with]",
        (
            DELIVERY,
            "        if self.settled:\n            return\n        if failure is None:",
            (
                "        if self._lease.end is not None:\n            return\n"
                "        if failure is None:"
            ),
        ),
    ),
    bug(
        "a returned ungrouped job keeps its place",
        kit("memory", "sync", "a_returned_job_of_the_plain_lane_comes_behind_those_that_were_due"),
        (
            JOBS,
            "            row.not_before = max(row.not_before, when)\n        self.rest_or",
            "        self.rest_or",
        ),
    ),
    bug(
        "the key of a cached function can leave out a parameter",
        f"{MISUSE}::test_a_function_whose_values_would_be_shared_by_all_its_users_is_refused",
        (TEMPLATE, "    if not missing:\n", "    if True:\n"),
    ),
    bug(
        "the key of a cached function doesn't escape its fields",
        f"{MISUSE}::test_two_calls_share_a_value_only_if_all_their_fields_are_equal",
        (TEMPLATE, ".translate(escaped))", ")"),
    ),
]
