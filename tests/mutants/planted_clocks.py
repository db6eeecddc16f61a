"""Bugs that a server shows whose clock is set, or that has no connection left, with their tests."""

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
        "a long wait is told again and again",
        TOLD,
        ("holdfast.core.waits", "    return math.inf\n", "    return now\n"),
    ),
    bug(
        "a long wait is told without who holds",
        TOLD,
        ("holdfast.core.waits", "if now < ctx.looked + LOOK_EVERY_S:", "if True:"),
    ),
    bug(
        "mysql: before somebody is refused the claims aren't counted",
        "tests/stores/mysql/test_damage.py::test_a_removed_claim_refuses_no_other_claim",
        _mysql(("IF v_claims > 0 AND RAND() * LEAST(v_claims, 20000) < 8 THEN", "IF FALSE THEN")),
    ),
    bug(
        "an option of a mistyped URL is shown though it may be a password's end",
        "tests/core/test_url_secrets.py::test_no_shape_of_a_mistyped_url_shows_its_password[redis]",
        ("holdfast.url", 'sound and "@" not in query)', "True)"),
    ),
    bug(
        "what is left of a repeated join is believed beyond its ttl",
        "tests/core/test_claims.py::"
        "test_a_lease_is_valid_for_at_most_its_ttl_whatever_the_store_returns",
        (CLAIMS, "min(standing.expires_in, self.spec.ttl)", "standing.expires_in"),
    ),
    bug(
        "several names are believed for as long as the store says",
        "tests/core/test_claims.py::"
        "test_a_lease_is_valid_for_at_most_its_ttl_whatever_the_store_returns",
        (
            "holdfast.core.together",
            "min(held.expires_in, claim.spec.ttl)",
            "held.expires_in",
        ),
    ),
    bug(
        "an adopted hold is believed for as long as the store says",
        "tests/core/test_claims.py::"
        "test_a_lease_is_valid_for_at_most_its_ttl_whatever_the_store_returns",
        ("holdfast.core.adopt", "min(answer.expires_in, length)", "answer.expires_in"),
    ),
    bug(
        "postgres: a reply that was lost when the clock was set back makes a lease of an hour",
        "tests/stores/postgres/test_stepped.py::test_a_clock_that_is_set_back[lost]",
        (CLAIMS, "min(standing.expires_in, self.spec.ttl)", "standing.expires_in"),
    ),
    bug(
        "the duty of a repeated request is believed beyond its lease",
        "tests/guard/test_refreshing.py::test_a_refresh_lease_is_valid_for_at_most_its_length",
        (
            "holdfast.core.guard.refresh",
            "min(duty.expires_in, wish.lease)",
            "duty.expires_in",
        ),
    ),
    bug(
        "mysql: after a burst of names as few are swept as before",
        "tests/stores/mysql/test_sweep.py::test_after_a_burst_of_names_the_sweeping_keeps_up",
        ("holdfast.stores.mysql.store", "SWEEP_OFTEN = 8\n", "SWEEP_OFTEN = SWEEP_EVERY\n"),
    ),
    bug(
        "postgres: a value of a moment to come is fresh until then",
        f"{POSTGRES}{BACK}",
        _postgres(("        v.fresh := 0;  -- the clock", "        v.stale := 0;  -- the clock")),
    ),
    bug(
        "postgres: a rate that is far ahead is waited for",
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
        "mysql: a value of a moment to come is fresh until then",
        f"{MYSQL}{BACK}",
        _mysql(("    SET v_fresh = 0;  -- the clock", "    SET v_stale = 0;  -- the clock")),
    ),
    bug(
        "mysql: a rate that is far ahead is waited for",
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
        "mysql: a loan that is renewed doesn't know for how long",
        f"{MYSQL}{SLOWLY}",
        _mysql(
            ("moment = v_now + p_ttl, span = p_ttl,", "moment = v_now + p_ttl, span = 0,"),
            ("moment = v_now + v_ttl, span = v_ttl", "moment = v_now + v_ttl"),
        ),
    ),
    bug(
        "redis: a queue's moments stay where they were when the clock is set back",
        f"{REDIS}{BACK}",
        lua("  if by <= SOON then return end\n", "  if by ~= nil then return end\n"),
    ),
    bug(
        "redis: the lease of a refresh lasts until the clock has caught up",
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
        "mysql: the kind of a damaged row is looked up as it is",
        "tests/stores/mysql/test_damage.py::test_a_line_with_an_unknown_kind_is_a_clear_error",
        (
            "holdfast.stores.mysql.replies",
            "    if not 0 <= number < len(KINDS):\n",
            "    if number < 0:\n",
        ),
    ),
    bug(
        "the judge of damage doesn't ask whether two believe",
        "tests/testing/test_damage_judge.py::test_two_valid_holders_are_found",
        (
            "holdfast.testing.faults.scene",
            "        if _believes(one) and _believes(two):\n            self.wrong",
            "        if one is two:\n            self.wrong",
        ),
    ),
    bug(
        "the judge of damage calls a name that nobody gets refused",
        "tests/testing/test_damage_judge.py::test_a_name_that_can_no_longer_be_acquired_is_found",
        (
            "holdfast.testing.faults.damage",
            "if isinstance(busy, NotAcquired):",
            "if not isinstance(busy, HoldfastError):",
        ),
    ),
    bug(
        "mysql: doctor doesn't look at the rows of claims",
        "tests/stores/mysql/test_doctor.py"
        "::test_lines_that_say_something_else_than_their_claims_are_counted",
        (
            "holdfast.stores.mysql.blocking.doctor",
            "l.claims <> COALESCE(c.claims, 0) OR l.waiters <> COALESCE(c.waiters, 0)",
            "l.claims < 0 OR l.waiters < 0",
        ),
    ),
    bug(
        "a fence is advanced in autocommit, and then refused",
        "tests/sql/test_fence_autocommit.py::test_a_fence_isnt_advanced_in_autocommit[mariadb]",
        (
            "holdfast.fenced.sql",
            "        return bool(asked())\n",
            "        return False\n",
        ),
    ),
    bug(
        "the purge waits for all names of a kind, and gives up",
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
        "postgres: who is dead is told by the moment at which the verb began",
        f"{AMID}::test_a_waiter_that_read_the_clock_before_it_was_set_back_takes_nothing",
        _postgres(
            ("OR expires <= p_now AND expires <= clock());", "OR expires <= p_now);"),
        ),
    ),
    bug(
        "postgres: a lease is cut by the moment at which the verb began",
        f"{AMID}::test_a_waiter_that_is_slow_cuts_no_lease_that_was_renewed_meanwhile",
        _postgres(
            ("bool_or(expires > clock() + lease", "bool_or(expires > p_now + lease"),
            ("SET expires = clock() + lease(ttl), ttl", "SET expires = p_now + lease(ttl), ttl"),
            ("AND expires > clock() + lease(ttl);", "AND expires > p_now + lease(ttl);"),
        ),
    ),
    bug(
        "postgres: a loan ends by the moment at which the take began",
        f"{AMID}::test_a_take_that_read_the_clock_before_it_was_set_back_takes_nothing_back",
        _postgres(("            AND expires <= clock()\n", "")),
    ),
    bug(
        "mysql: a loan ends by the moment at which the take began",
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
        "postgres: a holder that weighs less than nothing makes room for two",
        "tests/stores/postgres/test_damage.py"
        "::test_a_holder_that_weighs_less_than_nothing_makes_no_room_for_two",
        _postgres(
            ("AND (weight < 1 OR expires <= p_now", "AND (expires <= p_now"),
            (" OR weight < 1) AS odd", ") AS odd"),
        ),
    ),
]
