"""Bugs planted into the queues of the embedded store, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

QUEUES = "holdfast.stores.sqlite.blocking.queues"
JOBS = f"{QUEUES}.jobs"
PUTTING = f"{QUEUES}.putting"
ENGINE = f"{QUEUES}.engine"
EARS = "holdfast.stores.sqlite.blocking.ears"
ANNEX = "holdfast.stores.sqlite.blocking.annex"
FILES = f"{QUEUES}.files"
TESTS = "tests/stores/sqlite"
MEANING = (
    f"{TESTS}/test_queues_meaning.py"
    "::test_random_verbs_are_answered_as_the_memory_store_answers_them"
)

KIT = "tests/conformance/test_conformance.py::test_conforms[sqlite-sync-queue-"

QUEUES_SQLITE = [
    bug(
        "a put into a queue does not wait for the disk",
        f"{TESTS}/test_files.py"
        "::test_a_job_is_on_the_disk_before_it_is_reported_as_accepted[puts-2-1]",
        (ENGINE, "putting.put(jobs, put), durable=True)", "putting.put(jobs, put))"),
    ),
    bug(
        "each statement of a queue's verb is a separate transaction",
        f"{TESTS}/test_death_in_verbs.py"
        "::test_an_interrupt_at_any_point_leaves_nothing_locked_and_nothing_taken[job]",
        (
            ENGINE,
            '        files.run("BEGIN")\n        answer = work(jobs, files)\n',
            "        answer = work(jobs, files)\n",
        ),
        (ENGINE, '        files.run("COMMIT")\n', ""),
    ),
    bug(
        "a queue accepts a late ack",
        MEANING,
        (JOBS, "        if loan.expires <= self.now:\n", "        if False:\n"),
    ),
    bug(
        "a put that is repeated is accepted twice",
        MEANING,
        (PUTTING, "    if put.number > number:\n", "    if True:\n"),
    ),
    bug(
        "a known id is forgotten with its job",
        f"{KIT}a_duplicate_is_dropped_and_says_so]",
        (JOBS, "        if until is not None and until > self.now:\n", "        if False:\n"),
    ),
    bug(
        "ungrouped jobs and groups don't take turns",
        f"{KIT}neither_lane_starves_the_other]",
        (JOBS, "                queue.turn = 1 - lane\n", ""),
    ),
    bug(
        "a group is served while its first job is delivered",
        f"{TESTS}/test_queues_meaning.py::test_a_group_waits_for_its_first_delivery_whatever_is_removed",
        (
            JOBS,
            "if first is not None and not self.run(_SQL.loan_there, (first[0],)).fetchone():",
            "if first is not None:",
        ),
    ),
    bug(
        "an undone take still gets a job",
        f"{TESTS}/test_queues_meaning.py::test_a_late_copy_of_an_undone_take_gets_nothing",
        (
            JOBS,
            "if not mine and not self.given_up(take):",
            "if not mine:",
        ),
    ),
    bug(
        "a take doesn't check whether a worker is dead",
        f"{TESTS}/test_death.py"
        "::test_what_a_killed_process_had_is_free_long_before_its_lease_ends[job-sync]",
        (JOBS, "if session != own and dead(session):", "if False:"),
    ),
    bug(
        "a child keeps the deliveries of its dead parent",
        f"{TESTS}/test_death.py::test_a_living_child_keeps_nothing_of_its_dead_parent[job]",
        (
            ANNEX,
            "            self._session.end(unlink=False)\n        self.mail.forked()",
            "            AnnexEngine.kept = self._session\n        self.mail.forked()",
        ),
    ),
    bug(
        "a wake-up for a dead waiter wakes no other waiter",
        f"{TESTS}/test_queues_waiting.py::test_a_waiter_that_died_costs_the_next_one_nothing",
        (
            EARS,
            "            count -= self._poke(file, address, name, post)\n",
            "            self._poke(file, address, name, post)\n            count -= 1\n",
        ),
    ),
    bug(
        "a waiter that no longer waits gets a wake-up",
        f"{TESTS}/test_queues_waiting.py::test_a_timed_out_or_cancelled_wait_leaves_no_file",
        (ANNEX, "            ears.close(found)\n", ""),
    ),
    bug(
        "a put wakes all waiters",
        f"{TESTS}/test_queues_waiting.py::test_one_job_wakes_one_waiter_and_several_jobs_wake_several",
        (EARS, "            if count <= 0:\n                return\n", ""),
    ),
    bug(
        "the clock of the queues goes back with the wall clock",
        f"{TESTS}/test_files.py::test_delays_continue_over_a_reboot_and_no_clock_goes_back",
        (FILES, "max(walltime(), latest) - now", "walltime() - now"),
    ),
    bug(
        "jobs are put into a file that was deleted",
        f"{TESTS}/test_files.py::test_what_is_put_goes_to_the_file_that_others_find",
        (
            ANNEX,
            "self.database.inode\n        except OSError:\n            return True",
            "self.database.inode\n        except OSError:\n            return False",
        ),
    ),
]
