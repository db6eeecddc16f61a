"""Unused rows are removed in batches, and a row in use is never removed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import ConfigError, NotAcquired, StaleSnapshot
from holdfast.runtime.blocking import boottime, run_sync
from holdfast.sql import create_sql, names, purge, row_lock
from holdfast.sql.blocking.given import given
from holdfast.sql.model import Batch
from holdfast.sql.take import take
from holdfast.testing import lag
from tests.cli.world import holdfast
from tests.servers.process import until
from tests.torture.scale import times

from .database import PASSWORD, USER, Database, MariadbDatabase, run

lag.watch()
HOUR = 3600
SEED = random.SystemRandom().randrange(1 << 32)


@pytest.fixture
def table(database: Database, own_name: str) -> Iterator[str]:
    """A separate table for the test."""
    found = own_name.replace("-", "_")
    database.ask(create_sql(database.word, found))
    yield found
    database.ask(f"DROP TABLE {found}")


def age(database: Database, table: str, hours: float, where: str = "1 = 1") -> None:
    """Set the time of the last use to ``hours`` hours ago."""
    ago = {
        "postgresql": f"clock_timestamp() - interval '{hours} hours'",
        "mysql": f"UTC_TIMESTAMP() - INTERVAL {round(hours * HOUR)} SECOND",
    }[database.word]
    database.ask(f"UPDATE {table} SET used = {ago} WHERE {where}")


def fill(database: Database, table: str, kind: str, count: int, first: int = 0) -> None:
    """Insert ``count`` names in the form that the row lock writes, in one statement."""
    now = "clock_timestamp()" if database.word == "postgresql" else "UTC_TIMESTAMP()"
    rows = ", ".join(f"('{kind}', 'n{first + at}', -1, {now})" for at in range(count))
    database.ask(f"INSERT INTO {table} (kind, name, fence, used) VALUES {rows}")


def test_only_what_is_old_and_not_in_use_is_removed(database: Database, table: str) -> None:
    # Given old rows, of which one is locked and one was used again, and new rows
    fill(database, table, "bank:", 30)
    fill(database, table, "trans:", 30)
    age(database, table, 3)
    fill(database, table, "new:", 5)
    with database.open() as one, database.open() as other:
        row_lock(one, "bank:n7", table=table)
        row_lock(other, "bank:n8", table=table)
        other.commit()
        # When one kind is purged, and then all kinds
        told: list[int] = []
        begun = boottime()
        assert purge(other, 4 * HOUR, table=table) == 0
        gone = purge(other, HOUR, kind="bank:", batch=10, progress=told.append, table=table)
        assert gone == 28
        assert told[-1] == 28
        assert len(told) >= 3
        assert purge(other, HOUR, table=table) == 30
        # The purge waits for no name in use; otherwise it would take 4 s
        assert boottime() - begun - lag.since(begun) < 2
        # Then the rows in use and the new rows are still there
        left = {name for (name,) in database.ask(f"SELECT name FROM {table} WHERE kind = 'bank:'")}
        assert left == {"n7", "n8"}
        assert database.count(table) == 7
        with pytest.raises(NotAcquired):
            row_lock(other, "bank:n7", timeout=0, table=table)


def test_ages_that_a_transaction_may_reach_are_refused(database: Database) -> None:
    with database.open() as one:
        for wrong in (0, HOUR - 1, float("nan"), "30d"):
            with pytest.raises(ConfigError):
                purge(one, wrong)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="colon"):
            purge(one, HOUR, kind="bank:7")


class RemovedJustThen:
    """Side connections that delete all rows after their work, the first ``times`` times."""

    def __init__(self, database: Database, beside: Any, table: str, times: int) -> None:
        self.database, self.beside, self.table, self.left = database, beside, table, times
        self.seen = beside.seen

    async def do(self, work: Any, limit: float) -> Any:
        answer = await self.beside.do(work, limit)
        if self.left:
            self.left -= 1
            self.database.ask(f"DELETE FROM {self.table}")
        return answer


class UsedJustThen:
    """An executor; when its first query has returned rows, another transaction uses a name."""

    def __init__(self, database: Database, teller: Any, table: str) -> None:
        self.database, self.teller, self.table, self.used = database, teller, table, False

    async def ask(self, text: str, values: Any) -> Any:
        return await self.teller.ask(text, values)

    async def rows(self, text: str, values: Any) -> Any:
        found = await self.teller.rows(text, values)
        if not self.used:
            self.used = True
            with self.database.open() as one:
                row_lock(one, "k:n1", timeout=0, table=self.table)
                one.commit()
        return found


def test_a_name_that_is_used_while_the_purge_looks_at_it_stays(
    mariadb: MariadbDatabase, own_name: str
) -> None:
    table = own_name.replace("-", "_")
    mariadb.ask(create_sql(mariadb.word, table))
    fill(mariadb, table, "k:", 3)
    age(mariadb, table, 2)
    with mariadb.open(autocommit=True) as one:
        dialect, teller, _, _ = given(one, None)
        late: Any = UsedJustThen(mariadb, teller, table)
        cutoff = run_sync(dialect.cutoff(teller, HOUR))
        batch = Batch(table, cutoff, None, ("", ""), 10)
        assert run_sync(dialect.purge(late, batch)) == (2, None)
    assert mariadb.ask(f"SELECT name FROM {table}") == [("n1",)]


@pytest.mark.usual(4)
@pytest.mark.parametrize("moment", ["before its lock", "before its transaction"])
def test_a_row_that_is_removed_is_made_again(
    database: Database, table: str, pair: tuple[Any, Any], level: str, moment: str
) -> None:
    one, other = pair
    if moment == "before its lock":
        dialect, teller, beside, _ = given(one, None)
        late: Any = RemovedJustThen(database, beside, table, 1)
        found = take(dialect, teller, late, names.row("x", table), 10, boottime)

        def lock() -> Any:
            return run_sync(found)
    else:
        row_lock(one, "x", timeout=0, table=table)
        one.commit()
        database.ask(f"DELETE FROM {table}")

        def lock() -> Any:
            return row_lock(one, "x", timeout=0, table=table)

    # Then it gets the name again, under REPEATABLE READ only in a new transaction
    if level == "REPEATABLE READ":
        with pytest.raises(StaleSnapshot):
            lock()
        one.rollback()
        row_lock(one, "x", timeout=0, table=table)
    else:
        assert lock().name == "x"
    with pytest.raises(NotAcquired):
        row_lock(other, "x", timeout=0, table=table)


def test_a_row_removed_under_a_waiter_is_made_again(
    database: Database, table: str, level: str, aside: ThreadPoolExecutor
) -> None:
    with database.open() as one, database.open(level) as other:
        row_lock(one, "x", table=table)
        one.commit()
        # Given a transaction that removes the row, as a purge does, and another one that waits for
        # it
        run(one, f"DELETE FROM {table}")
        later = aside.submit(row_lock, other, "x", table=table)
        until(database.waiting, "a client waits in the server")
        # When the removal is committed
        one.commit()
        # Then the waiter makes the row again, or gets StaleSnapshot; it waits no longer
        if level == "REPEATABLE READ":
            with pytest.raises(StaleSnapshot):
                later.result(20)
            other.rollback()
        else:
            assert later.result(20).name == "x"
            with pytest.raises(NotAcquired):
                row_lock(one, "x", timeout=0, table=table)


def test_what_is_made_elsewhere_is_noticed(database: Database, table: str) -> None:
    with database.open() as one:
        dialect, teller, beside, _ = given(one, None)
        gone: Any = RemovedJustThen(database, beside, table, 1000)
        if database.word == "mysql":
            database.set_level(one, "READ COMMITTED")
        with pytest.raises(ConfigError, match="same"):
            run_sync(take(dialect, teller, gone, names.row("x", table), 10, boottime))


def test_holders_exclude_each_other_while_rows_are_removed_under_them(
    database: Database, table: str, aside: ThreadPoolExecutor
) -> None:
    # Given a purge that removes all unlocked old rows, again and again
    stop = threading.Event()
    held = dict.fromkeys(range(3), 0)
    wrong: list[str] = []
    counts = {"held": 0, "removed": 0}
    tries = times(1500, 40)
    print(f"seed {SEED}")

    def remove() -> None:
        with database.open() as one:
            while not stop.is_set():
                age(database, table, 2, f"fence % 3 <> {random.randrange(3)}")
                counts["removed"] += purge(one, HOUR, table=table, batch=2)

    def work(seed: int) -> None:
        chance = random.Random(seed)
        with database.open("READ COMMITTED") as one:
            last = dict.fromkeys(held, 0)
            done, end = 0, time.monotonic() + 60
            while done < tries or (not counts["removed"] and time.monotonic() < end):
                done += 1
                name = chance.randrange(3)
                try:
                    fence = row_lock(one, f"k:{name}", timeout=20, table=table).fence
                except NotAcquired as late:
                    wrong.append(str(late))
                    return
                held[name] += 1
                if held[name] != 1 or fence <= last[name]:
                    wrong.append(f"{name}: {held[name]} holders, {fence} after {last[name]}")
                last[name] = fence
                counts["held"] += 1
                held[name] -= 1
                one.commit()

    # When three workers lock and commit at the same time
    cleaner = aside.submit(remove)
    workers = [aside.submit(work, SEED + at) for at in range(3)]
    for worker in workers:
        worker.result(600)
    stop.set()
    cleaner.result(60)
    # Then each holder is alone, with a greater fence than the last
    assert wrong == []
    assert counts["held"] >= 3 * tries
    assert counts["removed"] > 0
    print(database.word, counts)


# -- the command --------------------------------------------------------------------------------


def test_the_command_removes_what_is_old(database: Database, table: str) -> None:
    fill(database, table, "bank:", 12)
    age(database, table, 31 * 24)
    fill(database, table, "new:", 3)
    url = database.url()
    done = holdfast("purge", url, "--older-than", "30d", "--table", table, "--batch", "5")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"removed 12 rows of {table}\n"
    words = ["--older-than", "30d", "--table", table, "-q", "--kind", "bank"]
    done = holdfast("purge", *words, HOLDFAST_URL=url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert database.count(table) == 3


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["redis://localhost", "--older-than", "30d"], 78, "only in PostgreSQL"),
        (["postgresq://x", "--older-than", "30d"], 78, "postgresql"),
        (["postgresql://u:secret@h/d?sslmod=x", "--older-than", "30d"], 78, "sslmode"),
        (["mysql://u:secret@127.0.0.1:1/d", "--older-than", "30d"], 69, "can't be reached"),
        (["postgresql://u:secret@127.0.0.1:1/d", "--older-than", "30d"], 69, "can't be reached"),
        (["mysql://h/d", "--older-than", "5m"], 64, "between 1 h"),
        (["mysql://h/d"], 64, "--older-than"),
    ],
)
def test_the_error_of_the_command_names_the_cause_without_the_password(
    words: list[str], code: int, said: str
) -> None:
    done = holdfast("purge", *words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "secret" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_least_rights_that_do(database: Database, table: str) -> None:
    # Given a user that may read and write the table, but not delete rows or create a table
    database.new_user(USER, PASSWORD)
    database.grant(f"GRANT SELECT, INSERT, UPDATE ON {table} TO {database.named(USER)}")
    with database.open(user=USER, password=PASSWORD) as one:
        assert row_lock(one, "x", timeout=0, table=table)
        one.commit()
        # When it locks a name in a missing table, or purges
        with pytest.raises(ConfigError, match="create_sql"):
            row_lock(one, "x", table="another_table")
        one.rollback()
        age(database, table, 2)
        with pytest.raises(ConfigError, match="DELETE"):
            purge(one, HOUR, table=table)
    done = holdfast("purge", database.url(USER), "--older-than", "1h", "--table", table)
    assert done.returncode == 78
    assert "DELETE" in done.stderr
    # Then with DELETE the purge removes the row
    database.grant(f"GRANT DELETE ON {table} TO {database.named(USER)}")
    done = holdfast("purge", database.url(USER), "--older-than", "1h", "--table", table)
    assert (done.returncode, done.stdout) == (0, f"removed 1 row of {table}\n")


def test_a_name_that_is_held_keeps_no_other_of_its_kind_from_being_purged(
    database: Database, table: str
) -> None:
    # Given many old names of one kind, of which one is in use
    fill(database, table, "busy:", 100)
    age(database, table, 3)
    with database.open() as one, database.open(autocommit=True) as other:
        row_lock(one, "busy:n50", table=table)
        # When the kind is purged
        begun = time.monotonic()
        assert purge(other, HOUR, kind="busy:", table=table) == 99
        assert time.monotonic() - begun < 20
    assert database.ask(f"SELECT name FROM {table}") == [("n50",)]
