"""Bugs planted into the core of locks: releases, the renewer, closes and rare ends."""

from __future__ import annotations

from .bugs import bug

ADOPT = "holdfast.core.adopt"
CLAIMS = "holdfast.core.claims"
CONTEXT = "holdfast.core.context"
DOOR = "holdfast.core.door"
HOLD = "holdfast.core.hold"
KEEPER = "holdfast.core.keeper"
PLACE = "holdfast.core.place"
SCHEDULE = "holdfast.core.schedule"
SEMAPHORE = "holdfast.core.semaphore"
TOGETHER = "holdfast.core.together"
UNDOS = "holdfast.core.undos"

BLOCKING = "holdfast.runtime.blocking"
QUEUE = "holdfast.sync.queue"
DECORATED_BY = "holdfast.core.decorated"

DECORATED = "tests/core/test_decorated.py"
ENDS = "tests/core/test_odd_ends.py"
FOREIGN = "tests/core/test_foreign_text.py"
END = "tests/core/test_keeper_end.py"
INSIDE = "tests/core/test_inside.py"
BACK = "tests/core/test_given_back.py"
LIMITS = "tests/core/test_keeper_limits.py"
MISUSE = "tests/core/test_door_misuse.py::test"
KIT = "tests/conformance/test_conformance.py::test_conforms"
ALTERED = "a_token_with_another_fence_is_refused_and_the_true_one_still_works"

CORE = [
    bug(
        "an adopted hold loses its max_hold and min_hold",
        "tests/core/test_token.py::test_an_adopted_hold_keeps_what_is_left_of_its_terms",
        ("holdfast.core.adopt", "max_hold=max(left.longest, 0.001), min_hold=left.least", ""),
    ),
    bug(
        "an unpickled error loses its fields",
        "tests/core/test_pickling.py::test_every_error_goes_to_another_process_and_is_copied",
        ("holdfast.errors", "made.args = args\n    vars(made).update(state)", "made.args = args"),
    ),
    # -- the ends of with-blocks -------------------------------------------------------------
    bug(
        "an end that belongs to no with-block takes the latest entry",
        f"{MISUSE}_a_second_end_of_a_with_frees_no_other_hold",
        (DOOR, "        return _left_over(entries)\n", "        return entries[-1]\n"),
    ),
    bug(
        "generators of one thread are left in the order of a stack",
        f"{MISUSE}_two_generators_of_one_thread_release_their_own_holds",
        (DOOR, "        if exact:\n", "        if False:\n"),
    ),
    bug(
        "the number of a frame alone identifies a with-block",
        f"{MISUSE}_a_function_that_entered_by_hand_is_not_known_by_its_number",
        (
            PLACE,
            "return self.stack is not None or bool(self.code.co_flags & _MOVABLE)",
            "return True",
        ),
        (
            DOOR,
            "            if found.exact() or found in ours:\n",
            "            if True:\n",
        ),
    ),
    bug(
        "a with-block is left by a function that it calls",
        f"{MISUSE}_a_statement_around_is_not_left_by_what_it_calls",
        (
            DOOR,
            "for one in ours if not one.exact() and not one.around(frame)]",
            "for one in ours if not one.exact()]",
        ),
        (
            DOOR,
            "[one for one in ours if not one.around(frame)], ours)",
            "ours)",
        ),
    ),
    # -- releases ----------------------------------------------------------------------------
    bug(
        "work that was protected to its end fails for a silent store",
        f"{BACK}::test_work_that_was_protected_to_its_end_does_not_fail_for_a_silent_store[lock]",
        (
            DOOR,
            "    if hold._before is None:\n        log",
            "    raise silence\n    if hold._before is None:\n        log",
        ),
    ),
    bug(
        "a lease that ends during its release fails the body",
        f"{BACK}::test_a_lease_that_ends_during_the_release_does_not_fail_the_body[lock]",
        (DOOR, "(hold._before is None and reason in LATE and not ours)", "False"),
    ),
    bug(
        "the second of two releases takes the first one for a break",
        f"{BACK}::test_two_releases_at_once_both_say_that_it_was_held",
        (
            HOLD,
            "                    if not there and lease.leaving:\n",
            "                    if False:\n",
        ),
        (
            "holdfast.core.leaving",
            "    return None if lease.unheard or lease.leaving else Loss.BROKEN\n",
            "    return Loss.BROKEN\n",
        ),
        (
            HOLD,
            "        if lease.end is not None:\n            return\n        self._ctx",
            "        self._ctx",
        ),
    ),
    bug(
        "two simultaneous releases of a broken hold report no loss",
        f"{KIT}[memory-aio-lock-two_releases_at_once_of_a_broken_hold_both_say_that_it_was_lost]",
        (
            HOLD,
            "                    if not there and lease.leaving:\n",
            "                    if False:\n",
        ),
    ),
    bug(
        "two simultaneous releases of several broken holds report no loss",
        f"{KIT}[memory-sync-lock-two_releases_at_once_of_several_names_tell_of_a_break_alone]",
        (TOGETHER, "    if not there and lease.leaving:\n", "    if False:\n"),
    ),
    bug(
        "a repeated release takes its first attempt for a break",
        f"{BACK}::test_a_release_after_one_that_was_not_answered_is_no_loss[lock]",
        (
            "holdfast.core.leaving",
            "    return None if lease.unheard or lease.leaving else Loss.BROKEN\n",
            "    return None if lease.leaving else Loss.BROKEN\n",
        ),
    ),
    bug(
        "a cancellation during an undo is swallowed",
        f"{BACK}::test_a_cancellation_during_the_undo_of_a_silent_store_wins",
        (CONTEXT, "            if replaces(late, ends):\n", "            if False:\n"),
    ),
    # -- the renewer -------------------------------------------------------------------------
    bug(
        "a renewer that could not start once never starts",
        f"{LIMITS}::test_a_renewer_that_failed_to_start_starts_with_the_next_hold",
        (
            KEEPER,
            "                del self._turns[0]\n            raise\n",
            "            raise\n",
        ),
    ),
    bug(
        "an extension keeps the renewal pauses of the former length",
        f"{LIMITS}::test_an_extension_to_a_shorter_time_is_renewed_in_time",
        (KEEPER, "            lease.every = renew_every(lease.longest(sent))\n", ""),
    ),
    bug(
        "a lease that is scheduled at a separate time keeps its place in the queue",
        "tests/core/test_schedule.py"
        "::test_what_is_put_at_a_time_of_its_own_hides_nothing_in_its_queue[renewed]",
        (
            SCHEDULE,
            "            queue.pop(lease, None)\n        lease.due = due\n",
            "            pass\n        lease.due = due\n",
        ),
    ),
    bug(
        "an older renewal that is answered late undoes an extension to less",
        f"{KIT}[memory-sync-lock-a_hold_extended_to_less_is_believed_no_longer_by_an_older_renewal]",
        ("holdfast.core.lease", "            if sent < one.until:\n", "            if False:\n"),
    ),
    bug(
        "a cancelled renewer forgets the leases that it was about to renew",
        f"{LIMITS}::test_a_renewer_cancelled_during_a_renewal_continues_it",
        (KEEPER, "        for lease in self._asked:\n", "        for lease in self._asked[:0]:\n"),
    ),
    bug(
        "a close overlooks the leases that are being renewed",
        f"{LIMITS}::test_closing_during_a_renewal_leaves_no_name_occupied",
        (KEEPER, "self._schedule.empty() + self._asked\n", "self._schedule.empty()\n"),
    ),
    bug(
        "the hold of a repeated join is renewed as if its lease were whole",
        f"{LIMITS}::test_a_hold_of_a_repeated_join_is_renewed_before_its_lease_ends",
        (CLAIMS, "        elif left < lease.ttl * WHOLE_PART:", "        elif False:"),
    ),
    bug(
        "all() compares the longest lease when the reply comes",
        f"{LIMITS}::test_all_returns_no_hold_whose_lease_ended_before_the_reply",
        (TOGETHER, "min(ends)", "max(ends)"),
        (TOGETHER, "min([lease.deadline for", "max([lease.deadline for"),
    ),
    bug(
        "all() compares the longest lease when the holds are made",
        f"{LIMITS}::test_all_hands_out_no_hold_whose_lease_ended_while_the_holds_were_made",
        (TOGETHER, "min([lease.deadline for", "max([lease.deadline for"),
    ),
    bug(
        "a repeated release of all() also counts after the deadline",
        f"{LIMITS}::test_a_repeated_release_of_all_after_the_deadline_returns_false",
        (TOGETHER, "there or (again and ctx.now() < lease.deadline)", "there or again"),
    ),
    bug(
        "the undo of a suspect join ends with its lease",
        f"{LIMITS}::test_the_undo_of_a_suspect_join_is_gone_on_with_until_no_copy_can_come",
        (KEEPER, "        until += TOMB_S if leave.suspect else 0.0\n", ""),
    ),
    bug(
        "undos without a reply delay renewals",
        f"{LIMITS}::test_undos_that_are_not_answered_hold_up_no_renewal",
        (UNDOS, "            if free() <= 0:\n                return\n", ""),
    ),
    bug(
        "released leases stay until their deadline",
        f"{LIMITS}::test_released_leases_that_were_watched_are_cleared_away",
        (
            SCHEDULE,
            "            if dead >= DEAD_MAX and not self.crowded:\n",
            "            if False:\n",
        ),
    ),
    bug(
        "each length of a lease is remembered permanently",
        f"{LIMITS}::test_lease_lengths_no_longer_used_are_forgotten",
        (
            SCHEDULE,
            "        if len(queues) > LENGTHS_MAX and not self.crowded:\n",
            "        if False:\n",
        ),
    ),
    bug(
        "a renewer that is woken lingers for the whole time again",
        f"{END}::test_a_wake_up_does_not_extend_the_idle_time_of_a_renewer",
        (
            KEEPER,
            "math.inf if self._forgotten or now >= until else until",
            "math.inf if self._forgotten or now >= until else now + LINGER_S",
        ),
    ),
    bug(
        "a forgotten client is pinned by its renewer",
        f"{LIMITS}::test_a_forgotten_client_is_collected_soon",
        ("holdfast.sync.client", "            ctx.keeper.forgotten()\n", "            pass\n"),
    ),
    bug(
        "a client that is forgotten with its holds is pinned by its renewer",
        f"{LIMITS}::test_a_client_that_is_forgotten_with_what_it_holds_is_collected_soon"
        "[True-client]",
        ("holdfast.core.context", "                self.keeper.drop(lease)\n", ""),
    ),
    # -- tokens ------------------------------------------------------------------------------
    bug(
        "the fence in a token is trusted",
        f"{KIT}[memory-sync-lock-{ALTERED}]",
        (ADOPT, "    await across.renew(ctx, passed, length, until)\n", ""),
    ),
    # -- garbage collection inside the store ---------------------------------------------------
    bug(
        "a loop that is collected inside the store settles its job there",
        f"{INSIDE}::test_a_generator_collected_inside_the_store_releases_its_claims[memory-jobs]",
        (QUEUE, "            if nested(sys._getframe(1)):\n", "            if False:\n"),
    ),
    bug(
        "a hold that is collected inside the store is released there",
        f"{INSIDE}::test_a_generator_collected_inside_the_store_releases_its_claims[sqlite-lock]",
        (BLOCKING, "        if any(code is one for one in _INSIDE):", "        if False:"),
    ),
    # -- functions that would run after the lock -----------------------------------------------
    bug(
        "a decorator accepts the partial of a generator function",
        f"{DECORATED}::test_among_threads_no_decorator_takes_what_runs_later"
        "[lock-generator-partial of an object]",
        (
            "holdfast.core.functions",
            "        if isinstance(inner, partial):\n",
            "        if False:\n",
        ),
    ),
    bug(
        "a decorator accepts the function of a context manager",
        f"{DECORATED}::test_among_threads_no_decorator_takes_what_runs_later[lock-managed-plain]",
        (DECORATED_BY, "    elif any(getattr(one", "    elif False and any(getattr(one"),
    ),
    bug(
        "a lock of asyncio accepts the partial of a plain function",
        f"{DECORATED}::test_a_lock_of_asyncio_refuses_a_plain_function_at_once[partial]",
        ("holdfast.aio.locks", "        require_coroutine(function)\n", "        pass\n"),
    ),
    bug(
        "the coroutine of on_lost is never awaited",
        f"{DECORATED}::test_under_asyncio_a_coroutine_function_is_awaited_when_the_hold_is_lost"
        "[option-plain]",
        (
            KEEPER,
            "self._ctx.runtime.follow(call(hold, lease.reason), TOLD.format(lease.name))",
            "call(hold, lease.reason)",
        ),
    ),
    # -- rare ends -----------------------------------------------------------------------------
    bug(
        "a cancelled renewer forgets an undo that is under way",
        f"{ENDS}::test_an_undo_continues_after_its_renewer_is_cancelled",
        (UNDOS, "return self._due[0][2:]\n", "return heapq.heappop(self._due)[2:]\n"),
        (UNDOS, "            heapq.heappop(self._due)  # not", "            pass  # not"),
    ),
    bug(
        "a second close does nothing",
        f"{ENDS}::test_a_second_close_ends_what_the_first_one_was_interrupted_in",
        (
            "holdfast.core.closing",
            "        while not ctx.ended:\n",
            "        while not ctx.closed:\n",
        ),
    ),
    bug(
        "all() does not cancel its body",
        f"{ENDS}::test_all_at_once_cancels_its_body_when_a_part_is_lost_that_asks_for_it",
        (
            "holdfast.core.multi",
            "                        one.on_lost(guard.lost)\n",
            "                        pass\n",
        ),
    ),
    bug(
        "a wake-up for an ended loop raises an error",
        f"{ENDS}::test_a_wake_up_for_an_ended_loop_does_not_fail[latch]",
        (
            "holdfast.runtime.aio",
            "    with contextlib.suppress(RuntimeError):\n        loop.call_soon_threadsafe(call",
            "    with contextlib.suppress(OSError):\n        loop.call_soon_threadsafe(call",
        ),
    ),
    bug(
        "each new tombstone sweeps all tombstones",
        f"{ENDS}::test_the_number_of_tombstone_sweeps_does_not_grow_with_their_number",
        (
            "holdfast.stores.memory.line",
            "self._tombs_look = max(TOMBS_LOOK, 2 * len(self.tombs))",
            "self._tombs_look = TOMBS_LOOK",
        ),
    ),
    bug(
        "a semaphore is resized below the weight of the same object",
        f"{KIT}[memory-sync-semaphore-nobody_makes_fewer_permits_than_what_the_same_object_takes]",
        (SEMAPHORE, "        if self._spec.weight > count:\n", "        if False:\n"),
    ),
    bug(
        "a worker thread that could not start once never starts",
        f"{ENDS}::test_a_worker_thread_that_could_not_start_once_starts_with_the_next_request",
        (
            "holdfast.stores.sqlite.aio.loop",
            "start()\n            self.thread = thread\n",
            "start()\n",
        ),
        (
            "holdfast.stores.sqlite.aio.loop",
            "        _working[thread] = self.jobs\n",
            "        _working[thread] = self.jobs\n        self.thread = thread\n",
        ),
    ),
    # -- text of other processes -----------------------------------------------------------------
    bug(
        "the owner of another process is printed without escapes",
        f"{FOREIGN}::test_the_owner_of_another_forges_no_line_of_our_errors[lock]",
        ("holdfast.core.lock", "held by {visible(holder)}{since}", "held by {holder}{since}"),
    ),
]
