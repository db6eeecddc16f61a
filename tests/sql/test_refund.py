"""Two transactions refund the same order at the same time, in many races: never twice.

Each transaction can read the database *before* it has the lock, as grown code does, and then
decides by the rows it reads. Under REPEATABLE READ a lock on a hand-made row does not help against
that.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from holdfast import Deadlock, NotAcquired, StaleSnapshot
from holdfast.sql import create_sql, row_lock
from tests.torture.scale import times

from .database import LEVELS, Database

AMOUNT = 100
RACES = times(500, 40)
SEED = random.SystemRandom().randrange(1 << 32)
#: A function that locks one order in the connection's transaction.
Lock = Callable[[Any, int], object]


@pytest.fixture(scope="module", params=["postgres", "mariadb"])
def shop(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database with a table of the refunds."""
    database: Database = request.getfixturevalue(request.param)
    database.ask("CREATE TABLE paid (id INT, amount INT)")
    database.ask(create_sql(database.word))
    yield database
    database.ask("DROP TABLE paid")


def refund(connection: Any, order: int, lock: Lock, look: bool, ready: threading.Barrier) -> str:
    """Refund an order unless it is refunded already; return the outcome."""
    cursor = connection.cursor()
    if look:  # at anything: from here on the snapshot is taken
        cursor.execute("SELECT count(*) FROM paid WHERE id = -1")
        cursor.fetchall()
    ready.wait(30)
    try:
        lock(connection, order)
        cursor.execute("SELECT count(*) FROM paid WHERE id = %s", (order,))
        if cursor.fetchone()[0]:
            connection.rollback()
            return "done already"
        cursor.execute("INSERT INTO paid VALUES (%s, %s)", (order, AMOUNT))
        connection.commit()
        return "refunded"
    except (StaleSnapshot, NotAcquired, Deadlock) as refusal:
        connection.rollback()
        return type(refusal).__name__


def races(shop: Database, level: str, lock: Lock, first: int, count: int) -> list[list[str]]:
    """Let two transactions refund each of ``count`` orders; return both outcomes of each order."""
    chance = random.Random(SEED)
    ready = threading.Barrier(2)
    with ExitStack() as ends, ThreadPoolExecutor(2) as pool:
        pair = [ends.enter_context(shop.open(level)) for _ in range(2)]
        outcomes = []
        for order in range(first, first + count):
            looks = [chance.random() < 0.7 for _ in pair]
            futures = [
                pool.submit(refund, one, order, lock, look, ready)
                for one, look in zip(pair, looks, strict=True)
            ]
            outcomes.append([future.result(60) for future in futures])
        return outcomes


def twice(shop: Database) -> list[tuple[Any, ...]]:
    """The orders that were refunded twice."""
    return shop.ask("SELECT id FROM paid GROUP BY id HAVING count(*) > 1")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("timeout", [0, 20])
def test_an_order_is_never_refunded_twice(
    shop: Database,
    level: str,
    timeout: float,
) -> None:
    print(f"seed {SEED}")
    first = 10_000 * (1 + LEVELS.index(level)) + 1000 * int(timeout > 0)
    count = max(RACES // 2, 1)

    def lock(connection: Any, order: int) -> object:
        return row_lock(connection, f"order:{order}", timeout=timeout)

    # Given orders of which every other one was locked before
    with shop.open() as one:
        for order in range(first, first + count, 2):
            lock(one, order)
            one.commit()
    outcomes = races(shop, level, lock, first, count)
    # Then no order is refunded twice, and each order that was locked before is refunded once
    assert twice(shop) == []
    refunded = [both.count("refunded") for both in outcomes]
    assert max(refunded) == 1
    assert refunded[::2] == [1] * len(refunded[::2]), outcomes
    print(shop.word, level, timeout, {
        what: sum(both.count(what) for both in outcomes)
        for what in sorted({one for both in outcomes for one in both})
    })  # fmt: skip


def test_a_lock_written_by_hand_refunds_twice(shop: Database) -> None:
    # Given the same races, with a row that is only locked
    shop.ask("CREATE TABLE byhand (id INT PRIMARY KEY)")
    shop.ask("INSERT INTO byhand VALUES (1)")

    def lock(connection: Any, order: int) -> None:
        cursor = connection.cursor()
        cursor.execute("SELECT id FROM byhand WHERE id = 1 FOR UPDATE")
        cursor.fetchall()

    # When both transactions can have read something before
    outcomes = []
    for attempt in range(50):
        outcomes = races(shop, "REPEATABLE READ", lock, 90_000 + 10 * attempt, 4)
        if any(both == ["refunded", "refunded"] for both in outcomes):
            break
    shop.ask("DROP TABLE byhand")
    shop.ask("DELETE FROM paid WHERE id >= 90000")
    # Then the test above is able to detect it
    assert any(both == ["refunded", "refunded"] for both in outcomes)
