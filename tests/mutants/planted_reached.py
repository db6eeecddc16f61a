"""Bugs in connections, subscriptions and pools, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

BLOCKING = "holdfast.stores.redis.blocking"
AIO = "holdfast.stores.redis.aio"
REDISSON = "tests/dialects/redisson/test_refused.py"
ASKED = f"{REDISSON}::test_a_client_without_the_right_to_subscribe_polls_and_warns"
MAKING = "holdfast.runtime.making.blocking"
ODD = "tests/stores/redis/test_odd.py"
POSTGRES = "tests/stores/postgres/test_reserve.py"
MYSQL = "tests/stores/mysql/test_stalled.py"
ENDING = "tests/stores/postgres/test_ending.py"
COUNTS = f"{ENDING}::test_a_session_that_the_server_has_not_ended_counts"
NEVER_MADE = "test_a_connection_that_was_never_made_counts_until_the_server_has_ended_it"
MYSQL_ENDING = "tests/stores/mysql/test_ending.py"
MYSQL_COUNTS = f"{MYSQL_ENDING}::test_a_session_that_the_server_has_not_ended_counts"
PROMPT = "test_a_release_finds_a_connection_while_others_wait_for_a_row"
TOLD = "tests/stores/redis/test_told_once.py"
DEAF = (
    "tests/stores/redis/test_starving.py"
    "::test_a_client_without_the_right_to_subscribe_polls_and_warns"
)
SECRETS = (
    "tests/stores/redis/several/test_secrets.py"
    "::test_sentinels_with_a_password_of_their_own_name_what_is_missing"
)

REACHED = [
    bug(
        "redis: a cluster without slots raises a raw IndexError",
        "tests/stores/redis/several/test_trouble.py"
        "::test_a_cluster_without_slots_is_unavailable_until_slots_are_added[sync]",
        (f"{BLOCKING}.cluster", "OSError, IndexError)", "OSError)"),
    ),
    bug(
        "asyncio: a refused subscription is never tried again",
        f"{DEAF}[aio-3]",
        (f"{AIO}.port", "= boottime() + DEAF_S", "= boottime() + 1e9"),
    ),
    bug(
        "asyncio: a refused subscription is not logged",
        f"{DEAF}[aio-3]",
        (f"{AIO}.port", "        log.warning(DEAF, self.label, reply, DEAF_S)\n", ""),
    ),
    bug(
        "redisson: a thread whose subscription was refused never subscribes again",
        f"{ASKED}[sync]",
        (
            "holdfast.dialects.redisson.blocking",
            "            if now >= self._deaf_until:\n",
            "            if not self._deaf_until:\n",
        ),
    ),
    bug(
        "redisson: a task whose subscription was refused never subscribes again",
        f"{ASKED}[aio]",
        (
            "holdfast.dialects.redisson.aio",
            "not in self._heard_of and not self._deaf and boottime()",
            "not in self._heard_of and not self._deaf_until and boottime()",
        ),
    ),
    bug(
        "a reply without an end is read without a time limit",
        f"{ODD}::test_a_stream_that_is_faster_than_its_reader_ends_with_its_time",
        (
            f"{BLOCKING}.link",
            "        if boottime() >= until:  # even if more data has come\n",
            "        if False:\n",
        ),
    ),
    bug(
        "the host name is checked only where the driver does so by default",
        f"{TOLD}::test_the_host_name_is_checked_whatever_the_driver_would_do",
        (
            "holdfast.stores.redis.config",
            '        arguments.setdefault("ssl_check_hostname",',
            '        arguments.get("ssl_check_hostname",',
        ),
    ),
    bug(
        "a login that the sentinels refuse is reported as a missing primary",
        SECRETS,
        (
            f"{BLOCKING}.sentinel",
            "    if LOCKED_OUT.search(str(wrong)):\n",
            "    if not str(wrong):\n",
        ),
    ),
    bug(
        "asyncio: a refusal by the sentinels is raised in the words of the driver",
        SECRETS,
        (
            f"{AIO}.sentinel",
            "            raise nobody(watch, wrong) from None\n",
            "            raise RedisError(str(wrong)) from None\n",
        ),
    ),
    bug(
        "waiters use the connections that renewals need",
        "tests/stores/redis/test_starving.py"
        "::test_waiting_threads_of_a_dialect_never_cost_their_own_client_a_lock[plain-3]",
        (
            f"{BLOCKING}.connections",
            "        if many > 1 and not self._reserving:  # the next returned one is kept\n",
            "        if False:\n",
        ),
        commands=True,
    ),
    bug(
        "postgres: threads have no reserved connection for renewals and releases",
        f"{POSTGRES}::{PROMPT}[sync]",
        (
            MAKING,
            "                if there >= self._most + urgent:\n",
            "                if there >= self._most:\n",
        ),
    ),
    bug(
        "postgres: tasks have no reserved connection for renewals and releases",
        f"{POSTGRES}::{PROMPT}[aio]",
        (
            "holdfast.stores.postgres.aio.port",
            "        if len(self._wires) + coming <= most:\n",
            "        if len(self._wires) + coming < most:\n",
        ),
    ),
    bug(
        "mysql: threads have no reserved connection for renewals and releases",
        f"{MYSQL}::{PROMPT}[sync]",
        (
            MAKING,
            "                if there >= self._most + urgent:\n",
            "                if there >= self._most:\n",
        ),
    ),
    bug(
        "mysql: tasks have no reserved connection for renewals and releases",
        f"{MYSQL}::{PROMPT}[aio]",
        (
            "holdfast.stores.mysql.aio.port",
            "and self._open + ending <= most:",
            "and self._open + ending < most:",
        ),
    ),
    bug(
        "postgres: a task's connection closes without a cancellation of its request",
        f"{POSTGRES}::test_a_client_that_closes_with_a_request_under_way_leaves_no_session",
        (
            "holdfast.stores.postgres.aio.wire",
            (
                "            with contextlib.suppress(psycopg.Error, RuntimeError):\n"
                "                Cancel(self._conn)\n"
            ),
            "            pass\n",
        ),
    ),
    bug(
        "sqlite: a thread inside one client waits for itself in another",
        "tests/core/test_inside.py"
        "::test_another_client_of_the_same_file_is_refused_inside_the_store[True]",
        (
            "holdfast.stores.sqlite.blocking.way",
            "            if way is not None and way is not self and way.inside == thread:\n",
            "            if way is not None and way is self and way.inside == 0:\n",
        ),
    ),
    bug(
        "sqlite: the thread of a loop doesn't count as inside a store",
        "tests/core/test_inside.py"
        "::test_a_generator_collected_in_the_store_of_a_loop_frees_its_claims",
        (
            "holdfast.stores.sqlite.aio.loop",
            "    @inside\n    def run(self) -> None:\n",
            "    def run(self) -> None:\n",
        ),
    ),
    bug(
        "memory: each new tombstone of a take sweeps all tombstones",
        "tests/core/test_odd_ends.py::test_the_number_of_sweeps_of_take_tombstones_does_not_grow",
        (
            "holdfast.stores.memory.jobs",
            "self._tombs_look = max(TOMBS_LOOK, 2 * len(self.tombs))",
            "self._tombs_look = TOMBS_LOOK",
        ),
    ),
    bug(
        "redis: a fence that a waiter got is not remembered",
        "tests/stores/redis/test_latest.py::test_the_latest_fence_is_known[2-after_waiting]",
        (
            "holdfast.stores.redis.store",
            "            self._latest.fence = granted.fence",
            "            str(granted.fence)",
        ),
        (
            "holdfast.stores.redis.store",
            "            self._note(standing.fence)\n        return standing\n\n    def",
            "            str(standing.fence)\n        return standing\n\n    def",
        ),
    ),
    *(
        bug(
            f"redis: a fence that was given {how} is not remembered",
            f"tests/stores/redis/test_latest.py::test_the_latest_fence_is_known[{test}]",
            ("holdfast.stores.redis.store", f"{text}self._note(", f"{text}str("),
        )
        for how, test, text in (
            ("for several names", "3-several", "        if held:\n            "),
            (
                "by adopt",
                "2-adopted",
                "            return wrong\n        if isinstance(standing, Held):\n            ",
            ),
        )
    ),
    bug(
        "an unfinished connection is given up at the time limit of its verb",
        "tests/faults/test_slow_connecting.py"
        "::test_verbs_with_little_time_get_through_though_connecting_takes_more[postgres-sync]",
        (
            MAKING,
            "return not urgent and until - boottime() < self._usual_s * _NEARLY",
            "return False",
        ),
    ),
    bug(
        "postgres: a session that the server has not ended doesn't count",
        f"{COUNTS}[sync]",
        (MAKING, "there += len(self._ending)", "pass"),
    ),
    bug(
        "postgres: a release waits for sessions to end",
        f"{COUNTS}[sync]",
        (MAKING, "                if not urgent:\n", "                if True:\n"),
    ),
    bug(
        "postgres, asyncio: a session that the server has not ended doesn't count",
        f"{COUNTS}[aio]",
        ("holdfast.stores.postgres.aio.port", "(0 if urgent else len(self._ending))", "0"),
    ),
    bug(
        "postgres, asyncio: a release waits for sessions to end",
        f"{COUNTS}[aio]",
        (
            "holdfast.stores.postgres.aio.port",
            "(0 if urgent else len(self._ending))",
            "len(self._ending)",
        ),
    ),
    bug(
        "postgres: a connection that was begun and given up doesn't count",
        f"{ENDING}::{NEVER_MADE}[sync]",
        ("holdfast.stores.postgres.blocking.link", "ended(wire.ending(conn))", "conn.finish()"),
    ),
    bug(
        "mysql: a session that the server has not ended doesn't count",
        f"{MYSQL_COUNTS}[sync]",
        (MAKING, "there += len(self._ending)", "pass"),
    ),
    bug(
        "mysql: a release waits for sessions to end",
        f"{MYSQL_COUNTS}[sync]",
        (MAKING, "                if not urgent:\n", "                if True:\n"),
    ),
    bug(
        "mysql, asyncio: a session that the server has not ended doesn't count",
        f"{MYSQL_COUNTS}[aio]",
        ("holdfast.stores.mysql.aio.port", "0 if urgent else len(self._ending)", "0"),
    ),
    bug(
        "mysql, asyncio: a release waits for sessions to end",
        f"{MYSQL_COUNTS}[aio]",
        (
            "holdfast.stores.mysql.aio.port",
            "0 if urgent else len(self._ending)",
            "len(self._ending)",
        ),
    ),
    *(
        bug(
            f"mysql{face}: a connection that was begun and given up doesn't count",
            f"{MYSQL_ENDING}::{NEVER_MADE}[{test}]",
            (f"holdfast.stores.mysql.{room}.link", f"ended({how})", f"{how}.end()"),
        )
        for face, test, room, how in (
            ("", "sync", "blocking", "Ending(twin)"),
            (", asyncio", "aio", "aio", "ending"),
        )
    ),
    bug(
        "mysql: each thread opens a session to end what a locked table holds up",
        f"{MYSQL}::test_many_threads_end_what_a_locked_table_holds_up_by_one_session_more",
        (
            "holdfast.stores.mysql.blocking.port",
            "if self._killing.take(key) and",
            "if self._killing is not None and",
        ),
    ),
]
