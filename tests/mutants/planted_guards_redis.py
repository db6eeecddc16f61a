"""Bugs planted into the refresh guards on Redis, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug
from .planted_queues_redis import lua

KEYS = "holdfast.stores.redis.value_keys"
VERBS = "holdfast.stores.redis.values"
CLUSTER = "holdfast.stores.redis.cluster_values"
MEANING = "tests/stores/redis/values/test_value_meaning.py"
DANGERS = "tests/stores/redis/values/test_value_dangers.py"
SEVERAL = "tests/stores/redis/several/test_values.py"
RANDOM = f"{MEANING}::test_random_sequences_have_the_same_answers[0]"
REPLACED = (
    f"{MEANING}::test_a_value_that_is_replaced_between_the_two_looks_is_never_younger_than_it_is"
)


GUARDS_REDIS = [
    bug(
        "a value is stored after the refresh lease has expired",
        RANDOM,
        lua(
            "fence == ARGV[2] + 0 and till > now then\n  call('SET'",
            "fence == ARGV[2] + 0 then\n  call('SET'",
        ),
    ),
    bug(
        "a value from before an invalidation is stored",
        "tests/conformance/test_conformance.py::test_conforms"
        "[redis-sync-guard-a_late_copy_of_a_request_brings_no_duty_back]",
        lua("if holder == ARGV[1] and fence == ARGV[2] + 0 and", "if holder == ARGV[1] and"),
    ),
    bug(
        "an invalidation on Redis leaves the refresh lease",
        RANDOM,
        lua("if read_head(KEYS[1]) == false then return FOREIGN end\nclear(KEYS[2])\n", ""),
    ),
    bug(
        "a repeated finish reports that it was too late",
        f"{DANGERS}::test_a_value_is_computed_and_stored_once_though_a_verb_is_cut_off",
        lua("return answer(read_head(KEYS[1]) == ARGV[2] + 0 and 1 or 0)", "return answer(0)"),
    ),
    bug(
        "a repeated request for the refresh lease waits for itself",
        f"{DANGERS}::test_a_value_is_computed_and_stored_once_though_a_verb_is_cut_off",
        lua(
            "if holder == id and till > now then return answer({1,",
            "if false then return answer({1,",
        ),
    ),
    bug(
        "an abandoned request that arrives late gets the refresh lease",
        f"{MEANING}::test_a_request_that_comes_after_it_was_given_up_gets_nothing",
        lua("if kept then drop(key, over) else call('DEL', key) end", "call('DEL', key)"),
    ),
    bug(
        "a stored value on Redis wakes no waiter",
        f"{DANGERS}::test_a_waiter_for_a_value_is_woken_and_reads_once",
        lua("    redis.pcall(publish, poke[1], poke[2])\n", ""),
    ),
    bug(
        "a dead waiter for a value is never forgotten",
        f"{MEANING}::test_dead_waiters_are_forgotten_while_the_refresh_lease_lasts",
        lua("  drop(D, over)\nend\nreturn answer(1)", "end\nreturn answer(1)"),
    ),
    bug(
        "fences follow the clock",
        f"{MEANING}::test_fences_rise_though_the_clock_goes_back",
        lua("math.max(fence + 1, (version or 0) + 1, now)", "now"),
    ),
    bug(
        "a value that is replaced between two reads looks younger than it is",
        f"{REPLACED}[longer than it can be]",
        (KEYS, "left < 0 or left > ttl + rest", "left < 0"),
    ),
    bug(
        "keys of other programs are overwritten",
        f"{DANGERS}::test_keys_of_others_are_named_and_left_alone",
        lua(
            "string.sub(raw, 1, 3) ~= MARK then return false, 0, 0 end",
            "false then return false, 0 end",
        ),
    ),
    bug(
        "without memory all callers wait for a refresh lease that can't store its value",
        f"{DANGERS}::test_without_memory_a_computed_value_is_still_returned",
        (VERBS, "            await self.abandon(given_up, within)\n", "            del given_up\n"),
    ),
    bug(
        "the key of a refresh lease never expires",
        f"{DANGERS}::test_nothing_is_left_but_what_ends",
        lua("    call('PEXPIRE', key, string.format('%.0f', milliseconds))\n", ""),
    ),
    bug(
        "a value in a moving slot isn't read from the node that the slot moves to",
        f"{SEVERAL}::test_a_value_is_read_while_its_slot_is_on_its_way",
        (CLUSTER, "refusal is not None and refusal.code == ASK", "False"),
    ),
    bug(
        "a read of a value changes the time-out mode of its connection",
        "tests/conformance/test_conformance.py::test_conforms"
        "[redis-sync-guard-a_read_after_a_pause_takes_no_longer]",
        (
            "holdfast.stores.redis.blocking.link",
            (
                "        if self._timed:\n            self._beat(until - now)\n"
                "        self._send(wire)\n        return ["
            ),
            "        self._beat(until - now)\n        self._send(wire)\n        return [",
        ),
    ),
]
