"""Rows that a transaction has read before it got the lock: an outdated snapshot is noticed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from holdfast import NotSupported, StaleSnapshot
from holdfast.sql import row_lock
from tests.servers.mariadb_server import MariadbServer
from tests.servers.process import until

from .database import Database, MariadbDatabase, run


def test_what_was_read_before_the_last_holder_committed_is_noticed(
    pair: tuple[Any, Any], level: str, own_name: str
) -> None:
    one, other = pair
    row_lock(one, own_name)
    one.commit()
    # Given a transaction that has read something, and a later holder that has committed
    run(one, "SELECT count(*) FROM holdfast_rows")
    row_lock(other, own_name)
    other.commit()
    # Then it gets the name only if its later reads see new data
    if level == "READ COMMITTED":
        row_lock(one, own_name, timeout=0)
        return
    with pytest.raises(StaleSnapshot, match="start a new transaction") as told:
        row_lock(one, own_name, timeout=0)
    assert own_name in str(told.value)
    one.rollback()
    row_lock(one, own_name, timeout=0)


def test_a_new_name_in_an_old_transaction(
    database: Database, pair: tuple[Any, Any], level: str, own_name: str
) -> None:
    # Given a transaction that has read something before another one used a name
    one, other = pair
    run(one, "SELECT count(*) FROM holdfast_rows")
    row_lock(other, f"{own_name}:used")
    other.commit()
    if level == "REPEATABLE READ":
        with pytest.raises(StaleSnapshot):
            row_lock(one, f"{own_name}:used", timeout=0)
        one.rollback()
        run(one, "SELECT count(*) FROM holdfast_rows")
    else:
        row_lock(one, f"{own_name}:used", timeout=0)
    # When it locks a name that was never used
    if level == "REPEATABLE READ" and database.word == "postgresql":
        # Then PostgreSQL cannot lock a row that the snapshot does not contain
        with pytest.raises(StaleSnapshot, match="younger"):
            row_lock(one, own_name, timeout=0)
        one.rollback()
    # Then it gets the name
    row_lock(one, own_name, timeout=0)


def test_a_waiter_reads_what_the_holder_wrote(
    pair: tuple[Any, Any], level: str, database: Database, aside: ThreadPoolExecutor,
    own_name: str, notes: str,
) -> None:  # fmt: skip
    one, other = pair
    row_lock(one, own_name)
    run(one, f"INSERT INTO {notes} VALUES ('done')")
    later = aside.submit(row_lock, other, own_name, timeout=30)
    until(database.waiting, "a client waits in the server")
    one.commit()
    if level == "REPEATABLE READ" and database.word == "postgresql":
        with pytest.raises(StaleSnapshot):
            later.result(20)
    else:
        later.result(20)
        assert run(other, f"SELECT what FROM {notes}") == [("done",)]


def test_a_server_that_refuses_old_snapshots_by_itself(
    mariadb: MariadbDatabase, own_name: str
) -> None:
    with mariadb.open("REPEATABLE READ") as one, mariadb.open() as other:
        run(one, "SET SESSION innodb_snapshot_isolation = ON")
        row_lock(one, own_name)
        one.commit()
        run(one, "SELECT count(*) FROM holdfast_rows")
        row_lock(other, own_name)
        other.commit()
        with pytest.raises(StaleSnapshot):
            row_lock(one, own_name, timeout=0)
        one.rollback()
        row_lock(one, own_name, timeout=0)


def test_a_server_with_rollback_on_timeout_is_refused(
    new_mariadb: Callable[..., MariadbServer], own_name: str
) -> None:
    server = new_mariadb("innodb_rollback_on_timeout=ON")
    with closing(server.connect()) as one, pytest.raises(NotSupported, match="rollback_on_timeout"):
        row_lock(one, own_name)
