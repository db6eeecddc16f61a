"""Bugs planted into the dialect of Redisson, and the test that must catch each.

Redisson itself has had most of these bugs, and has fixed them.
"""

from __future__ import annotations

from .bugs import bug

LIBRARY = "holdfast.dialects.redisson.library"
STORE = "holdfast.dialects.redisson.store"
BLOCKING = "holdfast.dialects.redisson.blocking"
AIO = "holdfast.dialects.redisson.aio"
TESTS = "tests/dialects/redisson"
_TEXT = "script_of(name, assembled(name, _FOLDER))"


def lua(old: str, new: str) -> tuple[str, str, str]:
    """An edit of every script that contains this text."""
    text = f"assembled(name, _FOLDER).replace({old.encode()!r}, {new.encode()!r})"
    return LIBRARY, _TEXT, f"script_of(name, {text})"


REDISSON = [
    bug(
        "a renewal also renews dead readers",
        f"{TESTS}/test_never.py::test_a_dead_reader_is_not_kept_alive_by_a_living_one",
        lua(
            "  if redis.call('PEXPIRE', mine, lease) == 0 then return 0 end\n"
            "  if redis.call('PTTL'",
            "  for _, one in ipairs(redis.call('HKEYS', lock)) do\n"
            "    local key = '{' .. lock .. '}:' .. one .. ':rwlock_timeout:1'\n"
            "    redis.call('SET', key, 1, 'PX', lease)\n"
            "  end\n"
            "  if redis.call('PTTL'",
        ),
    ),
    bug(
        "a renewal doesn't check the owner of the lock",
        f"{TESTS}/test_never.py::test_nothing_is_renewed_after_its_unlock",
        lua("  if redis.call('HEXISTS', lock, owner) == 0 then return 0 end\n  return", "  return"),
    ),
    bug(
        "a renewal takes a released lock again",
        f"{TESTS}/test_never.py::test_nothing_is_renewed_after_its_unlock",
        lua(
            "  if redis.call('HEXISTS', lock, owner) == 0 then return 0 end\n  return",
            "  redis.call('HSETNX', lock, owner, 1)\n  return",
        ),
    ),
    bug(
        "a waiting thread sleeps until a message comes",
        f"{TESTS}/test_never.py::test_a_message_that_is_missed_costs_a_second_at_most",
        (BLOCKING, "boottime() + seconds", "boottime() + 9"),
    ),
    bug(
        "a waiting task sleeps until a message comes",
        f"{TESTS}/test_never.py::test_a_message_that_is_missed_costs_a_second_at_most",
        (AIO, "later(loop, max(0.0, seconds)", "later(loop, 9"),
    ),
    bug(
        "a waiter doesn't try again after its subscription",
        f"{TESTS}/test_never.py::test_an_end_between_the_refusal_and_the_subscription_is_seen",
        (
            AIO,
            "        begun = boottime()\n        await self._reach(within)\n",
            "        begun = boottime()\n        early = await self.ask(call, within)\n",
        ),
        (
            AIO,
            "        return await self.ask(call, within - (boottime() - begun))\n",
            "        return early\n",
        ),
    ),
    bug(
        "a repeated join counts twice",
        f"{TESTS}/test_lost.py::test_a_join_that_is_cut_off_is_sent_again_and_counts_once",
        lua(
            "  if redis.call('HEXISTS', lock, owner) == 1 then\n    return {1, left, fenced",
            "  if redis.call('HEXISTS', lock, owner) == 1 then\n"
            "    redis.call('HINCRBY', lock, owner, 1)\n    return {1, left, fenced",
        ),
    ),
    bug(
        "a late join enters after its leave",
        f"{TESTS}/test_lost.py::test_a_join_that_arrives_after_its_leave_finds_the_tombstone",
        lua("if redis.call('EXISTS', tombstone) == 1 then return {0} end", ""),
    ),
    bug(
        "a waiter whose request was lost leaves no tombstone",
        f"{TESTS}/test_lost.py"
        "::test_a_question_of_a_waiter_that_arrives_after_its_leave_takes_nothing",
        (STORE, "            self._unsure.add(claim.id)\n", ""),
    ),
    bug(
        "the reply to a release is not kept",
        f"{TESTS}/test_lost.py::test_a_release_that_is_sent_again_is_answered_as_the_first_was",
        lua("redis.pcall('SET', latch, 1, 'PX', latch_ms)", "redis.pcall('PING')"),
    ),
    bug(
        "the end of a hold is not published",
        f"{TESTS}/test_rlock.py::test_a_release_wakes_the_peers",
        lua("redis.pcall('PUBLISH', channel, message)", ""),
    ),
    bug(
        "a place in the line of a fair lock is never refreshed",
        f"{TESTS}/test_fair.py::test_a_waiter_that_waits_longer_than_fair_wait_is_not_dropped",
        lua("if mine and now + share > tonumber(mine) then", "if false then"),
    ),
]
