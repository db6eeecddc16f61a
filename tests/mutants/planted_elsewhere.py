"""Bugs that patched sockets, clocks and event loops show, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

LINK = "holdfast.stores.redis.blocking.link"
LOOPS = "tests/platforms/test_loops.py::test_"
REENTRY = "tests/dialects/redisson/test_rlock.py::test_a_re_entry_"
LOCK = "holdfast.core.lock"
WORLDS = "tests/conformance/test_worlds.py::test_"
FROZEN = "tests/platforms/test_frozen.py::test_"
LEASE_ENDS = "a_lease_ends_for_its_holder_and_for_others_while_the_clock_stands_still"
SOCKETS = "tests/stores/redis/test_odd_sockets.py::test_"

ELSEWHERE = [
    bug(
        "redis: a time-out is left to a kernel that has misread it",
        f"{SOCKETS}a_silent_server_blocks_no_call_with_patched_sockets[3]",
        (
            LINK,
            "if len(understood) != _TV.size or not 0 < _seconds(understood) < TICK_S:",
            "if len(understood) > _TV.size:",
        ),
    ),
    bug(
        "redis: the time-out of a greenlet's call is left to the kernel",
        f"{SOCKETS}a_socket_that_waits_by_itself_gets_a_time_out",
        (
            LINK,
            'if getattr(type(sock), "recv", None) is not _socket.socket.recv:',
            'if hasattr(sock, "pending"):',
        ),
    ),
    bug(
        "a client opens in a program that gevent has patched in part",
        f"{WORLDS}a_program_that_is_patched_in_part_is_refused_by_name_with_the_remedy",
        (
            "holdfast.runtime.greenlets",
            "    if 0 < len(whole) < len(names):\n",
            "    if False:\n",
        ),
        commands=True,
    ),
    bug(
        "a wait under eventlet ends by the event of an earlier wait",
        f"{WORLDS}a_wait_for_one_descriptor_does_not_end_by_an_earlier_one_for_two",
        (
            "holdfast.runtime.polling.blocking",
            "            if found or not ready:\n",
            "            if True:\n",
        ),
        commands=True,
    ),
    bug(
        "a poll under eventlet waits for its turn",
        f"{WORLDS}a_look_at_a_descriptor_is_free_while_another_greenlet_waits_for_it",
        (
            "holdfast.runtime.polling.blocking",
            "if milliseconds == 0 and",
            "if milliseconds == -1 and",
        ),
        commands=True,
    ),
    bug(
        "a client uses a clock that a test freezes",
        f"{FROZEN}{LEASE_ENDS}[memory-freezegun]",
        (
            "holdfast.runtime.blocking",
            "    now = staticmethod(boottime)\n",
            "    now = staticmethod(lambda: time.monotonic())\n",
        ),
    ),
    bug(
        "a timer is left to a loop whose clock a test has frozen",
        f"{FROZEN}an_async_client_works_while_the_clock_of_its_loop_stands_still[memory]",
        ("holdfast.runtime.timers.aio", "    if clock_patched():\n", "    if False:\n"),
        commands=True,
    ),
    bug(
        "postgres: a loop that watches no sockets is not refused",
        f"{LOOPS}a_loop_that_watches_no_sockets_is_refused_at_once_with_the_remedy[postgres-_look]",
        (
            "holdfast.stores.postgres.aio.port",
            "            require_readers(loop, self.label)\n",
            "",
        ),
    ),
    bug(
        "mysql: a loop that watches no sockets is not refused",
        f"{LOOPS}a_loop_that_watches_no_sockets_is_refused_at_once_with_the_remedy[mariadb-_lock]",
        ("holdfast.stores.mysql.aio.port", "            require_readers(loop, self.label)\n", ""),
    ),
    bug(
        "a client takes any runner of coroutines for asyncio",
        f"{LOOPS}a_coroutine_that_is_driven_without_a_loop_is_refused_by_name[with]",
        (
            "holdfast.runtime.aio",
            "    loop = _get_running_loop()\n    if loop is None:\n",
            "    loop = asyncio.get_running_loop()\n    if loop is None:\n",
        ),
    ),
    bug(
        "a lock that no loop has used works outside a loop",
        f"{LOOPS}a_coroutine_that_is_driven_without_a_loop_is_refused_by_name[locked]",
        (
            "holdfast.aio.loops",
            "        if ctx.place is NOWHERE:\n            require_loop()\n",
            "",
        ),
    ),
    bug(
        "redisson: a reentry leaves a fixed lease unchanged",
        f"{REENTRY}of_a_hold_that_is_not_renewed_restarts_its_lease_as_redissons_does",
        (LOCK, "                await inside._extend(ttl)\n", "                pass\n"),
    ),
    bug(
        "redisson: a reentry shortens the lease",
        f"{REENTRY}with_a_shorter_lease_takes_nothing_away",
        (
            LOCK,
            "            if deadline(self._ctx.now(), ttl) > inside._lease.deadline:\n",
            "            if True:\n",
        ),
    ),
    bug(
        "redisson: a hold whose lease can't be restarted is entered again",
        f"{REENTRY}that_finds_the_hold_lost_is_refused",
        (
            LOCK,
            "                await inside._extend(ttl)\n            inside.check()",
            (
                "                try:\n"
                "                    await inside._extend(ttl)\n"
                "                except HoldfastError:\n"
                "                    inside._count += 1\n"
                "                    return inside, ''"
            ),
        ),
    ),
]
