"""Bugs that a set clock, odd lease times or damaged rows show, and the test of each."""

from __future__ import annotations

from .bugs import bug
from .planted_mysql import _instead as _mysql
from .planted_postgres import _instead as _postgres
from .planted_queues_redis import lua

CLAIMS = "holdfast.core.claims"
STEPS = "test_clock_steps.py::test_leases_delays_and_pauses_end_as_they_should"
POSTGRES, MYSQL = f"tests/stores/postgres/{STEPS}", f"tests/stores/mysql/{STEPS}"
REDIS = f"tests/stores/redis/{STEPS}"
BACK, SLOWLY = "[-3600.0-False]", "[-3600.0-True]"

AMID = "tests/stores/postgres/test_amid.py"

TOLD = "tests/core/test_claims.py::test_a_long_wait_is_logged_once_with_the_holder_and_the_position"

CLOCKS = [
    bug(
        "a long wait is logged again and again",
        TOLD,
        ("holdfast.core.waits", "    return math.inf\n", "    return now\n"),
    ),
    bug(
        "a long wait is logged without its holder",
        TOLD,
        ("holdfast.core.waits", "if now < ctx.looked + LOOK_EVERY_S:", "if True:"),
    ),
    bug(
        "mysql: a refusal doesn't recount the claims",
        "tests/stores/mysql/test_damage.py::test_a_removed_claim_refuses_no_other_claim",
        _mysql(("IF v_claims > 0 AND RAND() * LEAST(v_claims, 20000) < 8 THEN", "IF FALSE THEN")),
    ),
    bug(
        "a mistyped URL is shown with an option that can be the end of a password",
        "tests/core/test_url_secrets.py::test_no_shape_of_a_mistyped_url_shows_its_password[redis]",
        ("holdfast.url", 'sound and "@" not in query)', "True)"),
    ),
    bug(
        "the rest of a lease after a repeated join is trusted beyond its ttl",
        "tests/core/test_claims.py::"
        "test_a_lease_is_valid_for_at_most_its_ttl_whatever_the_store_returns",
        (CLAIMS, "min(standing.expires_in, self.spec.ttl)", "standing.expires_in"),
    ),
    bug(
        "all() trusts a lease from the store beyond its ttl",
        "tests/core/test_claims.py::"
        "test_a_lease_is_valid_for_at_most_its_ttl_whatever_the_store_returns",
        (
            "holdfast.core.together",
            "min(held.expires_in, claim.spec.ttl)",
            "held.expires_in",
        ),
    ),
    bug(
        "adopt trusts a lease from the store beyond its ttl",
        "tests/core/test_claims.py::"
        "test_a_lease_is_valid_for_at_most_its_ttl_whatever_the_store_returns",
        ("holdfast.core.adopt", "min(answer.expires_in, length)", "answer.expires_in"),
    ),
    bug(
        "postgres: a lost reply and a clock that is set back make a lease of an hour",
        "tests/stores/postgres/test_clock_steps.py::test_a_clock_that_is_set_back[lost]",
        (CLAIMS, "min(standing.expires_in, self.spec.ttl)", "standing.expires_in"),
    ),
    bug(
        "the refresh lease of a repeated request is trusted beyond its length",
        "tests/guard/test_refreshing.py::test_a_refresh_lease_is_valid_for_at_most_its_length",
        (
            "holdfast.core.guard.refresh",
            "min(duty.expires_in, wish.lease)",
            "duty.expires_in",
        ),
    ),
    bug(
        "mysql: the sweep stays slow after a burst of names",
        "tests/stores/mysql/test_sweep.py::test_after_a_burst_of_names_the_sweeping_keeps_up",
        ("holdfast.stores.mysql.store", "SWEEP_OFTEN = 8\n", "SWEEP_OFTEN = SWEEP_EVERY\n"),
    ),
    bug(
        "postgres: a value from the future is fresh until then",
        f"{POSTGRES}{BACK}",
        _postgres(("        v.fresh := 0;  -- the clock", "        v.stale := 0;  -- the clock")),
    ),
    bug(
        "postgres: takers wait for a rate that is far in the future",
        f"{POSTGRES}{BACK}",
        _postgres(
            (
                (
                    "        UPDATE rates SET next_start = r.next_start WHERE queue = p_queue"
                    " AND gen = r.gen;\n"
                ),
                "",
            )
        ),
    ),
    bug(
        "mysql: a value from the future is fresh until then",
        f"{MYSQL}{BACK}",
        _mysql(("    SET v_fresh = 0;  -- the clock", "    SET v_stale = 0;  -- the clock")),
    ),
    bug(
        "mysql: takers wait for a rate that is far in the future",
        f"{MYSQL}{BACK}",
        _mysql(
            (
                (
                    "    UPDATE holdfast_queues SET starts = v_starts WHERE name = p_name;\n"
                    "  END IF;\n  lend:"
                ),
                "  END IF;\n  lend:",
            )
        ),
    ),
    bug(
        "mysql: a delivery doesn't store the length of its lease",
        f"{MYSQL}{SLOWLY}",
        _mysql(
            ("moment = v_now + p_ttl, span = p_ttl,", "moment = v_now + p_ttl, span = 0,"),
            ("moment = v_now + v_ttl, span = v_ttl", "moment = v_now + v_ttl"),
        ),
    ),
    bug(
        "redis: the times of a queue don't move when the clock is set back",
        f"{REDIS}{BACK}",
        lua("  if by <= SOON then return end\n", "  if by ~= nil then return end\n"),
    ),
    bug(
        "redis: a refresh lease lasts until the clock has caught up",
        f"{REDIS}{BACK}",
        lua(
            "  return math.min(till, most), math.min(pause, most), true\n",
            "  return till, pause, false\n",
        ),
    ),
    bug(
        "redis: a value stays fresh until the clock has caught up",
        f"{REDIS}{BACK}",
        lua("if left > rest and left <= fresh + rest + 1000 then", "if left > rest then"),
    ),
    bug(
        "mysql: the unknown kind of a damaged row is looked up",
        "tests/stores/mysql/test_damage.py::test_a_line_with_an_unknown_kind_is_a_clear_error",
        (
            "holdfast.stores.mysql.replies",
            "    if not 0 <= number < len(KINDS):\n",
            "    if number < 0:\n",
        ),
    ),
    bug(
        "the damage judge overlooks two valid holders",
        "tests/testing/test_damage_judge.py::test_two_valid_holders_are_found",
        (
            "holdfast.testing.faults.scene",
            "        if _believes(one) and _believes(two):\n            self.wrong",
            "        if one is two:\n            self.wrong",
        ),
    ),
    bug(
        "the damage judge takes a blocked name for a refused one",
        "tests/testing/test_damage_judge.py::test_a_name_that_can_no_longer_be_acquired_is_found",
        (
            "holdfast.testing.faults.damage",
            "if isinstance(busy, NotAcquired):",
            "if not isinstance(busy, HoldfastError):",
        ),
    ),
    bug(
        "mysql: doctor doesn't compare lines with their claims",
        "tests/stores/mysql/test_doctor.py"
        "::test_lines_that_say_something_else_than_their_claims_are_counted",
        (
            "holdfast.stores.mysql.blocking.doctor",
            "l.claims <> COALESCE(c.claims, 0) OR l.waiters <> COALESCE(c.waiters, 0)",
            "l.claims < 0 OR l.waiters < 0",
        ),
    ),
    bug(
        "a fence is advanced in autocommit before the refusal",
        "tests/sql/test_fence_autocommit.py::test_a_fence_isnt_advanced_in_autocommit[mariadb]",
        (
            "holdfast.fenced.sql",
            "        return bool(asked())\n",
            "        return False\n",
        ),
    ),
    bug(
        "the purge waits for all names of a kind and gives up",
        "tests/sql/test_purge.py::test_a_name_that_is_held_keeps_no_other_of_its_kind_from_being_purged[mariadb]",
        (
            "holdfast.sql.mysql",
            'STRAIGHT_JOIN {table} AS r FORCE INDEX (PRIMARY)"',
            'STRAIGHT_JOIN {table} AS r IGNORE INDEX (PRIMARY)"',
        ),
        (
            "holdfast.sql.mysql",
            "return await self._one_by_one(teller, batch, old), after",
            "raise",
        ),
    ),
    bug(
        "postgres: a verb removes dead claims by the time at which it began",
        f"{AMID}::test_a_waiter_that_read_the_clock_before_it_was_set_back_takes_nothing",
        _postgres(
            ("OR expires <= p_now AND expires <= clock());", "OR expires <= p_now);"),
        ),
    ),
    bug(
        "postgres: a verb cuts leases by the time at which it began",
        f"{AMID}::test_a_waiter_that_is_slow_cuts_no_lease_that_was_renewed_meanwhile",
        _postgres(
            ("bool_or(expires > clock() + lease", "bool_or(expires > p_now + lease"),
            ("SET expires = clock() + lease(ttl), ttl", "SET expires = p_now + lease(ttl), ttl"),
            ("AND expires > clock() + lease(ttl);", "AND expires > p_now + lease(ttl);"),
        ),
    ),
    bug(
        "postgres: a take ends deliveries by the time at which it began",
        f"{AMID}::test_a_take_that_read_the_clock_before_it_was_set_back_takes_nothing_back",
        _postgres(("            AND expires <= clock()\n", "")),
    ),
    bug(
        "mysql: a take ends deliveries by the time at which it began",
        "tests/stores/mysql/test_amid.py"
        "::test_a_take_that_read_the_clock_before_it_was_set_back_takes_nothing_back",
        _mysql(
            (
                (
                    "    IF v_ends <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00',"
                    " UTC_TIMESTAMP(6)) THEN\n      CALL"
                ),
                "    IF v_ends IS NOT NULL THEN\n      CALL",
            )
        ),
    ),
    bug(
        "postgres: a holder with a weight below 1 makes room for two",
        "tests/stores/postgres/test_damage.py"
        "::test_a_holder_that_weighs_less_than_nothing_makes_no_room_for_two",
        _postgres(
            ("AND (weight < 1 OR expires <= p_now", "AND (expires <= p_now"),
            (" OR weight < 1) AS odd", ") AS odd"),
        ),
    ),
]
