"""A table of fences in a database: real SQLite, its paramstyles, two connections, processes."""

from __future__ import annotations

import hashlib
import itertools
import random
import sqlite3
import sys
import types
import urllib.parse
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import ConfigError, FenceRejected, LockLost, NotSupported
from holdfast.fenced import SqlFence, check_rowcount, sql
from tests.fenced.process import Child

SEED = random.SystemRandom().randrange(1 << 32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "orders.db"


@pytest.fixture
def orders(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection:
        SqlFence().create(connection)
        connection.execute("CREATE TABLE paid (name TEXT, by INTEGER)")
        connection.commit()
        yield connection


def pay(connection: sqlite3.Connection, fence: int) -> None:
    """Pay in one transaction as a holder does: advance the fence first, then write the row."""
    SqlFence().advance(connection, "invoice:42", fence)
    connection.execute("INSERT INTO paid VALUES ('invoice:42', ?)", (fence,))


def paid(connection: sqlite3.Connection) -> list[int]:
    return [by for (by,) in connection.execute("SELECT by FROM paid ORDER BY rowid")]


def test_a_smaller_fence_is_refused_and_the_transaction_left_to_the_caller(
    orders: sqlite3.Connection,
) -> None:
    # Given a name that has accepted fence 7
    pay(orders, 7)
    orders.commit()
    # When an older holder advances in the middle of its transaction
    orders.execute("INSERT INTO paid VALUES ('other', 1)")
    with pytest.raises(FenceRejected) as told:
        pay(orders, 6)
    # Then the error names the table, the name and both fences; the transaction is still open
    for part in ("holdfast_fence", "invoice:42", "fence 6", "fence 7"):
        assert part in str(told.value)
    assert (told.value.fence, told.value.greatest) == (6, 7)
    assert orders.in_transaction
    orders.rollback()
    assert paid(orders) == [7]


def test_equal_and_greater_fences_are_accepted_and_names_are_apart(
    orders: sqlite3.Connection,
) -> None:
    fences, cursor = SqlFence(), orders.cursor()
    assert [fences.advance(cursor, "a", fence) for fence in (3, 3, 5)] == [3, 3, 5]
    assert fences.advance(orders, "b", 1) == 1
    assert [fences.fence(cursor, name) for name in "abc"] == [5, 1, 0]
    # And a cursor stays open
    assert cursor.execute("SELECT 1").fetchone() == (1,)


def test_a_rollback_gives_the_old_fence_back(orders: sqlite3.Connection) -> None:
    fences = SqlFence()
    # Given a first use, and later an advance, that are rolled back
    for before, fence in ((0, 5), (4, 9)):
        pay(orders, fence)
        assert fences.fence(orders, "invoice:42") == fence
        orders.rollback()
        # Then the fence is unchanged, and an older fence is accepted again
        assert fences.fence(orders, "invoice:42") == before
        pay(orders, fence - 1)
        orders.commit()
    assert paid(orders) == [4, 8]


def test_a_hold_is_checked_before_and_after_the_row_is_locked(orders: sqlite3.Connection) -> None:
    class Hold:
        fence = 5

        def __init__(self, lost_at: int = 0) -> None:
            self.lost_at, self.checks = lost_at, 0

        def check(self) -> None:
            self.checks += 1
            if self.checks == self.lost_at:
                raise LockLost("lost")

    fences, good = SqlFence(), Hold()
    assert fences.advance(orders, "a", good) == 5
    assert good.checks == 2
    check_rowcount(1, "a", good)
    for lost_at in (1, 2):
        with pytest.raises(LockLost, match="lost"):
            fences.advance(orders, "a", Hold(lost_at))
    with pytest.raises(LockLost, match="lost"):
        check_rowcount(1, "a", Hold(lost_at=1))


# -- races ---------------------------------------------------------------------------------


class Overtaken(sqlite3.Connection):
    """A connection in which the row of another transaction appears between a read and an insert."""

    others_fence = 0

    def cursor(self, *_: Any) -> Any:
        return super().cursor(OvertakenCursor)


class OvertakenCursor(sqlite3.Cursor):
    def execute(self, text: str, *values: Any) -> sqlite3.Cursor:
        connection: Any = self.connection
        if text.startswith("SAVEPOINT") and connection.others_fence:
            super().execute(
                "INSERT INTO holdfast_fence VALUES ('a', ?, 1)", (connection.others_fence,)
            )
            connection.others_fence = 0
        return super().execute(text, *values)


def test_the_loser_of_the_first_insert_is_compared_with_the_winners_fence(
    path: Path, orders: sqlite3.Connection
) -> None:
    with closing(sqlite3.connect(path, factory=Overtaken)) as mine:
        # Given another transaction whose row appears in the middle of this advance
        # When its fence is not greater, then this fence is accepted, and earlier statements stay
        for theirs in (4, 5):
            mine.execute("INSERT INTO paid VALUES ('a', 5)")
            mine.others_fence = theirs
            assert SqlFence().advance(mine, "a", 5) == 5
            assert SqlFence().fence(mine, "a") == 5
            assert paid(mine) == [5]
            mine.rollback()
        # When its fence is greater, then this fence is refused
        mine.others_fence = 6
        with pytest.raises(FenceRejected, match="fence 6"):
            SqlFence().advance(mine, "a", 5)
        assert mine.in_transaction
        assert SqlFence().fence(mine, "a") == 6


def test_processes_with_interleaved_fences_leave_them_in_order(
    path: Path, orders: sqlite3.Connection
) -> None:
    print(f"seed {SEED}")

    def race(who: int) -> Any:
        def work(child: Child) -> None:
            dice = random.Random(SEED + who)
            fence = 1
            with closing(sqlite3.connect(path, timeout=20)) as mine:
                mine.execute("PRAGMA synchronous=OFF")
                for _ in range(100):
                    fence += dice.choice((0, 0, 1, 4))
                    try:
                        pay(mine, fence)
                        mine.commit()
                        child.say(fence)
                    except FenceRejected:
                        mine.rollback()
                        fence = SqlFence().fence(mine, "invoice:42")
                        mine.rollback()

        return work

    with Child(race(1)) as one, Child(race(2)) as two:
        told = one.rest() + two.rest()
        assert (one.end(), two.end()) == (0, 0)
    order = paid(orders)
    assert order == sorted(order)
    assert sorted(told, key=int) == [str(fence) for fence in order]


# -- paramstyles ---------------------------------------------------------------------------

UPDATE = "UPDATE t SET fence = {}, writes = writes + 1\nWHERE name = {} AND fence <= {}"
NAMED = {"fence": 7, "name": "a"}


@pytest.mark.parametrize(
    "style, marks, values",
    [
        ("qmark", ("?", "?", "?"), (7, "a", 7)),
        ("numeric", (":1", ":2", ":3"), (7, "a", 7)),
        ("format", ("%s", "%s", "%s"), (7, "a", 7)),
        ("named", (":fence", ":name", ":fence"), NAMED),
        ("pyformat", ("%(fence)s", "%(name)s", "%(fence)s"), NAMED),
    ],
)
def test_each_paramstyle_has_its_text_and_its_parameters(
    style: str, marks: tuple[str, ...], values: object
) -> None:
    text = sql._UPDATE.format(table="t")
    assert sql.render(text, style, NAMED) == (UPDATE.format(*marks), values)


@pytest.mark.parametrize("style", ["qmark", "named"])
def test_the_paramstyles_that_sqlite_understands_work_there(
    orders: sqlite3.Connection, style: str
) -> None:
    fences = SqlFence(paramstyle=style)
    assert [fences.advance(orders, "a", fence) for fence in (7, 8)] == [7, 8]
    with pytest.raises(FenceRejected, match="fence 8"):
        fences.advance(orders, "a", 7)


def test_the_paramstyle_is_found_from_the_connection_the_cursor_or_the_module(
    orders: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mine(sqlite3.Connection):
        """A subclass that lives in a module without a paramstyle."""

    for given in (orders, orders.cursor(), Mine(":memory:")):
        assert sql._driver(given) == ("sqlite3", "qmark")
    # A driver whose connection class is in a submodule
    driver = types.ModuleType("driver")
    driver.paramstyle = "pyformat"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "driver", driver)
    connection = type("Connection", (), {"__module__": "driver.extensions"})()
    assert sql._driver(connection) == ("driver", "pyformat")
    assert "'pyformat'" in repr(SqlFence(paramstyle=driver))
    # A driver that hides its paramstyle
    with pytest.raises(ConfigError, match=r"paramstyle=\.\.\."):
        SqlFence().fence(types.SimpleNamespace(execute=print), "a")  # type: ignore[arg-type]
    assert SqlFence(paramstyle=sqlite3).advance(orders, "a", 7) == 7


# -- names and tables ----------------------------------------------------------------------


def test_names_that_a_database_might_confuse_have_separate_rows(orders: sqlite3.Connection) -> None:
    names = ["a", "A", "a ", "ä", "a\0", "%61", "%41", "'; DROP TABLE paid; --", "?", ":1", "%s"]
    names += ["é", "e\u0301", "n" * 256, "n" * 257, "N" * 85, "N" * 86, "ü" * 256]
    # And a name that looks like the stored form of a long name: "A" would be stored as %41
    long = next(
        name
        for name in (f"{number}{'n' * 256}" for number in itertools.count())
        if hashlib.sha256(name.encode()).hexdigest().startswith("41")
    )
    names += [long, f"{long[:190]}A{hashlib.sha256(long.encode()).hexdigest()[2:]}"]
    fences = SqlFence()
    for fence, name in enumerate(names, 1):
        fences.advance(orders, name, fence)
    assert [fences.fence(orders, name) for name in names] == list(range(1, len(names) + 1))
    stored = [name for (name,) in orders.execute("SELECT name FROM holdfast_fence")]
    assert len({name.strip().casefold() for name in stored}) == len(names)
    assert all(name.isascii() and name.isprintable() and len(name) <= 255 for name in stored)
    assert {urllib.parse.unquote(name) for name in stored} >= set(names[:13])


def test_the_same_name_in_another_table_has_another_fence(orders: sqlite3.Connection) -> None:
    other = SqlFence("fences_of_" + "x" * 38)
    for _ in range(2):
        other.create(orders)
    other.advance(orders, "a", 9)
    assert SqlFence().fence(orders, "a") == 0


@pytest.mark.parametrize(
    "options, words",
    [
        *(((wrong,), "can't be a table") for wrong in ("", "1a", "a-b", "a.b", "a b", "a\n", "ä")),
        *(((wrong,), "can't be a table") for wrong in ("a" * 49, None, 7)),
        *((("a", wrong), "known: qmark") for wrong in ("qmarks", 7, types)),
    ],
)
def test_what_is_no_table_or_paramstyle_is_refused(options: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        SqlFence(options[0], **({"paramstyle": options[1]} if options[1:] else {}))


def test_wrong_names_fences_and_connections_are_refused(orders: sqlite3.Connection) -> None:
    fences = SqlFence()
    for name, fence in (("", 1), (b"a", 1), ("x" * 513, 1), ("a", 0), ("a", "1"), ("a", 2**63)):
        with pytest.raises(ConfigError):
            fences.advance(orders, name, fence)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="connection or cursor"):
        fences.advance(None, "a", 1)  # type: ignore[arg-type]
    assert not orders.in_transaction


def test_autocommit_is_noticed_because_the_fence_would_protect_nothing(
    path: Path, orders: sqlite3.Connection
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as auto:
        for given in (auto, auto.cursor()):
            with pytest.raises(ConfigError, match="outside a transaction"):
                SqlFence().advance(given, "a", 1)
        auto.execute("BEGIN")
        assert SqlFence().advance(auto, "a", 2) == 2
        auto.execute("ROLLBACK")


def test_an_error_that_is_no_race_comes_through(orders: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        SqlFence("missing").advance(orders, "a", 1)
    orders.execute("CREATE TABLE odd (name TEXT, fence INTEGER, writes INTEGER CHECK (writes > 5))")
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        SqlFence("odd").advance(orders, "a", 1)


# -- a fence in the caller's row ------------------------------------------------------------


def test_a_fence_in_the_row_itself_is_checked_by_the_number_of_rows(
    orders: sqlite3.Connection,
) -> None:
    orders.execute("CREATE TABLE own (id INTEGER PRIMARY KEY, state TEXT, fence BIGINT NOT NULL)")
    orders.execute("INSERT INTO own VALUES (42, 'new', 0)")

    def change(state: str, fence: int, row: int = 42) -> None:
        cursor = orders.execute(
            "UPDATE own SET state = ?, fence = ? WHERE id = ? AND fence <= ?",
            (state, fence, row, fence),
        )
        check_rowcount(cursor, "order 42", fence)

    change("paid", 7)
    change("sent", 7)
    for fence, row in ((6, 42), (8, 43)):
        with pytest.raises(FenceRejected, match=rf"order 42.* fence {fence}"):
            change("late", fence, row)
    assert orders.execute("SELECT state, fence FROM own").fetchall() == [("sent", 7)]


def test_rows_may_be_given_as_a_number_and_must_be_known() -> None:
    check_rowcount(1, "a", 7)
    check_rowcount(3, "a", 7)
    with pytest.raises(FenceRejected):
        check_rowcount(0, "a", 7)
    with pytest.raises(NotSupported, match="count rows"):
        check_rowcount(-1, "a", 7)
