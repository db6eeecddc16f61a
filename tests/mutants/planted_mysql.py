"""Bugs planted into the procedures of MySQL and MariaDB, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

SCHEMA = "holdfast.stores.mysql.schema"
EXCHANGE = "holdfast.stores.mysql.exchange"
STATEMENTS = "holdfast.stores.mysql.statements"
ROWS = "tests/stores/mysql/test_rows.py"
GIVEN = "tests/stores/mysql/test_given.py"
KIT = "tests/conformance/test_conformance.py::test_conforms"
_READ = 'text(__name__.rpartition(".")[0], "schema", f"{file}.sql")'


def _instead(*texts: tuple[str, str]) -> tuple[str, str, str]:
    """An edit that replaces texts in the source of the procedures."""
    changed = "".join(f".replace({old!r}, {new!r})" for old, new in texts)
    return SCHEMA, _READ, f"{_READ}{changed}"


MYSQL = [
    bug(
        "a connection with an unknown autocommit state is accepted",
        "tests/fenced/test_autocommit.py::test_a_connection_with_an_unknown_autocommit_state_is_refused[MySQLdb]",
        ("holdfast.fenced.sql", "begun is None and automatic", "begun is False and automatic"),
    ),
    bug(
        "mysql: a waiter behind dead waiters polls only after a second",
        "tests/stores/mysql/test_dead_waiters.py::test_the_living_are_served_behind_thousands_of_dead",
        _instead(("IF(v_headexpires <= p_now OR", "IF(FALSE AND")),
    ),
    bug(
        "mysql: the name's row isn't locked",
        f"{ROWS}::test_of_simultaneous_tries_exactly_one_enters",
        _instead((" FOR UPDATE;", ";")),
    ),
    bug(
        "an old snapshot is read under the lock",
        f"{ROWS}::test_of_simultaneous_tries_exactly_one_enters",
        (SCHEMA, "'READ-COMMITTED'", "'REPEATABLE-READ'"),
        _instead(
            (
                "  START TRANSACTION;\n",
                "  START TRANSACTION;\n  SELECT MAX(seat) INTO @any FROM holdfast_claims;\n",
            )
        ),
    ),
    bug(
        "mysql: a name that stays occupied after its release keeps the hold's ttl",
        f"{KIT}[mysql-sync-lock-a_min_hold_longer_than_the_ttl_lasts_when_the_line_is_looked_at]",
        _instead((", ttl = GREATEST(ttl, p_after)", "")),
    ),
    bug(
        "mysql: a ticket is drawn before the lock",
        f"{ROWS}::test_time_and_tickets_are_those_after_the_wait_for_the_lock",
        _instead(
            (
                (
                    "  START TRANSACTION;\n"
                    "  SELECT last, tomb, claims, lone, expires, used, waiters\n"
                    "    INTO v_last, v_tomb, v_claims, v_lone, v_expires, v_a, v_b\n"
                    "    FROM holdfast_lines WHERE name = p_name FOR UPDATE;\n"
                ),
                (
                    "  START TRANSACTION;\n"
                    "  SELECT last INTO @last FROM holdfast_lines WHERE name = p_name;\n"
                    "  SELECT last, tomb, claims, lone, expires, used, waiters\n"
                    "    INTO v_last, v_tomb, v_claims, v_lone, v_expires, v_a, v_b\n"
                    "    FROM holdfast_lines WHERE name = p_name FOR UPDATE;\n"
                    "  SET v_last = COALESCE(@last, v_last);\n"
                ),
            )
        ),
    ),
    bug(
        "a join doesn't search the tombstones for its claim",
        "tests/stores/mysql/test_lost.py::test_a_late_copy_of_a_join_finds_a_tombstone",
        _instead(("      AND v_tomb <= v_now AND", "      AND")),
    ),
    bug(
        "a request that can have been carried out is sent again",
        "tests/stores/mysql/test_lost.py::test_what_may_have_been_carried_out_is_not_sent_again",
        (
            EXCHANGE,
            "            except ServerSaid as said:\n                if said.code in MISSING",
            (
                "            except StoreUnavailable:\n"
                "                pause = 0.01\n"
                "            except ServerSaid as said:\n                if said.code in MISSING"
            ),
        ),
    ),
    bug(
        "holdfast's sessions keep the autocommit setting of an engine",
        f"{GIVEN}::test_holdfast_uses_its_own_isolation_and_transactions",
        (SCHEMA, "'READ-COMMITTED', autocommit = 1, ", "'READ-COMMITTED', "),
    ),
    bug(
        "a lock counts as held after a reconnect",
        f"{GIVEN}::test_a_new_connection_decides_nothing_about_the_hold[lost]",
        (
            "holdfast.stores.mysql.store",
            "        answer = replies.stood(rows)\n",
            (
                "        answer = replies.stood(rows)\n"
                "        if isinstance(answer, Gone) and keep.claim.id not in self._waiting:\n"
                "            answer = Held(keep.ticket, keep.ttl)\n"
            ),
        ),
        (
            "holdfast.stores.mysql.store",
            "    Claim,\n    Granted,\n",
            "    Claim,\n    Gone,\n    Granted,\n",
        ),
    ),
    bug(
        "an unreadable reply raises a raw error",
        "tests/stores/mysql/test_garbled.py::"
        "test_an_answer_that_cannot_be_read_costs_its_connection_alone",
        (
            "holdfast.stores.mysql.blocking.link",
            "        except GARBLED as wrong:\n",
            "        except ZeroDivisionError as wrong:\n",
        ),
    ),
    bug(
        "a connection that ended as its reply came is used again",
        "tests/stores/mysql/test_cancelled.py::"
        "test_a_connection_that_timed_out_as_its_reply_came_is_not_reused",
        (
            "holdfast.stores.mysql.aio.port",
            "if self._closed or link.ended:",
            "if self._closed:",
        ),
    ),
    bug(
        "mysql: a clock that was set back isn't noticed",
        "tests/stores/mysql/test_clock_steps.py::test_a_clock_that_is_set_back[lock]",
        _instead(
            ("expires > p_now + GREATEST(3000000, LEAST(ttl, 86400000000))", "0"),
            ("LEAST(expires, v_now + GREATEST(3000000, LEAST(ttl, 86400000000)))", "expires"),
        ),
    ),
    bug(
        "mysql: unreachable jobs aren't recovered",
        "tests/stores/mysql/test_clock_steps.py::test_a_clock_that_is_set_back[queue]",
        _instead(("CALL holdfast_queue_mend_2(v_queue, v_now);", "SET v_pause = v_pause;")),
        seldom=True,  # it is noticed when a minute is over
    ),
    bug(
        "mysql: a session is ended by its number alone",
        "tests/stores/mysql/test_stalled.py"
        "::test_what_a_locked_table_holds_up_is_ended_and_no_session_of_a_stranger[sync]",
        ("holdfast.stores.mysql.blocking.lost", " AND INSTR(info, '{prefix}_')", ""),
    ),
    bug(
        "mysql: an abandoned connection doesn't count",
        "tests/stores/mysql/test_stalled.py"
        "::test_a_stalled_row_takes_up_no_more_than_the_pool[sync]",
        (
            "holdfast.stores.mysql.blocking.port",
            "self._lost.append(Lost(left, link.thread, self._ending.add))",
            "left.close()",
        ),
    ),
    bug(
        "mysql: a release waits behind other requests for a connection",
        "tests/stores/mysql/test_stalled.py"
        "::test_a_release_finds_a_connection_while_others_wait_for_a_row",
        (EXCHANGE, "until - self.now(), urgent(sql))", "until - self.now(), False)"),
        seldom=True,  # a connection may be free by chance: it is noticed in every second run
    ),
    *(
        bug(
            f"mysql: several names are taken though the row of a line {what}",
            "tests/stores/mysql/test_damage.py"
            "::test_several_names_are_not_granted_over_claims_of_a_damaged_line"
            f"[{test}]",
            _instead((text, other)),
        )
        for what, test, text, other in (
            (
                "was removed",
                "removed",
                "          + EXISTS (SELECT 1 FROM holdfast_claims c WHERE c.name = v_name), lone,",
                "          + 0, lone,",
            ),
            (
                "contradicts itself",
                "no claims",
                "    SELECT last, tomb, ABS(claims) + ABS(used) + ABS(waiters), lone, expires\n",
                "    SELECT last, tomb, claims, lone, expires\n",
            ),
        )
    ),
    bug(
        "mysql: the server's limit of rows applies to our statements",
        "tests/stores/mysql/test_host_settings.py"
        "::test_holdfast_works_whatever_a_session_is_set_to[sql_select_limit-1]",
        (SCHEMA, 'f"sql_select_limit = {UNLIMITED}, ', 'f"'),
    ),
    bug(
        "mysql: a request that found a row it could not read yet is not sent again",
        "tests/stores/mysql/test_seen_later.py"
        "::test_what_found_a_row_that_it_could_not_see_yet_is_sent_again",
        ("holdfast.stores.mysql.complaints", "1020, 3572, 1048})", "1020, 3572})"),
        (
            "holdfast.stores.mysql.complaints",
            '    1048: "conflicts with other transactions rolled it back each time",\n',
            "",
        ),
    ),
]
