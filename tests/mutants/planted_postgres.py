"""Bugs planted into the functions of PostgreSQL, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

DDL = "holdfast.stores.postgres.ddl"
TESTS = "tests/stores/postgres"
LINE = f"{TESTS}/test_line.py"
DAMAGE = f"{TESTS}/test_damage.py"
PORT = "holdfast.stores.postgres.blocking.port"
KIT = "tests/conformance/test_conformance.py::test_conforms"
_READ = 'files.text("holdfast.stores.postgres", "schema", f"{part}.sql")'
_ROW = "SELECT * INTO l FROM lines WHERE name = p_name ORDER BY gen DESC LIMIT 1"
_NEXT = ";\n    IF l.name IS NULL AND p_make THEN\n"


def _instead(*texts: tuple[str, str]) -> tuple[str, str, str]:
    """An edit that replaces texts in the source of the functions."""
    changed = "".join(f".replace({old!r}, {new!r})" for old, new in texts)
    return DDL, _READ, f"{_READ}{changed}"


POSTGRES = [
    bug(
        "the owner of the schema is checked only before the schema is made",
        f"{DAMAGE}::test_objects_another_user_makes_during_the_setup_are_refused",
        (
            DDL,
            '"\\n".join([_made(schema, _PARTS, trusted), owners(schema, trusted)])',
            "_made(schema, _PARTS, trusted)",
        ),
    ),
    bug(
        "the line is read before its row is locked",
        f"{LINE}::test_a_claim_that_waited_for_the_row_sees_the_intermediate_changes",
        _instead(
            (
                f"{_ROW} FOR UPDATE{_NEXT}",
                f"{_ROW};\n    PERFORM 1 FROM lines WHERE name = p_name FOR UPDATE{_NEXT}",
            )
        ),
    ),
    bug(
        "the name's row isn't locked",
        f"{LINE}::test_a_claim_that_waited_for_the_row_sees_the_intermediate_changes",
        _instead((f"{_ROW} FOR UPDATE", _ROW)),
    ),
    bug(
        "a ticket is drawn before the lock",
        f"{LINE}::test_fences_rise_in_the_order_of_the_grants_however_the_commits_come",
        _instead(
            (
                "ticket := greatest(now_us, l.last + 1);",
                "ticket := (extract(epoch FROM statement_timestamp()) * 1000000)::bigint;",
            )
        ),
    ),
    bug(
        "two clients can make the row of a new name",
        f"{LINE}::test_a_claim_that_waited_for_a_new_row_sees_it",
        _instead(
            ("        PERFORM pg_advisory_xact_lock(hashtextextended(encode(p_name, 'hex')", "--")
        ),
    ),
    bug(
        "postgres: idle names are removed more slowly than new names come",
        f"{LINE}::test_a_lock_whose_last_use_is_long_ago_leaves_no_row",
        _instead(("ORDER BY hour LIMIT 100 FOR UPDATE", "ORDER BY hour LIMIT 3 FOR UPDATE")),
    ),
    bug(
        "postgres: a mark from a dump is trusted",
        f"{TESTS}/test_guard.py::test_a_mark_that_came_with_a_dump_is_taken_for_none",
        _instead(
            ("SELECT * INTO a FROM alive WHERE home = tableoid;", "SELECT * INTO a FROM alive;")
        ),
    ),
    bug(
        "a grant notifies no waiter",
        f"{LINE}::test_a_waiter_is_woken_when_its_turn_comes",
        _instead(("PERFORM pg_notify(", "PERFORM concat(")),
    ),
    bug(
        "a tombstone is ignored",
        f"{TESTS}/test_lost.py::test_a_late_copy_of_a_join_finds_a_tombstone",
        _instead(("IF l.tombs > now_us THEN", "IF false THEN")),
    ),
    bug(
        "the mark that nothing was lost survives a crash",
        f"{TESTS}/test_guard.py::test_after_a_crash_of_a_relaxed_server_only_old_holders_come_back",
        _instead(("CREATE UNLOGGED TABLE", "CREATE TABLE")),
    ),
    bug(
        "a restored holder gets a shorter lease than it assumes",
        f"{TESTS}/test_guard.py::test_after_a_crash_of_a_relaxed_server_only_old_holders_come_back",
        (
            "holdfast.stores.postgres.store",
            "self._calls.reclaim(keep, ",
            "self._calls.reclaim(keep._replace(ttl=min(keep.ttl, 5)), ",
        ),
    ),
    bug(
        "the parameters of a call are sent in the order in which they were packed",
        f"{KIT}[postgresql-sync-lock-an_acquired_name_is_held_until_it_is_released]",
        ("holdfast.runtime.codec", "    if places != sorted(places):", "    if False:"),
    ),
    bug(
        "a line that is in use is removed as idle",
        f"{LINE}::test_a_lock_whose_last_use_is_long_ago_leaves_no_row",
        _instead(("IF l.holders + l.waiters = 0 AND l.tombs <= p_now THEN", "IF true THEN")),
    ),
    bug(
        "a pooler counts as one that keeps sessions, whatever it does",
        f"{TESTS}/test_session_pooler.py::test_a_wrong_pooler_option_is_noticed_before_any_client_listens"
        "[threads]",
        (
            "holdfast.stores.postgres.blocking.wire",
            "return self.pooled and any(one.pid == self.pid for one in others)",
            "return False",
        ),
    ),
    bug(
        "a name that stays occupied after its release keeps the hold's ttl",
        f"{KIT}[postgresql-sync-lock-a_min_hold_longer_than_the_ttl_lasts_when_the_line_is_looked_at]",
        _instead((", ttl = greatest(ttl, p_after)", "")),
    ),
    bug(
        "a line isn't compared with its claims",
        f"{DAMAGE}::test_a_removed_claim_frees_its_name_at_once",
        _instead(("IF random() * least(l.holders, 10000) > 4 THEN", "IF true THEN")),
    ),
    bug(
        "a line that contradicts itself is trusted",
        f"{DAMAGE}::test_a_line_whose_rows_are_changed_works_again[lines-held]",
        _instead(
            ("least(l.holders, l.used) < 1 OR l.high = 0 OR", ""),
            ("l.used <> 0 OR l.high <> 0 OR", ""),
        ),
    ),
    bug(
        "postgres: a clock that was set back isn't noticed",
        f"{TESTS}/test_clock_steps.py::test_a_clock_that_is_set_back[lock]",
        _instead(
            ("expires > clock() + lease(ttl)", "false"),
            ("least(c.expires, clock() + lease(c.ttl))", "c.expires"),
            ("least(expires, clock() + lease(ttl))", "expires"),
        ),
    ),
    bug(
        "postgres: unreachable jobs aren't recovered",
        f"{DAMAGE}::test_a_removed_row_of_a_queue_stalls_nothing[ready-plain]",
        _instead(("CONTINUE WHEN NOT queue_stalled(j);", "CONTINUE;")),
    ),
    bug(
        "postgres: a connection that waited too long for the schema stays in a failed transaction",
        f"{TESTS}/test_schema.py::test_a_client_that_waited_too_long_for_its_making_works_later",
        (
            "holdfast.stores.postgres.blocking.wire",
            '        yield from saying(conn, "ROLLBACK")\n',
            "",
        ),
    ),
    bug(
        "a schema that another user made is adopted",
        f"{DAMAGE}::test_a_schema_made_by_another_user_is_refused",
        _instead(("IF odd IS NOT NULL THEN", "IF false THEN")),
    ),
    bug(
        "strict recovery starts no grace period after a crash of a durable server",
        f"{DAMAGE}::test_a_strict_guard_opens_its_window_after_any_crash",
        _instead(("IF p_window < 0 OR g.relaxed", "IF g.relaxed")),
    ),
    bug(
        "postgres: an abandoned request continues at the server",
        f"{TESTS}/test_ending.py::test_a_session_that_the_server_has_not_ended_counts[sync]",
        (
            PORT,
            "self._lost.append((link, link.cancel(self._sweep)))",
            "(self._forget(link), link.close())",
        ),
    ),
    bug(
        "postgres: the server isn't asked to cancel an abandoned request",
        f"{TESTS}/test_stalled.py"
        "::test_a_standby_that_never_acknowledges_takes_up_no_more_than_the_pool[sync]",
        (
            "holdfast.stores.postgres.blocking.cancel",
            'DaemonThread(target=self._send, name="holdfast-cancel").start()',
            'DaemonThread(target=self._send, name="holdfast-cancel")',
        ),
    ),
    bug(
        "postgres: a cancellation is sent only once",
        f"{TESTS}/test_stalled.py"
        "::test_a_cancellation_that_overtakes_its_request_is_sent_again[sync]",
        (
            "holdfast.stores.postgres.blocking.cancel",
            "RETOLD_S, TOLD_S = 0.5, 10.0",
            "RETOLD_S, TOLD_S = 0.5, -1.0",
        ),
    ),
    bug(
        "postgres: the helpers of two releases have the same names",
        f"{TESTS}/test_schema.py::test_every_function_carries_a_version_in_its_name",
        ("holdfast.stores.postgres.ddl", "    if not helpers:\n", "    if True:\n"),
    ),
    bug(
        "postgres: a superuser calls a function that another user made",
        f"{TESTS}/test_damage.py::test_a_superuser_calls_no_function_made_by_another_user[sync]",
        (
            "holdfast.stores.postgres.blocking.wire",
            '    if superuser == b"on":\n',
            '    if superuser == b"?":\n',
        ),
    ),
    bug(
        "postgres: a holder that was not counted is subtracted when it leaves",
        f"{TESTS}/test_damaged_lines.py::test_a_holder_outside_the_line_takes_no_other_hold_along",
        _instead(("    IF c.ticket < l.low OR c.ticket > l.high THEN\n", "    IF false THEN\n")),
    ),
]
