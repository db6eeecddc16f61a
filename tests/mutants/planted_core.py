"""Bugs planted into the core and the faces, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

CORE = [
    bug(
        "a claim forgets that its join was sent twice",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-lock-two_failures_in_a_row_leave_one_holder_"
            "and_nothing_behind]"
        ),
        ("holdfast.core.asking", "        self.suspect = True\n", ""),
    ),
    bug(
        "a pause after a failure ends after the time limit",
        "tests/core/test_asking.py::test_no_copy_is_sent_at_the_time_limit_or_later",
        ("holdfast.core.asking", "self.ctx.now() + pause < until", "self.ctx.now() < until"),
    ),
    bug(
        "a join that arrives after its release enters the line",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-lock-two_failures_in_a_row_leave_one_holder_"
            "and_nothing_behind]"
        ),
        ("holdfast.stores.memory.line", "        if leave.suspect:\n", "        if False:\n"),
    ),
    bug(
        "a repeated adoption is refused",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-lock-two_failures_in_a_row_hand_a_hold_over_"
            "once_or_not_at_all]"
        ),
        (
            "holdfast.stores.memory.line",
            "        if line is not None and fresh in line.held:  # a repeated request\n",
            "        if False:\n",
        ),
    ),
    bug(
        "a repeated resize counts twice",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-semaphore-two_failures_in_a_row_let_no_more_"
            "in_than_a_resize_says]"
        ),
        (
            "holdfast.stores.memory.line",
            "        if capacity != former:\n",
            ("        capacity += capacity == former > 1\n        if capacity != former:\n"),
        ),
    ),
    bug(
        "a break also ends the hold of a later claim",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-lock-two_failures_in_a_row_break_the_one_hold_"
            "that_was_named]"
        ),
        (
            "holdfast.stores.memory.line",
            "next((r for r in line.rows() if r.ticket == ticket), None)",
            "next((r for r in line.rows() if r.ticket >= ticket), None)",
        ),
    ),
    bug(
        "all() withdraws suspect claims without tombstones",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-all-two_failures_in_a_row_leave_one_holder_of_"
            "several_names]"
        ),
        ("holdfast.core.together", "one.id, 0, suspect=True, ttl", "one.id, 0, suspect=False, ttl"),
    ),
    bug(
        "all() is granted though one of its claims was withdrawn",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-all-two_failures_in_a_row_leave_one_holder_of_"
            "several_names]"
        ),
        (
            "holdfast.stores.memory.line",
            "            if self.tombs.get(claim.id, _NO_TOMB)[0] > now:\n",
            "            if False:\n",
        ),
    ),
    bug(
        "a repeated release of several names reports that nothing was held",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-all-two_failures_in_a_row_leave_one_holder_of_"
            "several_names]"
        ),
        ("holdfast.core.together", "there or (again and ctx.now() < lease.deadline)", "there"),
    ),
    bug(
        "a thread that ended before it began counts as started",
        (
            "tests/core/test_thread_start.py"
            "::test_the_start_of_a_thread_that_ends_before_it_begins_fails_in_time"
        ),
        (
            "holdfast.runtime.starting.blocking",
            "        if not self._started.is_set() and self.give_up():\n",
            "        if False:\n",
        ),
    ),
    bug(
        "a thread that was given up still begins",
        (
            "tests/core/test_thread_start.py"
            "::test_a_thread_that_begins_after_it_was_given_up_does_nothing"
        ),
        (
            "holdfast.runtime.starting.blocking",
            "        if self._decided.acquire(blocking=False):\n            super().run()",
            "        if True:\n            super().run()",
        ),
    ),
    bug(
        "a token with a wrong checksum is accepted",
        ("tests/core/test_token.py::test_a_token_is_refused_with_any_letter_cut_off_or_changed"),
        (
            "holdfast.core.token",
            "    if found != _sum(raw) or base64.",
            "    if not found and base64.",
        ),
    ),
    bug(
        "the rest of a lease after a repeated join is trusted beyond its ttl",
        (
            "tests/core/test_claims.py"
            "::test_a_lease_is_valid_for_at_most_its_ttl_whatever_the_store_returns"
        ),
        ("holdfast.core.claims", "min(standing.expires_in, self.spec.ttl)", "standing.expires_in"),
    ),
    bug(
        "an interrupt during the start of the renewer leaves two renewers",
        (
            "tests/core/test_thread_start.py"
            "::test_an_interrupt_while_the_renewer_starts_leaves_one_renewer"
        ),
        (
            "holdfast.core.keeper",
            "            if self._turns.get(0) is turn and next(turn, False):\n",
            "            if self._turns.get(0) is turn:\n",
        ),
    ),
    bug(
        "the key of a cached function can leave out a parameter",
        (
            "tests/queues/test_misuse.py"
            "::test_a_function_whose_values_would_be_shared_by_all_its_users_is_refused"
        ),
        ("holdfast.core.template", "    if not missing:\n", "    if True:\n"),
    ),
    bug(
        "a file mutex gets the descriptor of stdin",
        (
            "tests/stores/sqlite/test_descriptors.py"
            "::test_a_daemon_that_replaces_its_standard_descriptors_loses_no_"
            "lock[(0,)-started so]"
        ),
        (
            "holdfast.runtime.opening.blocking",
            "        while not all(map(_taken, range(FIRST))):\n",
            "        while not all(map(_taken, range(0))):\n",
        ),
        commands=True,
    ),
    bug(
        "an end that belongs to no with-block takes the latest entry",
        "tests/core/test_door_misuse.py::test_a_second_end_of_a_with_frees_no_other_hold",
        (
            "holdfast.core.door",
            "        return _left_over(entries)\n",
            "        return entries[-1]\n",
        ),
    ),
    bug(
        "work that was protected to its end fails for a silent store",
        (
            "tests/core/test_given_back.py"
            "::test_work_that_was_protected_to_its_end_does_not_fail_for_a_silent_"
            "store[lock]"
        ),
        (
            "holdfast.core.door",
            "    if hold._before is None:\n        log",
            ("    raise silence\n    if hold._before is None:\n        log"),
        ),
    ),
    bug(
        "the second of two releases takes the first one for a break",
        "tests/core/test_given_back.py::test_two_releases_at_once_both_say_that_it_was_held",
        (
            "holdfast.core.hold",
            "                    if not there and lease.leaving:\n",
            "                    if False:\n",
        ),
        (
            "holdfast.core.leaving",
            "    return None if lease.unheard or lease.leaving else Loss.BROKEN\n",
            "    return Loss.BROKEN\n",
        ),
        (
            "holdfast.core.hold",
            ("        if lease.end is not None:\n            return\n        self._ctx"),
            "        self._ctx",
        ),
    ),
    bug(
        "a cancellation during an undo is swallowed",
        (
            "tests/core/test_given_back.py"
            "::test_a_cancellation_during_the_undo_of_a_silent_store_wins"
        ),
        (
            "holdfast.core.context",
            "            if replaces(late, ends):\n",
            "            if False:\n",
        ),
    ),
    bug(
        "a renewer that could not start once never starts",
        (
            "tests/core/test_keeper_limits.py"
            "::test_a_renewer_that_failed_to_start_starts_with_the_next_hold"
        ),
        (
            "holdfast.core.keeper",
            ("                del self._turns[0]\n            raise\n"),
            "            raise\n",
        ),
    ),
    bug(
        "an extension keeps the renewal pauses of the former length",
        (
            "tests/core/test_keeper_limits.py"
            "::test_an_extension_to_a_shorter_time_is_renewed_in_time"
        ),
        (
            "holdfast.core.keeper",
            "            lease.every = renew_every(lease.longest(sent))\n",
            "",
        ),
    ),
    bug(
        "a cancelled renewer forgets the leases that it was about to renew",
        (
            "tests/core/test_keeper_limits.py"
            "::test_a_renewer_cancelled_during_a_renewal_continues_it"
        ),
        (
            "holdfast.core.keeper",
            "        for lease in self._asked:\n",
            "        for lease in self._asked[:0]:\n",
        ),
    ),
    bug(
        "a close overlooks the leases that are being renewed",
        ("tests/core/test_keeper_limits.py::test_closing_during_a_renewal_leaves_no_name_occupied"),
        (
            "holdfast.core.keeper",
            "self._schedule.empty() + self._asked\n",
            "self._schedule.empty()\n",
        ),
    ),
    bug(
        "the hold of a repeated join is renewed as if its lease were whole",
        (
            "tests/core/test_keeper_limits.py"
            "::test_a_hold_of_a_repeated_join_is_renewed_before_its_lease_ends"
        ),
        (
            "holdfast.core.claims",
            "        elif left < lease.ttl * WHOLE_PART:",
            "        elif False:",
        ),
    ),
    bug(
        "all() compares the longest lease when the reply comes",
        (
            "tests/core/test_keeper_limits.py"
            "::test_all_returns_no_hold_whose_lease_ended_before_the_reply"
        ),
        ("holdfast.core.together", "min(ends)", "max(ends)"),
        ("holdfast.core.together", "min([lease.deadline for", "max([lease.deadline for"),
    ),
    bug(
        "a repeated release of all() also counts after the deadline",
        (
            "tests/core/test_keeper_limits.py"
            "::test_a_repeated_release_of_all_after_the_deadline_returns_false"
        ),
        (
            "holdfast.core.together",
            "there or (again and ctx.now() < lease.deadline)",
            "there or again",
        ),
    ),
    bug(
        "the undo of a suspect join ends with its lease",
        (
            "tests/core/test_keeper_limits.py"
            "::test_the_undo_of_a_suspect_join_is_gone_on_with_until_no_copy_can_come"
        ),
        ("holdfast.core.keeper", "        until += TOMB_S if leave.suspect else 0.0\n", ""),
    ),
    bug(
        "undos without a reply delay renewals",
        ("tests/core/test_keeper_limits.py::test_undos_that_are_not_answered_hold_up_no_renewal"),
        ("holdfast.core.undos", ("            if free() <= 0:\n                return\n"), ""),
    ),
    bug(
        "released leases stay until their deadline",
        (
            "tests/core/test_keeper_limits.py"
            "::test_released_leases_that_were_watched_are_cleared_away"
        ),
        (
            "holdfast.core.schedule",
            "            if dead >= DEAD_MAX and not self.crowded:\n",
            "            if False:\n",
        ),
    ),
    bug(
        "the fence in a token is trusted",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-lock-a_token_with_another_fence_is_refused_"
            "and_the_true_one_still_works]"
        ),
        ("holdfast.core.adopt", "    await across.renew(ctx, passed, length, until)\n", ""),
    ),
    bug(
        "a decorator accepts the partial of a generator function",
        (
            "tests/core/test_decorated.py"
            "::test_among_threads_no_decorator_takes_what_runs_"
            "later[lock-generator-partial of an object]"
        ),
        (
            "holdfast.core.functions",
            "        if isinstance(inner, partial):\n",
            "        if False:\n",
        ),
    ),
    bug(
        "a second close does nothing",
        (
            "tests/core/test_odd_ends.py"
            "::test_a_second_close_ends_what_the_first_one_was_interrupted_in"
        ),
        (
            "holdfast.core.closing",
            "        while not ctx.ended:\n",
            "        while not ctx.closed:\n",
        ),
    ),
    bug(
        "a wake-up for an ended loop raises an error",
        "tests/core/test_odd_ends.py::test_a_wake_up_for_an_ended_loop_does_not_fail[latch]",
        (
            "holdfast.runtime.aio",
            ("    with contextlib.suppress(RuntimeError):\n        loop.call_soon_threadsafe(call"),
            "    with contextlib.suppress(OSError):\n        loop.call_soon_threadsafe(call",
        ),
    ),
    bug(
        "a semaphore is resized below the weight of the same object",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[memory-sync-semaphore-nobody_makes_fewer_permits_than_"
            "what_the_same_object_takes]"
        ),
        (
            "holdfast.core.semaphore",
            "        if self._spec.weight > count:\n",
            "        if False:\n",
        ),
    ),
    bug(
        "the owner of another process is printed without escapes",
        (
            "tests/core/test_foreign_text.py"
            "::test_the_owner_of_another_forges_no_line_of_our_errors[lock]"
        ),
        ("holdfast.core.lock", "held by {visible(holder)}{since}", "held by {holder}{since}"),
    ),
]
