"""Bugs planted into the store and the dialects of Redis, and the test that must catch each."""

from __future__ import annotations

from .bugs import REDIS, REDISSON, bug, in_scripts

REDIS = [
    bug(
        "a lock state on Redis that fits two holders is trusted",
        (
            "tests/stores/redis/test_flipped.py"
            "::test_no_flipped_bit_lets_a_second_one_in_that_both_keep"
        ),
        in_scripts(
            REDIS, ("and (kind ~= 'l' or capacity == 1 and used == holders and used <= 1)", "")
        ),
    ),
    bug(
        "a lock state on Redis without an early expiry is trusted for a minute",
        "tests/stores/redis/test_flipped.py::test_no_flipped_bit_locks_a_name[True]",
        in_scripts(REDIS, ("or now % (5 * SECOND) < SECOND)", ")")),
    ),
    bug(
        "a lease on Redis beyond the longest possible lease is trusted",
        "tests/stores/redis/test_flipped.py::test_no_flipped_bit_locks_a_name[False]",
        in_scripts(REDIS, ("    if not (first <= longest(ttl)) then\n", "    if false then\n")),
    ),
    bug(
        "a time that equals the one of an unanswered request counts as our own",
        (
            "tests/dialects/test_equal_times.py"
            "::test_a_try_without_an_answer_leaves_the_holder_alone"
        ),
        (
            "holdfast.dialects.timestamp.store",
            "            mine.trying = True\n",
            "            mine.trying, mine.stamp = True, fresh\n",
        ),
    ),
    bug(
        "a value is stored after the refresh lease has expired",
        (
            "tests/stores/redis/values/test_value_meaning.py"
            "::test_random_sequences_have_the_same_answers[0]"
        ),
        in_scripts(
            REDIS,
            (
                "fence == ARGV[2] + 0 and till > now then\n  call('SET'",
                "fence == ARGV[2] + 0 then\n  call('SET'",
            ),
        ),
    ),
    bug(
        "settle_and_take delivers a job without a check of recovery",
        (
            "tests/stores/redis/queues/test_meaning.py"
            "::test_settle_and_take_takes_nothing_before_recovery_is_checked"
        ),
        in_scripts(
            REDIS, ("(run == '' or call('GET', KEYS[15]) == run) and call('HMGET'", "call('HMGET'")
        ),
    ),
    bug(
        "an expired lease can still be settled",
        "tests/stores/redis/queues/test_meaning.py::test_an_expired_lease_has_no_effect",
        in_scripts(
            REDIS, ("local ours = ends and ends + 0 > now and not", "local ours = ends and not")
        ),
    ),
    bug(
        "a reply without an end is read without a time limit",
        (
            "tests/stores/redis/test_odd.py"
            "::test_a_stream_that_is_faster_than_its_reader_ends_with_its_time"
        ),
        (
            "holdfast.stores.redis.blocking.link",
            "        if boottime() >= until:  # even if more data has come\n",
            "        if False:\n",
        ),
    ),
    bug(
        "the host name is checked only where the driver does so by default",
        (
            "tests/stores/redis/test_told_once.py"
            "::test_the_host_name_is_checked_whatever_the_driver_would_do"
        ),
        (
            "holdfast.stores.redis.config",
            '        arguments.setdefault("ssl_check_hostname",',
            '        arguments.get("ssl_check_hostname",',
        ),
    ),
    bug(
        "a login that the sentinels refuse is reported as a missing primary",
        (
            "tests/stores/redis/several/test_secrets.py"
            "::test_sentinels_with_a_password_of_their_own_name_what_is_missing"
        ),
        (
            "holdfast.stores.redis.blocking.sentinel",
            "    if LOCKED_OUT.search(str(wrong)):\n",
            "    if not str(wrong):\n",
        ),
    ),
    bug(
        "each waiting thread makes a connection",
        (
            "tests/stores/redis/test_starving.py"
            "::test_a_thousand_waiting_threads_have_a_few_connections[3]"
        ),
        (
            "holdfast.stores.redis.blocking.connections",
            "if many > self._few and crowd and not self._closed:",
            "if many > self._few and crowd and self._closed:",
        ),
        seldom=True,
    ),
    bug(
        "a refused subscription is never tried again",
        (
            "tests/stores/redis/test_starving.py"
            "::test_a_client_without_the_right_to_subscribe_polls_and_warns[sync-3]"
        ),
        (
            "holdfast.stores.redis.blocking.port",
            "(MUTE_S if passing else DEAF_S)",
            "(MUTE_S if passing else 1e9)",
        ),
    ),
    bug(
        "a writer that leaves grants only one reader",
        (
            "tests/stores/redis/test_waiting.py"
            "::test_a_writer_that_leaves_grants_all_readers_at_once[resp3]"
        ),
        in_scripts(REDIS, ("1000000 and weight == capacity", "1000000 and weight <= capacity")),
    ),
    bug(
        "a young server without a record counts as used for the first time",
        (
            "tests/stores/redis/test_recovery.py"
            "::test_a_new_server_grants_nothing_until_its_grace_period_has_passed[29.0]"
        ),
        in_scripts(REDIS, ("if replaced or up < YOUNG then", "if replaced or up < window then")),
    ),
    bug(
        "a promoted server takes a missing record for a first use",
        (
            "tests/stores/redis/test_recovery.py"
            "::test_a_promoted_server_opens_a_window_for_a_bucket_that_was_never_used"
        ),
        in_scripts(REDIS, ("if promoted then return 'promoted' end", "")),
    ),
    bug(
        "a grace period ends though a fence would fall",
        "tests/stores/redis/test_recovery.py::test_a_window_lasts_until_no_fence_can_fall",
        in_scripts(REDIS, ("latest > moment and latest - now <= BEHIND", "false")),
    ),
    bug(
        "a waiter behind thousands of dead waiters polls only after a second",
        (
            "tests/stores/redis/test_dead_waiters.py"
            "::test_the_living_are_served_at_once_behind_thousands_of_dead[the last]"
        ),
        in_scripts(REDIS, ("if steps <= 0 or grants <= 0 then return 0 end", "")),
    ),
    bug(
        "a server that can evict keys is not reported",
        (
            "tests/stores/redis/test_told_once.py"
            "::test_a_server_that_can_evict_keys_is_reported_once_as_an_"
            "error[volatile-lru-threads]"
        ),
        ("holdfast.stores.redis.recovery", "if not self._told.evicts:", "if self._told.evicts:"),
    ),
    bug(
        "a busy server counts as one that hides its run id",
        (
            "tests/stores/redis/test_told_once.py"
            "::test_a_connection_made_while_the_server_is_busy_is_refused_and_the_next_"
            "has_recovery"
        ),
        ("holdfast.stores.redis.recovery", "if isinstance(wrong, StoreUnavailable):", "if False:"),
    ),
    bug(
        "each bucket of a cluster starts a separate grace period",
        (
            "tests/stores/redis/several/test_windows.py"
            "::test_a_second_fresh_client_finds_the_windows_over_that_the_first_one_"
            "opened"
        ),
        (
            "holdfast.stores.redis.cluster",
            "if not self.recovery.on or now < self._opened:",
            "if now >= 0:",
        ),
    ),
    bug(
        "a renewal takes a released lock again",
        "tests/dialects/redisson/test_never.py::test_nothing_is_renewed_after_its_unlock",
        in_scripts(
            REDISSON,
            (
                "  if redis.call('HEXISTS', lock, owner) == 0 then return 0 end\n  return",
                "  redis.call('HSETNX', lock, owner, 1)\n  return",
            ),
        ),
    ),
    bug(
        "a late join enters after its leave",
        (
            "tests/dialects/redisson/test_lost.py"
            "::test_a_join_that_arrives_after_its_leave_finds_the_tombstone"
        ),
        in_scripts(REDISSON, ("if redis.call('EXISTS', tombstone) == 1 then return {0} end", "")),
    ),
]
