"""Bugs in the ends of with-blocks and in the detection of endless waits, with their tests."""

from __future__ import annotations

from .bugs import bug

DOOR = "holdfast.core.door"
LOOPS_OF = "holdfast.aio.loops"
MISUSE = "tests/core/test_door_misuse.py"
ITSELF = "holdfast.core.itself"
ITSELF_TESTS = "tests/core/test_itself.py::test_"
ITSELF_NOT = "tests/core/test_itself_not.py::test_"
WALK = "tests/core/test_door_walk_kit.py::test_no_end_of_a_with_frees_what_another_statement_holds"

ENDS = [
    bug(
        "a body that ends in another loop keeps its lock",
        f"{WALK}[memory-aio-semaphore]",
        (
            LOOPS_OF,
            "            if door is not None and entry is not None:\n",
            "            if False:\n",
        ),
    ),
    bug(
        "a body that began in another loop keeps its lock",
        f"{WALK}[memory-aio-semaphore]",
        (
            DOOR,
            "                if what._elsewhere(failure, frame):\n",
            "                if False:\n",
        ),
    ),
    bug(
        "several names that are left in another loop stay held",
        f"{WALK}[memory-aio-all]",
        (LOOPS_OF, "    if not one._elsewhere(failure, frame):\n", "    if True:\n"),
    ),
    bug(
        "a hold whose body ends in another loop is released there",
        f"{WALK}[sqlite-aio-lock]",
        (LOOPS_OF, "    if not away(ctx):\n        await hold", "    if True:\n        await hold"),
    ),
    bug(
        "a body that ends in another loop isn't notified of its loss",
        f"{WALK}[memory-aio-semaphore]",
        (LOOPS_OF, "                handed_over(entry.hold, one._what, failure)\n", ""),
    ),
    bug(
        "a hold that a coroutine entered by hand is found by its frame number alone",
        f"{MISUSE}::test_a_coroutine_that_entered_by_hand_is_not_known_by_its_number",
        (DOOR, "            if found.exact() or found in ours:\n", "            if True:\n"),
    ),
    bug(
        "an exit by hand takes the lock from a generator of its task",
        f"{WALK}[memory-aio-semaphore]",
        (DOOR, "if not one.exact() and not one.around", "if not one.movable() and not one.around"),
    ),
    bug(
        "a wait that a timer ends is refused as endless",
        f"{ITSELF_TESTS}a_timer_that_ends_the_wait_is_left_to_end_it",
        (ITSELF, "if not around or ctx.runtime.hurried():", "if not around:"),
    ),
    bug(
        "a hold that was entered by hand counts as one of a with-block",
        f"{ITSELF_NOT}what_was_entered_by_hand_is_waited_for",
        (ITSELF, "if not spot.number or not _by_statement(spot):", "if not spot.number:"),
    ),
    bug(
        "a hold that expires by itself counts as endless",
        f"{ITSELF_TESTS}what_ends_by_itself_is_waited_for[options0]",
        (ITSELF, "if one.around is not None and _endless(one)]", "if one.around is not None]"),
    ),
    bug(
        "free permits count as permits of the waiter",
        f"{ITSELF_TESTS}a_claim_that_fits_next_to_own_holds_is_granted_after_others",
        (ITSELF, "if sum(weights) + spec.weight > lines[0].capacity:", "if True:"),
    ),
    bug(
        "a hold that was handed on counts as released only by its own with-block",
        f"{ITSELF_NOT}a_hold_that_was_handed_on_is_waited_for[lambda]",
        (ITSELF, "lease.stop_at == math.inf and not _handed_on(own)", "lease.stop_at == math.inf"),
    ),
    bug(
        "a hold of several names counts as never handed on",
        f"{ITSELF_NOT}several_that_were_handed_on_are_waited_for[whole]",
        (
            ITSELF,
            "    if own.several is None:\n        return more",
            "    if True:\n        return more",
        ),
    ),
    bug(
        "a task counts as an obstacle to the thread that started its loop",
        f"{ITSELF_NOT}a_task_does_not_hold_up_the_thread_around_its_loop",
        (ITSELF, "around = frame if mine or not ctx.runtime.awaits else None", "around = frame"),
    ),
    bug(
        "a hold in another store counts as one in the same store",
        f"{ITSELF_TESTS}the_same_name_in_another_store_is_another_one",
        ("holdfast.core.context", "if one.source == self.source]", "if True]"),
    ),
]
