"""Autocommit with a driver that, like mysqlclient, does not show whether a transaction is open."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pymysql
import pytest

from holdfast import ConfigError
from holdfast.fenced import SqlFence
from tests.servers.mariadb_server import MariadbServer


class Silent:
    """A connection that shows its autocommit mode, but not whether a transaction is open."""

    def __init__(self, real: Any, automatic: bool) -> None:
        self.cursor = real.cursor
        self.get_autocommit = lambda: automatic


@pytest.fixture
def orders(shared_mariadb: MariadbServer) -> Iterator[Any]:
    url = urlsplit(shared_mariadb.url)
    with contextlib.closing(
        pymysql.connect(
            host=url.hostname or "",
            port=url.port or 0,
            user=url.username,
            password=url.password or "",
            database=url.path.strip("/"),
            autocommit=True,
        )
    ) as connection:
        SqlFence("fence_auto", paramstyle=pymysql).create(connection)
        yield connection


def test_the_server_is_asked_whether_a_transaction_was_begun(orders: Any) -> None:
    guard = SqlFence("fence_auto", paramstyle=pymysql)
    silent = Silent(orders, True)
    with pytest.raises(ConfigError, match="Turn autocommit off"):
        guard.advance(silent, "a", 7)
    assert guard.fence(silent, "a") == 0
    orders.begin()
    assert guard.advance(silent, "a", 7) == 7
    orders.rollback()
    assert guard.fence(silent, "a") == 0


@pytest.mark.parametrize("driver", ["MySQLdb", "pg8000"])
def test_a_connection_with_an_unknown_autocommit_state_is_refused(driver: str) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as other:
        guard = SqlFence(paramstyle="qmark")
        guard._module = driver
        guard.create(other)
        with pytest.raises(ConfigError, match="neither the driver nor the server shows it"):
            guard.advance(Silent(other, True), "a", 7)
        assert not other.in_transaction


def test_without_autocommit_nothing_is_asked(orders: Any) -> None:
    orders.autocommit(False)
    guard = SqlFence("fence_auto", paramstyle=pymysql)
    assert guard.advance(Silent(orders, False), "b", 7) == 7
    orders.rollback()
