"""The row lock in the caller's own transaction, on real servers: exclusion, refusals, ends."""

from __future__ import annotations

import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import ConfigError, Deadlock, NotAcquired
from holdfast.sql import RowLock, create_sql, row_lock
from tests.servers.process import until

from .database import Database, refused, run

# -- exclusion ------------------------------------------------------------------------------


def test_a_try_for_a_name_in_use_is_refused_and_keeps_the_transaction(
    pair: tuple[Any, Any], database: Database, own_name: str, notes: str
) -> None:
    # Given a transaction that holds a name, and another one that has written a row
    one, other = pair
    row_lock(one, own_name)
    run(other, f"INSERT INTO {notes} VALUES ('before')")
    # When the other transaction tries to lock the name
    with pytest.raises(NotAcquired, match="another transaction holds it") as told:
        row_lock(other, own_name, timeout=0)
    # Then the error has the name, and the transaction can write more rows and commit all of them
    assert own_name in str(told.value)
    assert (told.value.name, told.value.holder) == (own_name, "")
    assert told.value.waited < 20
    run(other, f"INSERT INTO {notes} VALUES ('after')")
    other.commit()
    assert database.ask(f"SELECT what FROM {notes} ORDER BY what") == [("after",), ("before",)]


@pytest.mark.parametrize("end", ["commit", "rollback", "close", "kill"])
def test_the_end_of_the_transaction_frees_the_name(
    database: Database, own_name: str, end: str
) -> None:
    with database.open() as other:
        one = database.connect()
        mine = row_lock(one, own_name)
        assert mine == RowLock(own_name, mine.fence)
        assert refused(other, own_name)
        if end == "kill":
            database.kill(one)
        else:
            getattr(one, end)()
        row_lock(other, own_name, timeout=20)
        if end == "kill":
            with pytest.raises(Exception, match=r"terminat|Lost|gone|closed|2006|2013"):
                one.commit()
        if end != "close":
            one.close()


def test_fences_rise_even_if_the_row_was_removed_in_between(
    database: Database, own_name: str
) -> None:
    seen = []
    with database.open("READ COMMITTED") as one:
        for turn in range(6):
            seen.append(row_lock(one, own_name, timeout=0).fence)
            one.commit()
            if turn % 2:
                database.ask("DELETE FROM holdfast_rows WHERE name = %s", own_name)
    assert seen == sorted(set(seen)), seen


def test_a_rolled_back_holder_leaves_no_trace(database: Database, own_name: str) -> None:
    with database.open("REPEATABLE READ") as one, database.open() as other:
        row_lock(one, own_name)
        one.commit()
        run(one, "SELECT count(*) FROM holdfast_rows")
        row_lock(other, own_name)
        other.rollback()
        row_lock(one, own_name, timeout=0)  # what it reads is as true as before


def test_names_that_look_alike_are_apart(pair: tuple[Any, Any], own_name: str) -> None:
    one, other = pair
    alike = [
        own_name, own_name.upper(), f"{own_name} ", f" {own_name}", f"{own_name}\n", f"{own_name}:",
        f":{own_name}", f"bank:{own_name}", f"trans:{own_name}", f"bank::{own_name}",
        f"{own_name}\0", f"{own_name}'--", f"{own_name}\\", f"{own_name}é", f"{own_name}e\u0301",
        f"{own_name}%s", f"{own_name}%", own_name + "x" * 250, own_name + "X" * 250,
        (own_name + "ü" * 300)[:250],
    ]  # fmt: skip
    for name in alike:
        assert row_lock(one, name, timeout=0).name == name
        one.commit()
    for name in alike[::2]:
        row_lock(one, name, timeout=0)
    other.rollback()
    assert [refused(other, name) for name in alike] == [at % 2 == 0 for at in range(len(alike))]


def test_a_miss_locks_nothing_else(
    pair: tuple[Any, Any], database: Database, own_name: str
) -> None:
    # Given three adjacent names, the middle one locked by a transaction
    one, other = pair
    before, name, behind = (f"{own_name}:{letter}" for letter in "acm")
    for each in (before, name, behind):
        row_lock(one, each)
        one.commit()
    row_lock(one, name)
    # When another transaction was refused this name
    assert refused(other, name)
    # Then a third one can lock the adjacent names, and new names between them
    with database.open() as third:
        for each in (before, behind, f"{own_name}:b", f"{own_name}:d", f"{own_name}:z"):
            row_lock(third, each, timeout=0)


def test_a_try_does_not_wait_for_the_first_user_of_a_name(
    database: Database, own_name: str
) -> None:
    # Given a transaction that has locked new names, and has not committed yet
    setting = "innodb_lock_wait_timeout = 5" if database.word == "mysql" else "lock_timeout = '5s'"
    with database.open() as one, database.open() as other:
        run(other, f"SET SESSION {setting}")
        other.commit()
        for number in range(5):
            row_lock(one, f"{own_name}:{number}", timeout=0)
            # Then another one is refused at once; it would wait if `one` itself had inserted the
            # row
            assert refused(other, f"{own_name}:{number}")


def test_the_child_of_a_fork_leaves_its_parent_s_connections_alone(
    database: Database, own_name: str
) -> None:
    with database.open() as one:
        row_lock(one, own_name, timeout=0)
        one.commit()
        before = database.connections()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                other = database.connect()
                row_lock(other, f"{own_name}:child", timeout=0)
                other.commit()
                gc.collect()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        row_lock(one, own_name, timeout=0)
        until(lambda: database.connections() <= before, "what the child had opened is closed")


# -- waiting ----------------------------------------------------------------------------------


def test_a_waiter_holds_the_row_lock_after_the_holders_commit(
    database: Database, aside: ThreadPoolExecutor, own_name: str
) -> None:
    with database.open() as one, database.open() as other:
        for timeout in (None, 30, 30.5):
            first = row_lock(one, own_name)
            later = aside.submit(row_lock, other, own_name, timeout=timeout)
            until(database.waiting, "a client waits in the server")
            assert not later.done()
            one.commit()
            assert later.result(20).fence > first.fence
            other.commit()


@pytest.mark.parametrize("timeout", [0.05, 1.1])
def test_a_wait_ends_in_time_and_leaves_the_session_unchanged(
    pair: tuple[Any, Any], database: Database, own_name: str, timeout: float
) -> None:
    one, other = pair
    setting = "innodb_lock_wait_timeout" if database.word == "mysql" else "statement_timeout"
    shown = f"SELECT @@{setting}" if database.word == "mysql" else f"SHOW {setting}"
    run(other, f"SET SESSION {setting} = 37000")
    other.commit()
    before = run(other, shown)
    other.rollback()
    row_lock(one, own_name)
    begun = time.monotonic()
    with pytest.raises(NotAcquired) as told:
        row_lock(other, own_name, timeout=timeout)
    assert timeout <= time.monotonic() - begun
    assert (told.value.name, told.value.waited >= 0.9 * timeout) == (own_name, True)
    assert run(other, shown) == before
    if database.word == "postgresql":
        run(other, "SET LOCAL lock_timeout = '500ms'")
        with pytest.raises(NotAcquired, match="the lock_timeout of your session") as told:
            row_lock(other, own_name)
        assert told.value.name == own_name
        assert 0.4 < told.value.waited < 20
    one.rollback()
    other.rollback()
    row_lock(other, own_name, timeout=timeout)
    assert run(other, shown) == before


def test_a_wait_cancelled_by_another_session_is_not_called_busy(
    postgres: Database, aside: ThreadPoolExecutor, own_name: str
) -> None:
    with postgres.open() as one, postgres.open() as other:
        row_lock(one, own_name)
        later = aside.submit(row_lock, other, own_name, timeout=60)
        until(postgres.waiting, "a client waits in the server")
        postgres.ask("SELECT pg_cancel_backend(%s)", other.info.backend_pid)
        with pytest.raises(Exception, match="cancel") as told:
            later.result(20)
        assert not isinstance(told.value, NotAcquired)


def test_a_deadlock_is_raised_and_not_retried(
    database: Database, aside: ThreadPoolExecutor, own_name: str, notes: str
) -> None:
    # Given two transactions with one name each, which have written a row
    with database.open() as one, database.open() as other:
        names = [f"{own_name}:{letter}" for letter in "ab"]
        for connection, name in zip((one, other), names, strict=True):
            row_lock(connection, name)
            run(connection, f"INSERT INTO {notes} VALUES (%s)", name)
        # When each transaction locks the name of the other one
        results = [
            aside.submit(row_lock, connection, name, timeout=60)
            for connection, name in zip((one, other), reversed(names), strict=True)
        ]
        # Then one of them gets an error, and after its rollback the other one gets both names
        told = until(
            lambda: [one for one in results if one.done() and one.exception()],
            "one is refused",
            10,
        )
        loser = results.index(told[0])
        with pytest.raises(Deadlock, match="roll back"):
            results[loser].result(0)
        (one, other)[loser].rollback()
        assert results[1 - loser].result(20).name == names[loser]
        (one, other)[1 - loser].commit()
        assert database.ask(f"SELECT what FROM {notes}") == [(names[1 - loser],)]


# -- refusals ----------------------------------------------------------------------------------


def test_outside_a_transaction_nothing_is_locked(database: Database, own_name: str) -> None:
    with database.open(autocommit=True) as one:
        with pytest.raises(ConfigError, match="outside a transaction"):
            row_lock(one, own_name)
        run(one, "BEGIN")
        row_lock(one, own_name)
        with database.open() as other:
            assert refused(other, own_name)


@pytest.mark.parametrize(
    "name, options",
    [
        ("", {}),
        ("x" * 513, {}),
        (b"bytes", {}),
        ("x", {"timeout": -2}),
        ("x", {"table": "holdfast rows"}),
        ("x", {"table": "a.b.c"}),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(
    name: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError):
        row_lock(object(), name, **options)
    with pytest.raises(ConfigError, match="isn't known to be a connection"):
        row_lock(threading.Lock(), "x")


# -- the table --------------------------------------------------------------------------------


def test_the_table_is_made_when_it_is_missed_by_many_at_once(
    database: Database, aside: ThreadPoolExecutor, own_name: str
) -> None:
    table = f"t_{own_name[5:]}"

    def first(number: int) -> int:
        with database.open() as one:
            return row_lock(one, f"{own_name}:{number}", table=table).fence

    assert all(aside.map(first, range(4)))
    assert database.count(table) == 4
    database.ask(create_sql(database.word, table))  # again, as a migration may do
    database.ask(f"DROP TABLE {table}")


def test_a_table_in_a_schema(database: Database, own_name: str) -> None:
    schema = f"s_{own_name[5:]}"
    if database.word == "postgresql":
        database.ask(f"CREATE SCHEMA {schema}")
    else:
        database.server.ask(f"CREATE DATABASE {schema}")
        database.server.ask(f"GRANT ALL ON {schema}.* TO app@'%'")
    with database.open() as one, database.open() as other:
        row_lock(one, own_name, table=f"{schema}.names")
        assert not refused(other, own_name)
        with pytest.raises(NotAcquired):
            row_lock(other, own_name, table=f"{schema}.names", timeout=0)


def test_create_sql_knows_the_words_for_the_databases() -> None:
    assert create_sql("postgres") == create_sql("postgresql") != create_sql("mysql")
    assert create_sql("mariadb", "x.names").startswith("CREATE TABLE IF NOT EXISTS x.names (")
    with pytest.raises(ConfigError, match="oracle"):
        create_sql("oracle")
