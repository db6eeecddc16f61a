"""Bugs planted into refresh guards on PostgreSQL, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug
from .planted_postgres import _instead

MEETING = "tests/stores/postgres/test_refresh.py"
UNDO = "tests/stores/postgres/test_refresh_undo.py"
LOST = "tests/stores/postgres/test_refresh_lost.py"
COST = "tests/stores/postgres/test_cost.py"
KIT = "tests/conformance/test_conformance.py::test_conforms"
GUARDS = "holdfast.stores.postgres.guards"
_ROW = "SELECT * INTO d FROM refresh_duties WHERE guard = p_guard AND key = p_key\n"
_LOCKED = "    ORDER BY gen DESC LIMIT 1 FOR UPDATE;\n    IF d.guard IS NULL AND p_make THEN\n"

GUARDS_POSTGRES = [
    bug(
        "postgres: the row of an entry isn't locked",
        f"{MEETING}::test_two_simultaneous_begins_do_not_both_get_an_old_entry",
        _instead((_ROW + _LOCKED, (_ROW + _LOCKED).replace(" FOR UPDATE", ""))),
    ),
    bug(
        "postgres: two clients can make the row of a new entry",
        f"{MEETING}::test_two_simultaneous_begins_do_not_both_get_a_new_entry",
        _instead(
            (
                "hashtextextended(encode(p_guard, 'hex') || ' ' || encode(p_key, 'hex'), 7236148)",
                "pg_backend_pid()",
            )
        ),
    ),
    bug(
        "postgres: a value is stored without a check of the refresh lease",
        f"{MEETING}::test_a_value_that_meets_an_invalidation_is_not_stored",
        _instead(
            (
                "IF d.id IS DISTINCT FROM p_id OR d.fence <> p_fence OR d.lease <= now_us",
                "IF d.guard IS NULL",
            )
        ),
    ),
    bug(
        "postgres: a value is stored though the refresh lease has expired",
        f"{MEETING}::test_an_expired_refresh_lease_stores_nothing",
        _instead(
            (
                "IF d.id IS DISTINCT FROM p_id OR d.fence <> p_fence OR d.lease <= now_us",
                "IF d.id IS DISTINCT FROM p_id OR d.fence <> p_fence",
            )
        ),
    ),
    bug(
        "postgres: the store of a value compares only the id of the refresh lease",
        f"{KIT}[postgresql-sync-guard-a_late_copy_of_a_request_brings_no_duty_back]",
        _instead((" OR d.fence <> p_fence", "")),
    ),
    bug(
        "postgres: an undo does not wait for the request that it undoes",
        f"{UNDO}::test_an_undo_that_meets_what_it_undoes_waits_for_it",
        _instead(
            ("refresh_locked(p_guard, p_key, p_bury > 0)", "refresh_locked(p_guard, p_key, false)")
        ),
    ),
    bug(
        "postgres: an undo of a request that never came leaves a row permanently",
        f"{UNDO}::test_an_undo_of_a_request_that_never_came_leaves_nothing_after_a_sweep",
        _instead(
            (
                "IF p_bury > 0 THEN\n            PERFORM refresh_save",
                "IF false THEN\n            PERFORM refresh_save",
            )
        ),
    ),
    bug(
        "postgres: an invalidation leaves the refresh lease",
        f"{MEETING}::test_a_value_that_meets_an_invalidation_is_not_stored",
        _instead(("IF v.kept > 0 OR d.id IS NOT NULL OR d.failed > 0 THEN", "IF false THEN")),
    ),
    bug(
        "postgres: an invalidation leaves the value",
        f"{MEETING}::test_an_invalidation_that_meets_a_value_takes_it_away",
        _instead(("        IF v.kept > 0 THEN\n", "        IF false THEN\n")),
    ),
    bug(
        "postgres: an abandoned request leaves no tombstone",
        f"{LOST}::test_a_request_abandoned_on_its_way_gets_no_refresh_lease",
        (
            GUARDS,
            "abandon.lease + TOMB_S if abandon.suspect else 0.0",
            "0.0",
        ),
    ),
    bug(
        "postgres: a repeated store of a value is refused",
        f"{LOST}::test_each_verb_that_is_cut_off_counts_once[reply]",
        _instead(("coalesce(v.version = p_fence AND v.kept > now_us, false)", "false")),
    ),
    bug(
        "postgres: a stored value wakes no waiter",
        f"{MEETING}::test_all_waiters_are_woken_at_once",
        _instead(
            (
                "    PERFORM refresh_wake(p_guard, p_key, now_us);\n    RETURN true;",
                "    RETURN true;",
            )
        ),
    ),
    bug(
        "postgres: batches are locked in the order of the caller",
        f"{MEETING}::test_batches_in_any_order_do_not_deadlock",
        (
            GUARDS,
            "        key=lambda at: (entries[at].guard.encode(), entries[at].key.encode()),\n",
            "",
        ),
        full=True,
        seldom=True,
    ),
    bug(
        "postgres: a row expires before its value",
        f"{MEETING}::test_expired_rows_are_removed_and_live_rows_stay",
        _instead(
            ("greatest(d.lease, d.failed, d.kept, p_now", "greatest(d.lease, d.failed, p_now")
        ),
    ),
    bug(
        "postgres: expired rows are never removed",
        f"{MEETING}::test_clients_remove_expired_rows_while_they_work",
        (
            GUARDS,
            "            rows = await self._port.ask(self._calls.tidy(many, self._from), left)\n",
            "            return\n",
        ),
    ),
    bug(
        "postgres: a read visits every version of a value",
        f"{COST}::test_values_made_and_removed_under_an_open_snapshot_cost_little",
        _instead(
            ("gen = (v.changes + 1) / 32, changes = v.changes + 1, version", "version"),
            ("gen = (d.changes + 1) / 32, changes = d.changes + 1, id", "id"),
        ),
    ),
    bug(
        "postgres: each sweep starts from the beginning",
        f"{COST}::test_a_sweep_reads_only_where_expired_rows_can_be",
        (GUARDS, "            self._from = replies.number(rows, self._label)\n", ""),
    ),
]
