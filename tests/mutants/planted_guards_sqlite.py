"""Bugs planted into the guards of the embedded store, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

VALUES = "holdfast.stores.sqlite.blocking.values"
VERBS = f"{VALUES}.values"
ENGINE = f"{VALUES}.engine"
FILES = f"{VALUES}.files"
READING = f"{VALUES}.reading"
ROWS = f"{VALUES}.rows"
EARS = "holdfast.stores.sqlite.blocking.ears"
REFRESH = "holdfast.core.guard.refresh"
TESTS = "tests/stores/sqlite"
MEANING = (
    f"{TESTS}/test_guards_meaning.py"
    "::test_random_verbs_are_answered_as_the_memory_store_answers_them"
)
DEATH = f"{TESTS}/test_guards_reading.py"
KILLED = (
    f"{TESTS}/test_death.py"
    "::test_what_a_killed_process_had_is_free_long_before_its_lease_ends[value-"
)
KIT = "tests/conformance/test_conformance.py::test_conforms[sqlite-sync-guard-"

GUARDS_SQLITE = [
    bug(
        "a cached row is served after it was changed",
        MEANING,
        (READING, "if kept is not None and words[kept[0]] == kept[1]:", "if kept is not None:"),
    ),
    bug(
        "a cached row counts as known after it was changed",
        f"{TESTS}/test_guards_reading.py"
        "::test_a_read_is_one_statement_and_none_if_nothing_has_changed",
        (READING, "if words[kept[0]] != kept[1] or words[WORLD]", "if words[WORLD]"),
    ),
    bug(
        "a known value gets no early refresh",
        f"{TESTS}/test_guards_reading.py"
        "::test_what_is_known_ends_with_its_time_and_early_refreshes_have_their_chance",
        ("holdfast.core.guard.guard", "if self._options.early or sent", "if sent"),
    ),
    bug(
        "a change is not counted when it is committed",
        f"{TESTS}/test_guards_reading.py"
        "::test_a_read_is_one_statement_and_none_if_nothing_has_changed",
        (
            ENGINE,
            "        with Changing(files.words, changed):\n            files.run",
            "        if changed is not None:\n            files.run",
        ),
    ),
    bug(
        "a change is counted only before it is committed",
        f"{TESTS}/test_guards_reading.py"
        "::test_what_is_read_amid_a_commit_is_not_kept_beyond_it[before]",
        (READING, "            words[at] = (words[at] + 1) & LOW\n", "            pass\n"),
        (READING, "words[at] = (words[at] + 1) & LOW | 1", "words[at] += 2"),
    ),
    bug(
        "a change is counted only after it is committed",
        f"{DEATH}::test_a_writer_killed_during_a_change_leaves_reads_correct",
        (READING, "(words[at] + 1) & LOW | 1", "words[at]"),
        (
            READING,
            "            words[at] = (words[at] + 1) & LOW\n",
            "            words[at] += 2\n",
        ),
    ),
    bug(
        "threads read while another thread forks",
        f"{TESTS}/test_guards_reading.py::test_no_thread_is_inside_sqlite_during_a_fork",
        (READING, "            if forking():  # checked", "            if False:  # checked"),
        (READING, "not readers or forking():", "not readers:"),
    ),
    bug(
        "a row that changed during its read is cached",
        f"{TESTS}/test_guards_reading.py"
        "::test_what_is_read_amid_a_commit_is_not_kept_beyond_it[across]",
        (READING, "not count & 1 and words[one] == count:", "not count & 1:"),
        (
            READING,
            "self._keep(entries[at], (one, count, row))",
            "self._keep(entries[at], (one, words[one], row))",
        ),
    ),
    bug(
        "a former holder of the refresh lease stores a value",
        f"{KIT}a_late_copy_of_a_request_brings_no_duty_back]",
        (
            VERBS,
            "if duty.id != finish.id or duty.fence != finish.fence:",
            "if duty.id != finish.id:",
        ),
    ),
    bug(
        "a refresh lease never expires",
        MEANING,
        (ROWS, "        if self.id and now >= self.lease:\n", "        if False:\n"),
    ),
    bug(
        "an invalidation leaves the refresh lease in the file",
        MEANING,
        (VERBS, "        if self.run(_SQL.duty_drop, entry).rowcount:\n", "        if False:\n"),
    ),
    bug(
        "a caller doesn't check whether the computing process is dead",
        f"{KILLED}sync]",
        (VERBS, "duty.session != session and dead(duty.session):", "False:"),
    ),
    bug(
        "a waiter doesn't watch the session of the computing process",
        f"{KILLED}sync]",
        (ENGINE, "                self._holders[wish.id] = values.holder\n", ""),
    ),
    bug(
        "a waiter on a loop doesn't watch the session of the computing process",
        f"{KILLED}aio]",
        (ENGINE, "                self._holders[wish.id] = values.holder\n", ""),
    ),
    bug(
        "the end of a refresh lease wakes no waiter",
        f"{TESTS}/test_waiting.py"
        "::test_a_waiter_gets_soon_what_another_client_returns_and_leaves_no_file[push-value-sync]",
        (
            EARS,
            'if file.partition("-")[0] in keys:',
            "if False:",
        ),
    ),
    bug(
        "values survive a reboot",
        f"{TESTS}/test_files.py"
        "::test_after_a_boot_no_value_comes_back_and_a_torn_file_is_no_trouble",
        (FILES, "usable = not fresh and not booted and words", "usable = not fresh and words"),
        (
            FILES,
            "            if usable:\n                database.connect()",
            "            if False:\n                database.connect()",
        ),
    ),
    bug(
        "values are read from files that were deleted",
        f"{TESTS}/test_files.py::test_deleted_files_are_made_again_empty_and_shared_by_all[all]",
        (READING, "                if self._moved():\n", "                if False:\n"),
    ),
    bug(
        "expired values stay in the file",
        f"{TESTS}/test_files.py::test_expired_values_are_removed_by_later_writes",
        (VERBS, "        self.run(_SQL.values_fade, (now, FADE))\n", ""),
    ),
    bug(
        "a read on a loop waits for the worker",
        f"{TESTS}/test_guards_reading.py"
        "::test_on_a_loop_a_read_waits_for_no_file_mutex_and_for_no_thread",
        (
            "holdfast.stores.sqlite.aio.guards",
            "            if found is not None:\n",
            "            if found == 1:\n",
        ),
    ),
    bug(
        "an interrupt at the end of a request leaves the refresh lease",
        f"{DEATH}::test_an_interrupt_at_the_end_of_a_wait_releases_the_refresh_lease",
        (
            REFRESH,
            "                    guards.unlisten(wish)  # inside",
            "                    pass  # inside",
        ),
        (
            REFRESH,
            "            guards.unlisten(wish)\n            await give_up(",
            "            await give_up(",
        ),
        (
            REFRESH,
            "        finally:\n            ctx.under_way.pop(self, None)\n",
            "        finally:\n            guards.unlisten(wish)\n",
        ),
    ),
    bug(
        "a connection for reads is not closed when it is collected",
        f"{TESTS}/test_forgotten.py"
        "::test_neither_ctrl_c_nor_forgetting_leaves_a_connection_open[this]",
        (READING, "            factory=Closing,\n", ""),
        commands=True,
    ),
    bug(
        "a child closes its parent's connection when it collects it",
        f"{TESTS}/test_forgotten.py::test_in_a_child_the_connection_of_its_parent_stays_open",
        (
            "holdfast.stores.sqlite.blocking.closing",
            "        if self._pid not in (0, self._getpid()):\n",
            "        if False:\n",
        ),
    ),
]
