"""Autocommit with a driver that, like mysqlclient, does not show whether a transaction is open."""

from __future__ import annotations

import contextlib
import sqlite3
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


def test_the_server_is_asked_whether_a_transaction_was_begun(shared_mariadb: MariadbServer) -> None:
    url, fences = urlsplit(shared_mariadb.url), SqlFence("fence_auto", paramstyle=pymysql)
    place = {"host": url.hostname, "port": url.port, "user": url.username}
    login = {"password": url.password or "", "database": url.path.strip("/")}
    with contextlib.closing(pymysql.connect(**place, **login, autocommit=True)) as orders:
        fences.create(orders)
        silent = Silent(orders, True)
        with pytest.raises(ConfigError, match="Turn autocommit off"):
            fences.advance(silent, "a", 7)
        assert fences.fence(silent, "a") == 0
        orders.begin()
        assert fences.advance(silent, "a", 7) == 7
        orders.rollback()
        assert fences.fence(silent, "a") == 0
        # Without autocommit nothing is asked
        orders.autocommit(False)
        assert fences.advance(Silent(orders, False), "b", 7) == 7
        orders.rollback()


@pytest.mark.parametrize("driver", ["MySQLdb", "pg8000"])
def test_a_connection_with_an_unknown_autocommit_state_is_refused(driver: str) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as other:
        fences = SqlFence(paramstyle="qmark")
        fences._module = driver
        fences.create(other)
        with pytest.raises(ConfigError, match="neither the driver nor the server shows it"):
            fences.advance(Silent(other, True), "a", 7)
        assert not other.in_transaction
