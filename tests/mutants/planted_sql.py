"""Bugs planted into PostgreSQL, MySQL and what uses their clients.

Each names the test that must catch it."""

from __future__ import annotations

from .bugs import POSTGRES, bug, in_scripts

SQL = [
    bug(
        "postgres: a holder with a weight below 1 makes room for two",
        (
            "tests/stores/postgres/test_damage.py"
            "::test_a_holder_that_weighs_less_than_nothing_makes_no_room_for_two"
        ),
        in_scripts(
            POSTGRES,
            ("AND (weight < 1 OR expires <= p_now", "AND (expires <= p_now"),
            (" OR weight < 1) AS odd", ") AS odd"),
        ),
    ),
    bug(
        "a connection with an unknown autocommit state is accepted",
        (
            "tests/fenced/test_autocommit.py"
            "::test_a_connection_with_an_unknown_autocommit_state_is_refused[MySQLdb]"
        ),
        ("holdfast.fenced.sql", "begun is None and automatic", "begun is False and automatic"),
    ),
    bug(
        "postgres: idle names are removed more slowly than new names come",
        (
            "tests/stores/postgres/test_line.py"
            "::test_a_lock_whose_last_use_is_long_ago_leaves_no_row"
        ),
        in_scripts(
            POSTGRES, ("ORDER BY hour LIMIT 100 FOR UPDATE", "ORDER BY hour LIMIT 3 FOR UPDATE")
        ),
    ),
    bug(
        "postgres: a repair counts from the time at which its take began",
        (
            "tests/stores/postgres/test_queue.py"
            "::test_a_repair_by_a_take_that_began_earlier_shortens_no_pause"
        ),
        in_scripts(POSTGRES, ("p_now := clock();", "")),
    ),
    bug(
        "a line isn't compared with its claims",
        "tests/stores/postgres/test_damage.py::test_a_removed_claim_frees_its_name_at_once",
        in_scripts(POSTGRES, ("IF random() * least(l.holders, 10000) > 4 THEN", "IF true THEN")),
    ),
    bug(
        "postgres: a clock that was set back isn't noticed",
        "tests/stores/postgres/test_clock_steps.py::test_a_clock_that_is_set_back[lock]",
        in_scripts(
            POSTGRES,
            ("expires > clock() + lease(ttl)", "false"),
            ("least(c.expires, clock() + lease(c.ttl))", "c.expires"),
            ("least(expires, clock() + lease(ttl))", "expires"),
        ),
    ),
    bug(
        "a schema that another user made is adopted",
        ("tests/stores/postgres/test_damage.py::test_a_schema_made_by_another_user_is_refused"),
        in_scripts(POSTGRES, ("IF odd IS NOT NULL THEN", "IF false THEN")),
    ),
    bug(
        "strict recovery starts no grace period after a crash of a durable server",
        (
            "tests/stores/postgres/test_damage.py"
            "::test_strict_recovery_opens_its_window_after_any_crash"
        ),
        in_scripts(POSTGRES, ("IF p_window < 0 OR g.relaxed", "IF g.relaxed")),
    ),
    bug(
        "postgres: an abandoned request continues at the server",
        (
            "tests/stores/postgres/test_ending.py"
            "::test_a_session_that_the_server_has_not_ended_counts[sync]"
        ),
        (
            "holdfast.stores.postgres.blocking.port",
            "self._lost.append((link, link.cancel(self._sweep)))",
            "(self._forget(link), link.close())",
        ),
    ),
    bug(
        "postgres: the helpers of two releases have the same names",
        ("tests/stores/postgres/test_schema.py::test_every_function_carries_a_version_in_its_name"),
        ("holdfast.stores.postgres.ddl", "    if not helpers:\n", "    if True:\n"),
    ),
    bug(
        "a group's row isn't locked before a job is put behind its jobs",
        (
            "tests/stores/postgres/test_queue.py"
            "::test_a_put_into_a_group_waits_for_the_uncommitted_put_before_it"
        ),
        in_scripts(
            POSTGRES,
            (
                ("ORDER BY gen DESC LIMIT 1 FOR UPDATE;\n    IF g.queue IS NULL THEN\n"),
                ("ORDER BY gen DESC LIMIT 1;\n    IF g.queue IS NULL THEN\n"),
            ),
        ),
    ),
    bug(
        "an abandoned take leaves no tombstone",
        (
            "tests/stores/postgres/test_lost.py"
            "::test_a_late_copy_of_a_take_that_was_given_up_gets_nothing"
        ),
        in_scripts(
            POSTGRES,
            (
                "IF EXISTS (SELECT FROM tombs t WHERE t.id = p_id",
                "IF EXISTS (SELECT FROM tombs t WHERE false AND t.id = p_id",
            ),
        ),
    ),
    bug(
        "the side connection of a thread waits for a pooler session without a limit",
        (
            "tests/sql/test_pooler.py"
            "::test_new_names_in_all_transactions_of_a_small_pool_are_refused_in_time"
        ),
        (
            "holdfast.sql.blocking.beside",
            "end = None if limit is None else boottime() + limit",
            "end = None",
        ),
    ),
    bug(
        "the purge waits for a name in use",
        "tests/sql/test_purge.py::test_only_what_is_old_and_not_in_use_is_removed[mariadb]",
        (
            "holdfast.sql.mysql",
            "r.used <= <cutoff> FOR UPDATE SKIP LOCKED",
            "r.used <= <cutoff> FOR UPDATE",
        ),
    ),
]
