"""Bugs planted into the procedures of MySQL and MariaDB, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

SCHEMA = "holdfast.stores.mysql.schema"
EXCHANGE = "holdfast.stores.mysql.exchange"
STATEMENTS = "holdfast.stores.mysql.statements"
ROWS = "tests/stores/mysql/test_rows.py"
GIVEN = "tests/stores/mysql/test_given.py"
_READ = 'joinpath(f"{file}.sql").read_text(encoding="utf-8")'


def _instead(*texts: tuple[str, str]) -> tuple[str, str, str]:
    """The procedures are made of other texts."""
    changed = "".join(f".replace({old!r}, {new!r})" for old, new in texts)
    return SCHEMA, _READ, f"{_READ}{changed}"


MYSQL = [
    bug(
        "mysql: the name's row isn't locked",
        f"{ROWS}::test_of_those_who_try_at_once_one_enters",
        _instead((" FOR UPDATE;", ";")),
    ),
    bug(
        "an old snapshot is read under the lock",
        f"{ROWS}::test_no_more_enter_at_once_than_fit",
        (SCHEMA, "'READ-COMMITTED'", "'REPEATABLE-READ'"),
        _instead(
            (
                "  START TRANSACTION;\n",
                "  START TRANSACTION;\n  SELECT MAX(seat) INTO @any FROM holdfast_claims;\n",
            )
        ),
    ),
    bug(
        "mysql: a ticket is drawn before the lock",
        f"{ROWS}::test_time_and_tickets_are_those_after_the_wait_for_the_lock",
        _instead(
            (
                (
                    "  START TRANSACTION;\n  SELECT last, tomb, claims, lone, expires INTO v_last, "
                    "v_tomb, v_claims, v_lone, v_expires\n"
                    "    FROM holdfast_lines WHERE name = p_name FOR UPDATE;\n"
                ),
                (
                    "  START TRANSACTION;\n"
                    "  SELECT last INTO @last FROM holdfast_lines WHERE name = p_name;\n"
                    "  SELECT last, tomb, claims, lone, expires INTO v_last, "
                    "v_tomb, v_claims, v_lone, v_expires\n"
                    "    FROM holdfast_lines WHERE name = p_name FOR UPDATE;\n"
                    "  SET v_last = COALESCE(@last, v_last);\n"
                ),
            )
        ),
    ),
    bug(
        "a claim is not looked for among the tombs",
        "tests/stores/mysql/test_lost.py::test_a_late_copy_of_a_join_finds_a_tombstone",
        _instead(("AND v_tomb <= v_now THEN", "THEN")),
    ),
    bug(
        "what may have been carried out is sent again",
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
        "an engine's transactions and isolation go on in our sessions",
        f"{GIVEN}::test_its_isolation_and_its_transactions_are_not_ours",
        (SCHEMA, "'READ-COMMITTED', autocommit = 1, ", "'READ-COMMITTED', "),
    ),
    bug(
        "a connection that was made anew counts as still holding",
        f"{GIVEN}::test_a_connection_that_is_made_anew_says_nothing_of_the_hold[lost]",
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
        "an answer that can't be read is no error of the store",
        "tests/stores/mysql/test_garbled.py::"
        "test_an_answer_that_cannot_be_read_costs_its_connection_alone",
        (
            "holdfast.stores.mysql.blocking.link",
            "        except GARBLED as wrong:\n",
            "        except ZeroDivisionError as wrong:\n",
        ),
    ),
    bug(
        "a connection that was ended as its answer came is given to the next one",
        "tests/stores/mysql/test_cancelled.py::"
        "test_a_connection_whose_time_is_over_as_its_answer_comes_is_used_no_more",
        (
            "holdfast.stores.mysql.aio",
            "if self._closed or link.ended:",
            "if self._closed:",
        ),
    ),
]
