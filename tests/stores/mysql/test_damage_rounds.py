"""Each row in MariaDB is damaged, one at a time: see ``tests/stores/damage.py``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pymysql
import pytest

from tests.servers.mariadb_server import DATABASE, MariadbServer
from tests.stores.damage import (
    Damaged,
    test_what_is_damaged_is_refused_clearly_or_healed_in_time,
    test_without_damage_the_scenario_plays_to_its_end,
)
from tests.stores.tables import ITEMS, TablesGround, mysql_tables

__all__ = [
    "test_what_is_damaged_is_refused_clearly_or_healed_in_time",
    "test_without_damage_the_scenario_plays_to_its_end",
]


@pytest.fixture
def damaged(new_mariadb: Callable[..., MariadbServer]) -> Damaged:
    """A separate server for the test."""
    server = new_mariadb()

    def ask(text: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(pymysql.connect(unix_socket=str(server.socket), user="root")) as one:
            one.autocommit(True)
            with one.cursor() as cursor:
                cursor.execute("SET innodb_lock_wait_timeout = 2, sql_mode = 'STRICT_ALL_TABLES'")
                cursor.execute(text, values or None)
                return list(cursor.fetchall())

    ground = TablesGround(server.url, ask, DATABASE, mysql_tables(DATABASE))
    return Damaged(ground, items=ITEMS, usual=2, at_once=6)
