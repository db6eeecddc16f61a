"""Bugs planted into the dialects, and the test that must catch each.

Real clients of these formats have had most of these bugs.
"""

from __future__ import annotations

from .bugs import bug

REQUESTS = "holdfast.dialects.plain.requests"
PLAIN = "holdfast.dialects.plain.store"
TIMESTAMP = "holdfast.dialects.timestamp.store"
WAITS = "holdfast.dialects.waits"
AIO = "holdfast.dialects.aio"
BLOCKING = "holdfast.dialects.blocking"
TESTS = "tests/dialects"
_SCRIPTS = "SCRIPTS = tuple(script_of(name, assembled(name, _FOLDER)) for name in _NAMES)\n"


def lua(old: str, new: str) -> tuple[str, str, str]:
    """An edit of every script that contains this text."""
    text = f"assembled(name, _FOLDER).replace({old.encode()!r}, {new.encode()!r})"
    return REQUESTS, _SCRIPTS, _SCRIPTS.replace("assembled(name, _FOLDER)", text)


DIALECTS = [
    bug(
        "a plain key is deleted without a check of its token",
        f"{TESTS}/test_plain.py::test_what_was_taken_away_is_never_taken_again_by_a_renewal",
        lua("local mark, reply = ARGV[1], 0", "local mark, reply = '', 0"),
    ),
    bug(
        "a renewal takes a plain key that is gone",
        f"{TESTS}/test_plain.py::test_what_was_taken_away_is_never_taken_again_by_a_renewal",
        (
            PLAIN,
            "        if len(keeps) == 1 and not keeps[0].ticket:\n",
            "        if len(keeps) == 1:\n",
        ),
    ),
    bug(
        "a late copy of a plain join takes the key",
        f"{TESTS}/test_lost.py::test_a_late_copy_of_a_join_finds_that_its_claim_has_left",
        lua("redis.call('EXISTS', KEYS[2]) == 1", "false"),
    ),
    bug(
        "a waiting claim whose request was lost leaves no tombstone",
        f"{TESTS}/test_lost.py::test_a_late_copy_of_a_waiters_request_takes_nothing",
        (
            PLAIN,
            "            self._suspect.add(claim.id)\n            raise\n",
            "            raise\n",
        ),
    ),
    bug(
        "a waiter for a plain key receives no notifications",
        f"{TESTS}/test_waiting.py::test_a_waiter_is_woken_by_the_release_of_another_client[aio-False]",
        (AIO, "        if wire.tracks:  #", "        if False:  #"),
    ),
    bug(
        "a waiter for a plain key reads it at each poll",
        f"{TESTS}/test_waiting.py::test_a_waiter_sends_few_commands[3]",
        (WAITS, "        return self._expires > 0 and not self.heard\n", "        return False\n"),
    ),
    bug(
        "a thread that was refused for a moment never receives notifications",
        f"{TESTS}/test_telling.py::test_a_refusal_that_passes_is_forgotten_with_it[threads]",
        (
            BLOCKING,
            "self.tracks = telling.answered(self.ask(_TRACK, now, until), now)",
            "self.tracks = bool(telling.answered(self.ask(_TRACK, now, until), now))",
        ),
    ),
    bug(
        "a task that was refused for a moment never receives notifications",
        f"{TESTS}/test_telling.py::test_a_refusal_that_passes_is_forgotten_with_it[asyncio]",
        (
            AIO,
            "wire.tracks = self._telling.answered(said, boottime())",
            "wire.tracks = bool(self._telling.answered(said, boottime()))",
        ),
    ),
    bug(
        "a waiter without notifications reads the key and never requests them again",
        f"{TESTS}/test_telling.py"
        "::test_a_client_without_notifications_polls_and_warns_once[threads]",
        (PLAIN, " and not port.hopes(claim.id)\n", "\n"),
    ),
    bug(
        "a server that refuses notifications is logged each time",
        f"{TESTS}/test_telling.py"
        "::test_a_client_without_notifications_polls_and_warns_once[asyncio]",
        ("holdfast.dialects.telling", "            if not self._said:\n", "            if True:\n"),
    ),
    bug(
        "a hash at a plain key counts as a busy lock",
        f"{TESTS}/test_families.py::test_another_family_is_refused_by_name_and_left_alone",
        lua("return answer({9, family(key)})", "return answer({2, 1000})"),
    ),
    bug(
        "each client that replaces a stale time gets the lock",
        f"{TESTS}/test_timestamp.py::test_of_two_clients_that_find_a_stale_lock_one_acquires_it",
        (
            TIMESTAMP,
            "        left = 0.0 if before is None else self._left(before)\n",
            "        left = 0.0\n",
        ),
    ),
    bug(
        "a release deletes the time without a check of the holder",
        f"{TESTS}/test_timestamp.py::test_a_late_release_does_not_delete_the_key_of_the_next_holder",
        (
            TIMESTAMP,
            "            there = await self._is_ours(leave.name, mine, until)\n",
            "            there = True\n",
        ),
    ),
    bug(
        "a renewal keeps a lock that another client took in between",
        f"{TESTS}/test_timestamp.py::test_a_late_renewal_restores_the_time_that_it_replaced",
        (TIMESTAMP, "        if before == seen or (", "        if True or ("),
    ),
    bug(
        "a time that equals the one of an unanswered request counts as our own",
        f"{TESTS}/test_equal_times.py::test_a_try_without_an_answer_leaves_the_holder_alone",
        (
            TIMESTAMP,
            "            mine.trying = True\n",
            "            mine.trying, mine.stamp = True, fresh\n",
        ),
    ),
    bug(
        "a cancelled request doesn't wait for its reply",
        f"{TESTS}/test_lost.py::test_a_task_that_is_cancelled_while_its_answer_is_under_way_leaves_nothing",
        (AIO, "        answer.add_done_callback(partial(_tell, heard))\n", ""),
    ),
    bug(
        "a cancellation interrupts a take-over in the middle",
        f"{TESTS}/test_equal_times.py::test_a_cancelled_take_over_restores_the_replaced_time",
        (
            TIMESTAMP,
            "await self._port.finish(self._take_over(claim, mine, until))",
            "await self._take_over(claim, mine, until)",
        ),
    ),
    bug(
        "a time counts as our own when the reply to its take is lost",
        f"{TESTS}/test_equal_times.py::test_a_take_whose_answer_was_lost_is_not_believed",
        (
            TIMESTAMP,
            "            mine.trying = True\n",
            "            asked, mine.sent, mine.trying = mine.sent, fresh, True\n",
        ),
        (
            TIMESTAMP,
            "            seen = await self._read(name, until)\n            if seen is None:\n",
            (
                "            seen = await self._read(name, until)\n"
                "            if seen and seen == asked:\n"
                "                mine.took(seen)\n"
                "                return self._got(mine, claim.spec.ttl)\n"
                "            if seen is None:\n"
            ),
        ),
    ),
]
