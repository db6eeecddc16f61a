"""Bugs planted into the close of a client, its threads and loops, and its forks."""

from __future__ import annotations

from .bugs import bug

CLOSES = "holdfast.core.closing"
KIT = "tests/conformance/test_conformance.py::test_conforms"
LOOPS_CLOSED = "tests/conformance/test_loops_closed.py"
MEANWHILE = "tests/faults/test_closed_meanwhile.py"
STARTING = "tests/stores/zookeeper/test_starting.py"
STARTS = "tests/core/test_thread_start.py"
TWO = "tests/core/test_two_closes.py"
ZOOKEEPER = "holdfast.stores.zookeeper.blocking.driver"

CLOSING = [
    bug(
        "a hold whose client was collected doesn't notice a fork",
        f"{KIT}[sqlite-sync-lock-a_fork_is_seen_by_a_hold_whose_client_is_forgotten]",
        (
            "holdfast.sync.client",
            "        fork.register(self._ctx)  # a lock or a hold may outlive the client\n",
            "        Client.forked = lambda one: one._ctx.forked()\n        fork.register(self)\n",
        ),
    ),
    bug(
        "a second close ends the connections that the first one uses",
        f"{TWO}::test_a_close_does_not_wait_without_a_limit_for_a_hanging_close",
        (CLOSES, "                if first is me:\n", "                if True:\n"),
    ),
    bug(
        "a close waits a minute for a close that hangs",
        f"{TWO}::test_a_close_does_not_wait_without_a_limit_for_a_hanging_close",
        (CLOSES, "        until = ctx.now() + WAIT_S\n", "        until = ctx.now() + 60.0\n"),
    ),
    bug(
        "a close waits for itself",
        f"{TWO}::test_a_callback_that_closes_the_closing_client_does_not_wait",
        (CLOSES, "            if first.flow == me.flow:\n", "            if False:\n"),
    ),
    # -- threads whose start is interrupted ------------------------------------------------------
    bug(
        "an interrupt during the start of the renewer leaves two renewers",
        f"{STARTS}::test_an_interrupt_while_the_renewer_starts_leaves_one_renewer",
        (
            "holdfast.core.keeper",
            "            if self._turns.get(0) is turn and next(turn, False):\n",
            "            if self._turns.get(0) is turn:\n",
        ),
    ),
    bug(
        "an interrupt during the start of a store's worker leaves two workers",
        f"{STARTS}::test_an_interrupt_while_the_worker_of_a_store_starts_leaves_one_worker",
        (
            "holdfast.stores.sqlite.aio.loop",
            "            if not thread.give_up():",
            "            if False:",
        ),
    ),
    bug(
        "an alarm whose thread could not start once never rings",
        f"{STARTS}::test_an_alarm_whose_thread_could_not_start_once_rings_with_the_next",
        (
            "holdfast.stores.zookeeper.blocking.alarm",
            "                del self._threads[0]\n",
            "                pass\n",
        ),
    ),
    bug(
        "an alarm whose thread was killed never rings again",
        f"{STARTS}::test_an_alarm_whose_thread_is_ended_by_its_call_calls_again",
        (
            "holdfast.stores.zookeeper.blocking.alarm",
            "            if not self._stopped and self._at < math.inf:  # something",
            "            if False:  # something",
        ),
    ),
    bug(
        "a renewer whose thread was killed has no successor",
        "tests/core/test_keeper_end.py::test_a_renewer_whose_thread_is_killed_is_replaced",
        (
            "holdfast.core.keeper",
            "        if not self._stopped and next(self._nexts(), None) is not None:\n",
            "        if False:\n",
        ),
    ),
    # -- event loops ----------------------------------------------------------------------------
    bug(
        "the close of a client doesn't release the holds of an idle loop",
        f"{KIT}[redis-aio-lock-close_gives_back_what_an_event_loop_holds_that_does_not_run]",
        ("holdfast.aio.loops", "    return list(ctx.closing.left)\n", "    return []\n"),
    ),
    bug(
        "a slow close in another loop is cancelled",
        f"{LOOPS_CLOSED}::test_a_slow_close_in_another_loop_continues_there",
        (
            "holdfast.aio.loops",
            "    for future in late:\n",
            "    for future in late:\n        future.cancel()\n",
        ),
    ),
    bug(
        "an error of one loop leaves the client open in the loop that closes it",
        f"{LOOPS_CLOSED}::test_an_error_of_one_loop_leaves_the_client_open_in_no_other",
        (
            "holdfast.aio.loops",
            "        if mine is not None:\n",
            "        _raise_first(failures)\n        if mine is not None:\n",
        ),
    ),
    bug(
        "redis: a listener that is opened during a close stays open",
        f"{MEANWHILE}::test_the_connection_that_listens_is_ended_if_it_is_made_during_the_close[redis]",
        (
            "holdfast.stores.redis.blocking.port",
            "if refusal is None and not self._closed:",
            "if refusal is None:",
        ),
    ),
    bug(
        "postgres: a listener that is opened during a close stays open",
        f"{MEANWHILE}::test_the_connection_that_listens_is_ended_if_it_is_made_during_the_close"
        "[postgres]",
        (
            "holdfast.stores.postgres.blocking.port",
            "        if self._closed:  # closed during the opening\n            self._deafen()\n",
            "",
        ),
    ),
    bug(
        "mysql: a connection that returns to the pool during a close stays open",
        f"{MEANWHILE}::test_a_connection_returned_to_the_pool_during_the_close_is_closed[mariadb]",
        (
            "holdfast.stores.mysql.blocking.port",
            "        if self._closed:  # checked",
            "        if False:  # checked",
        ),
    ),
    bug(
        "redis: a close doesn't end a listener that no thread reads",
        f"{MEANWHILE}::test_a_close_ends_the_listener_although_no_thread_reads_it[redis]",
        (
            "holdfast.stores.redis.blocking.port",
            "        self._hang_up()\n        ear = self._ear.link\n",
            "        self._hang_up()\n        ear = None\n",
        ),
    ),
    bug(
        "zookeeper: a client waits for a connection that could not start",
        f"{STARTING}::test_a_client_tries_again_and_leaves_no_connection[2-aio-refused]",
        (ZOOKEEPER, "_connection_routine or self._starting\n", "_connection_routine\n"),
        (ZOOKEEPER, "return not routine.is_alive()", "return routine and not routine.is_alive()"),
    ),
    bug(
        "zookeeper: a failed start leaves the threads that it began",
        f"{STARTING}::test_a_client_tries_again_and_leaves_no_connection[3-sync-refused]",
        (ZOOKEEPER, "            self._handler._running = True\n", ""),
    ),
]
