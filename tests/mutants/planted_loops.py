"""Bugs planted into a client under several event loops, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

HOMES = "holdfast.aio.loops"
AIO = "holdfast.runtime.aio"
CLOSED = "tests/conformance/test_loops_closed.py::test_"
WORKER = "holdfast.stores.sqlite.aio.loop"
OVERDUE = "tests/stores/sqlite/test_loop.py::test_each_of_several_requests_ends_at_its_own_time"
TEST = "tests/conformance/test_loops.py::test_"

KIT = "tests/conformance/test_conformance.py::test_conforms[memory-aio"

LOOPS = [
    bug(
        "a lock that one loop has used is used unchanged in the next loop",
        f"{TEST}a_client_made_at_import_time_serves_one_loop_after_the_other[memory]",
        (HOMES, "    return twin(one, ctx.home.find(loop))\n", "    return one\n"),
    ),
    bug(
        "the connections of a loop stay open when it ends",
        f"{TEST}what_a_loop_forgot_to_release_is_free_when_it_has_ended[sqlite]",
        (HOMES, "            found.ending = _begin(found, loop)\n", "            pass\n"),
    ),
    bug(
        "the connections of a loop that was closed with holds stay open",
        f"{CLOSED}nothing_outlives_loops_that_were_closed_with_something_held[sqlite]",
        (HOMES, "            let_go()\n", "            pass\n"),
    ),
    bug(
        "a global set keeps a closed loop in memory",
        f"{CLOSED}nothing_outlives_loops_that_were_closed_with_something_held[postgresql]",
        (AIO, "        fellows.add(self)\n", "        _all.add(self)\n"),
        (AIO, "class Errand(Generic[T]):\n", "_all = set()\n\n\nclass Errand(Generic[T]):\n"),
        (AIO, "        self._fellows.discard(self)\n", "        _all.discard(self)\n"),
    ),
    bug(
        "the timer of all requests is set only once",
        OVERDUE,
        (
            WORKER,
            "        if self._due and self._loop is not None and not self._closed:\n",
            "        if False:\n",
        ),
    ),
    bug(
        "a short request waits for the timer of a long one",
        OVERDUE,
        (
            WORKER,
            "            if due < self._looks_at or clock_patched():\n",
            "            if self._timer is None:\n",
        ),
    ),
    bug(
        "a loop is identified by the thread that it ran in first",
        f"{TEST}a_loop_that_moves_to_another_thread_takes_its_own_parts_along",
        (
            HOMES,
            "    return loop if tells else _Foreign(loop)\n",
            '    return type("", (), {"_thread_id": threading.get_ident()})\n',
        ),
    ),
    bug(
        "a client keeps every loop that used it",
        f"{TEST}a_client_forgets_ended_loops[memory]",
        (HOMES, "if one.is_closed()]", "if one.is_running()]"),
    ),
    bug(
        "the close of a client skips the loops of other threads",
        f"{TEST}closing_a_client_closes_it_in_every_loop[memory]",
        (
            HOMES,
            "    for loop, ctx in contexts.items():\n",
            "    for loop, ctx in ():\n",
        ),
    ),
    bug(
        "the end of a loop takes the lock from a generator that is leaving",
        f"{TEST}a_generator_that_ends_with_the_loop_releases_its_own_lock[memory]",
        (HOMES, "                if not ctx.keeper.pending():\n", "                if True:\n"),
    ),
    bug(
        "a hold can be released in another loop",
        f"{KIT}-lock-a_hold_is_given_back_in_its_own_event_loop_alone]",
        (HOMES, "        raise another_loop()\n", "        pass\n"),
    ),
    bug(
        "a delivery can be settled in another loop",
        f"{KIT}-queue-a_delivery_is_settled_in_its_own_event_loop_alone]",
        (HOMES, "        raise another_loop()\n", "        pass\n"),
    ),
    bug(
        "a renewer is started in the thread that asks for it",
        f"{KIT}-lock-who_asks_in_a_plain_thread_to_be_told_of_a_loss_is_told_in_the_loop]",
        (
            "holdfast.runtime.aio",
            "        if loop is None or loop is running:\n            return self._begin",
            "        if True:\n            return self._begin",
        ),
    ),
    bug(
        "an acquire runs in the loop that called it, not in the loop that awaits it",
        f"{KIT}-lock-an_acquire_belongs_to_the_event_loop_that_awaits_it]",
        (
            "holdfast.aio.locks",
            "        self._work = lock._acquire_here(self._blocking, self._timeout, self._at)\n",
            "        self._work = lock._acquire(self._blocking, self._timeout, self._at)\n",
        ),
    ),
]
