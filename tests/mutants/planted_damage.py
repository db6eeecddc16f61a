"""Bugs by which damage in a store blocks its users, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug
from .planted_mysql import _instead as mysql
from .planted_postgres import _instead as postgres
from .planted_queues_redis import lua

FLIPPED = "tests/stores/redis/values/test_value_flipped.py"
BARS = f"{FLIPPED}::test_no_flipped_bit_keeps_a_value_from_being_computed_and_stored"
HEAD = f"{FLIPPED}::test_a_value_whose_head_is_flipped_is_computed_again_or_served"
PAUSE = "test_a_damaged_pause_after_a_failure_ends_with_the_failure"
COUNTS = "tests/stores/sqlite/test_odd_rows.py"
KEYS = "holdfast.stores.redis.value_keys"

DAMAGE = [
    bug(
        "redis: the damaged fence of a refresh lease is trusted",
        f"{BARS}[computing]",
        lua("if not (sane(fence) and fence % 1 == 0 and sane(till)", "if not (sane(till)"),
    ),
    bug(
        "redis: the damaged row of a waiter prevents the storing of a value",
        f"{BARS}[computing]",
        lua("if till and till + 0 > now then", "if till + 0 > now then"),
    ),
    bug(
        "redis: the scripts trust the damaged head of a value",
        HEAD,
        lua(" or (check and whose ~= check) then return nil", " then return nil"),
    ),
    bug(
        "redis: the damaged head of a value raises an error",
        HEAD,
        (
            KEYS,
            "version % 1:\n        return None\n",
            "version % 1:\n        raise _foreign()\n",
        ),
    ),
    bug(
        "mysql: a damaged pause after a failure is trusted",
        f"tests/stores/mysql/test_damage.py::{PAUSE}",
        mysql(("      OR v_pause > v_failed OR v_failures", "      OR v_failures")),
    ),
    bug(
        "postgres: a damaged pause after a failure is trusted",
        f"tests/stores/postgres/test_damage.py::{PAUSE}",
        postgres((" AND d.pause <= d.failed THEN", " THEN")),
    ),
    bug(
        "sqlite: a damaged pause after a failure is trusted",
        f"tests/stores/sqlite/test_damage.py::{PAUSE}",
        (
            "holdfast.stores.sqlite.blocking.values.rows",
            "        self.pause = min(self.pause, self.failed)\n",
            "        self.until = self.failed\n",
        ),
    ),
    bug(
        "sqlite: the removal of a row with too much weight makes room",
        f"{COUNTS}::test_after_a_damaged_row_a_reader_and_a_writer_never_both_hold",
        ("holdfast.stores.sqlite.blocking.line", "if len(rows) < KNOWN or self.complete()", "if 0"),
        ("holdfast.stores.sqlite.blocking.line", "if none or not 0 <=", "if none and not 0 <="),
        full=True,
    ),
    bug(
        "sqlite: a row with a weight below 1 makes room",
        f"{COUNTS}::test_a_waiter_that_weighs_less_than_nothing_makes_no_room",
        ("holdfast.stores.sqlite.blocking.line", "if weight < 1:", "if weight < -9:"),
        ("holdfast.stores.sqlite.blocking.line", "if len(rows) < KNOWN or self.complete()", "if 0"),
    ),
]
