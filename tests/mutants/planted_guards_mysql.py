"""Bugs planted into refresh guards on MySQL and MariaDB, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug
from .planted_mysql import _instead

MEETING = "tests/stores/mysql/test_refresh.py"
LOST = "tests/stores/mysql/test_refresh_lost.py"
COST = "tests/stores/mysql/test_cost.py"
KIT = "tests/conformance/test_conformance.py::test_conforms"
GUARDS = "holdfast.stores.mysql.guards"
_ROW = "FROM holdfast_refresh_duties WHERE guard = p_guard AND entry = p_entry"
_VALUE = "    DELETE FROM holdfast_refresh_values WHERE guard = v_guard AND entry = v_entry;\n"
_MINE = "  IF v_id = p_id AND v_fence = p_fence AND v_lease > v_now THEN\n    SET v_done = 1"

GUARDS_MYSQL = [
    bug(
        "mysql: the row of an entry isn't locked",
        f"{MEETING}::test_two_simultaneous_begins_do_not_both_get_an_old_entry",
        _instead((f"{_ROW} FOR UPDATE;", f"{_ROW};")),
    ),
    bug(
        "mysql: a value is stored without a check of the refresh lease",
        f"{MEETING}::test_a_value_that_meets_an_invalidation_is_not_stored",
        _instead(
            (
                _MINE,
                _MINE.replace(
                    "v_id = p_id AND v_fence = p_fence AND v_lease > v_now", "v_fence > 0"
                ),
            )
        ),
    ),
    bug(
        "mysql: a value is stored though the refresh lease has expired",
        f"{MEETING}::test_an_expired_refresh_lease_stores_nothing",
        _instead((_MINE, _MINE.replace(" AND v_lease > v_now", ""))),
    ),
    bug(
        "mysql: the store of a value compares only the id of the refresh lease",
        f"{KIT}[mysql-sync-guard-a_late_copy_of_a_request_brings_no_duty_back]",
        _instead((_MINE, _MINE.replace(" AND v_fence = p_fence", ""))),
    ),
    bug(
        "mysql: an invalidation leaves the refresh lease",
        f"{MEETING}::test_an_invalidation_ends_the_refresh_lease_and_its_computation",
        _instead(
            (
                "ON DUPLICATE KEY UPDATE id = NULL, failures = 0",
                "ON DUPLICATE KEY UPDATE failures = 0",
            )
        ),
    ),
    bug(
        "mysql: an invalidation leaves the value",
        f"{MEETING}::test_an_invalidation_that_meets_a_value_takes_it_away",
        _instead((f"{_VALUE}    SET v_said", "    SET v_said")),
    ),
    bug(
        "mysql: an invalidation of a missing entry writes nothing",
        f"{MEETING}::test_an_invalidation_writes_the_row_even_if_there_is_none",
        _instead(
            (
                "      VALUES (v_guard, v_entry, 1, (v_now + 60000000) DIV 16777216 + 1)\n",
                (
                    "      SELECT g, e, 1, 1 FROM (SELECT guard AS g, entry AS e FROM"
                    " holdfast_refresh_duties WHERE guard = v_guard AND entry = v_entry) AS there\n"
                ),
            )
        ),
    ),
    bug(
        "mysql: an abandoned request leaves no tombstone",
        f"{LOST}::test_a_request_abandoned_on_its_way_gets_no_refresh_lease",
        (GUARDS, "abandon.lease + TOMB_S if abandon.suspect else 0.0", "0.0"),
    ),
    bug(
        "mysql: a repeated store of a value is refused",
        f"{LOST}::test_each_verb_that_is_cut_off_counts_once[reply]",
        _instead(("COALESCE(v_version = p_fence AND v_kept > v_now, 0)", "0")),
    ),
    bug(
        "mysql: a waiter can't see that a refresh lease was abandoned",
        f"{MEETING}::test_a_waiter_soon_notices_the_end_of_the_refresh_lease",
        _instead(
            (
                "failed = v_failed, reason = v_reason,\n          ended = ended + 1,",
                "failed = v_failed, reason = v_reason,",
            )
        ),
    ),
    bug(
        "mysql: a row expires before its value",
        f"{MEETING}::test_expired_rows_are_removed_and_live_rows_stay",
        _instead(
            ("ends = GREATEST(v_kept, v_now + 60000000)", "ends = GREATEST(0, v_now + 60000000)")
        ),
    ),
    bug(
        "mysql: expired rows are never removed",
        f"{MEETING}::test_clients_remove_expired_rows_while_they_work",
        (
            GUARDS,
            "            await self._port.call(self._calls.sweep(rows, 0), left)\n",
            "            pass\n",
        ),
    ),
    bug(
        "mysql: the pauses of a waiter don't grow",
        f"{COST}::test_a_waiter_asks_less_than_ten_times_a_second",
        (GUARDS, "pause = min(pause * LOOK_MORE, LOOK_LAST_S)", "pause = LOOK_FIRST_S"),
    ),
]
