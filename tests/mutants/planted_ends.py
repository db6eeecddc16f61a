"""Bugs planted into the ends of ``with``, and the walk that must catch each."""

from __future__ import annotations

from .bugs import bug

DOOR = "holdfast.core.door"
LOOPS_OF = "holdfast.aio.loops"
MISUSE = "tests/core/test_door_misuse.py"
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
        "a hold whose body ends in another loop is given back there",
        f"{WALK}[sqlite-aio-semaphore]",
        (LOOPS_OF, "    if not away(ctx):\n        await hold", "    if True:\n        await hold"),
    ),
    bug(
        "a loss is not told to a body that ends in another loop",
        f"{WALK}[memory-aio-semaphore]",
        (LOOPS_OF, "                handed_over(entry.hold, one._what, failure)\n", ""),
    ),
    bug(
        "what was entered by hand in a coroutine is left by number alone",
        f"{MISUSE}::test_a_coroutine_that_entered_by_hand_is_not_known_by_its_number",
        (DOOR, "            if found.exact() or found in ours:\n", "            if True:\n"),
    ),
    bug(
        "an end by hand takes the lock from a generator of its task",
        f"{WALK}[memory-aio-semaphore]",
        (DOOR, "if not one.exact() and not one.around", "if not one.movable() and not one.around"),
    ),
]
