"""Bugs planted into the scripts of serial queues on Redis, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

LIBRARY = "holdfast.stores.redis.library"
CLUSTER = "holdfast.stores.redis.queue_cluster"
MEANING = "tests/stores/redis/queues/test_meaning.py"
KIT = "tests/conformance/test_conformance.py::test_conforms"
DANGERS = "tests/stores/redis/queues/test_dangers.py"
USUAL = f"{MEANING}::test_what_is_usual_has_the_same_answers"
RANDOM = f"{MEANING}::test_random_sequences_have_the_same_answers[0]"
_READ = 'text = _read(folder, name + ".lua")\n    return _INCLUDE.sub('
_WHOLE = "_INCLUDE.sub(lambda found: _read(folder, found[1].decode()), text).strip()"


def lua(old: str, new: str) -> tuple[str, str, str]:
    """An edit that replaces a text in the source of the scripts."""
    return LIBRARY, _WHOLE, f"{_WHOLE}.replace({old.encode()!r}, {new.encode()!r})"


QUEUES_REDIS = [
    bug(
        "the next job of a group is due while its first job is delivered",
        USUAL,
        lua("        call('ZREM', KEYS[3], name)\n        if ARGV[5]", "        if ARGV[5]"),
    ),
    bug(
        "settle_and_take makes the next job of a group due while its first is delivered",
        USUAL,
        lua(
            "        call('ZREM', KEYS[3], name)\n"
            "        if ARGV[5] == '1' then\n          local from",
            "        if ARGV[5] == '1' then\n          local from",
        ),
    ),
    bug(
        "settle_and_take acks a delivery that was lost",
        USUAL,
        lua("now < soonest and tomb <= now and failures", "tomb <= now and failures"),
    ),
    bug(
        "settle_and_take delivers a job without a check of recovery",
        f"{MEANING}::test_settle_and_take_takes_nothing_before_recovery_is_checked",
        lua("(run == '' or call('GET', KEYS[15]) == run) and call('HMGET'", "call('HMGET'"),
    ),
    bug(
        "a delivery is trusted beyond the grace period of strict recovery",
        f"{DANGERS}::test_with_a_strict_guard_no_delivery_is_believed_beyond_its_window",
        (
            "holdfast.core.queue.taking",
            "min(options.ttl, ctx.store.lease_max)",
            "options.ttl",
        ),
    ),
    bug(
        "a put that is sent twice is accepted twice",
        f"{DANGERS}::test_a_verb_that_is_cut_off_is_done_once[resp3-put-reply]",
        lua("was + 0 >= number", "was + 0 > number"),
    ),
    bug(
        "a take that is sent twice gets two jobs",
        f"{DANGERS}::test_a_verb_that_is_cut_off_is_done_once[resp3-take-reply]",
        lua(" and not call('HGET', KEYS[6], take) then", " then"),
    ),
    bug(
        "a job is delivered without a check of recovery",
        f"{DANGERS}::test_a_server_that_lost_its_data_delivers_nothing_while_workers_may_believe",
        lua("if some and barred() then", "if false then"),
        (
            "holdfast.stores.redis.guard",
            "    if call.script in (JOIN, TAKE):\n",
            "    if call.script is JOIN:\n",
        ),
    ),
    bug(
        "the shards of a queue start their grace periods one after the other",
        "tests/stores/redis/several/test_windows.py"
        "::test_the_shards_of_a_queue_open_their_windows_together",
        (
            "holdfast.stores.redis.cluster",
            "await self._open_windows(reply[1] if len(reply) == 3 else 0.0, until)",
            "pass",
        ),
    ),
    bug(
        "the interval always counts from the take",
        f"{KIT}[redis-sync-queue-the_interval_counts_from_the_end_of_the_last_execution]",
        lua("if by_take == 0 then rests", "if by_take == 1 then rests"),
    ),
    bug(
        "an expired lease can still be settled",
        f"{MEANING}::test_an_expired_lease_has_no_effect",
        lua("local ours = ends and ends + 0 > now and not", "local ours = ends and not"),
    ),
    bug(
        "the keys of an empty queue never expire",
        f"{DANGERS}::test_a_queue_that_is_empty_leaves_only_keys_that_end",
        lua("if jobs == 0 then call('PEXPIRE', key, lives) else", "if jobs > 0 then"),
        lua("    if jobs == 0 then call('PEXPIRE', G, 5400000) end\n", ""),
    ),
    bug(
        "a late copy of a released take gets a job",
        RANDOM,
        lua("if tomb > now then\n    local ends", "if false then\n    local ends"),
        seldom=True,  # a random walk finds it in nearly every run
    ),
    bug(
        "a job that becomes due in another shard wakes no waiter in the home shard",
        "tests/stores/redis/several/test_queues.py::"
        "test_a_waiting_take_is_woken_by_a_put_into_any_shard[3]",
        (CLUSTER, "due += more if shard else 0", "due += 0"),
    ),
    bug(
        "dead letters of a group come back in another order",
        f"{KIT}[redis-sync-queue-dead_letters_come_back_in_the_order_in_which_they_died]",
        (
            "holdfast.stores.redis.queue_look",
            "            fields.sort(key=replies.split)\n        return found",
            "            fields.sort()\n        return found",
        ),
    ),
]
