"""Bugs planted into the functions of PostgreSQL, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

DDL = "holdfast.stores.postgres.ddl"
TESTS = "tests/stores/postgres"
LINE = f"{TESTS}/test_line.py"
_READ = '(files("holdfast.stores.postgres") / "schema" / f"{part}.sql").read_text()'
_ROW = "SELECT * INTO l FROM lines WHERE name = p_name ORDER BY gen DESC LIMIT 1"
_NEXT = ";\n    IF l.name IS NULL AND p_make THEN\n"


def _instead(*texts: tuple[str, str]) -> tuple[str, str, str]:
    """The functions are made of other texts."""
    changed = "".join(f".replace({old!r}, {new!r})" for old, new in texts)
    return DDL, _READ, f"{_READ}{changed}"


POSTGRES = [
    bug(
        "the line is read before its row is locked, as one large statement does",
        f"{LINE}::test_one_who_waited_for_the_row_sees_what_was_done_meanwhile",
        _instead(
            (
                f"{_ROW} FOR UPDATE{_NEXT}",
                f"{_ROW};\n    PERFORM 1 FROM lines WHERE name = p_name FOR UPDATE{_NEXT}",
            )
        ),
    ),
    bug(
        "the name's row isn't locked",
        f"{LINE}::test_one_who_waited_for_the_row_sees_what_was_done_meanwhile",
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
        "two may make the row of a new name",
        f"{LINE}::test_one_who_waited_for_a_row_that_is_new_sees_it",
        _instead(
            ("        PERFORM pg_advisory_xact_lock(hashtextextended(encode(p_name, 'hex')", "--")
        ),
    ),
    bug(
        "nobody is told that it was served",
        f"{LINE}::test_who_waits_is_woken_when_its_turn_comes",
        _instead(("PERFORM pg_notify(", "PERFORM concat(")),
    ),
    bug(
        "a tombstone is not looked at",
        f"{TESTS}/test_lost.py::test_a_late_copy_of_a_join_finds_a_tombstone",
        _instead(("IF l.tombs > now_us THEN", "IF false THEN")),
    ),
    bug(
        "what says that nothing was lost outlives a crash",
        f"{TESTS}/test_guard.py::test_after_a_crash_of_a_relaxed_server_holders_come_back_and_nobody"
        "_else_is_let_in",
        _instead(("CREATE UNLOGGED TABLE", "CREATE TABLE")),
    ),
    bug(
        "who is put back gets less than it believes in",
        f"{TESTS}/test_guard.py::test_after_a_crash_of_a_relaxed_server_holders_come_back_and_nobody"
        "_else_is_let_in",
        (
            "holdfast.stores.postgres.calls",
            "microseconds(keep.ttl),\n                spec.owner",
            "microseconds(min(keep.ttl, 5)),\n                spec.owner",
        ),
    ),
    bug(
        "a line that is in use is removed as idle",
        f"{LINE}::test_a_lock_whose_last_use_is_long_ago_leaves_no_row",
        _instead(("IF l.holders + l.waiters = 0 AND l.tombs <= p_now THEN", "IF true THEN")),
    ),
    bug(
        "a pooler is believed to keep sessions, whatever is seen of it",
        f"{TESTS}/test_session_pooler.py::test_a_wrong_word_is_noticed_before_anybody_listens"
        "[threads]",
        (
            "holdfast.stores.postgres.blocking.wire",
            "return self.pooled and any(one.pid == self.pid for one in others)",
            "return False",
        ),
    ),
]
