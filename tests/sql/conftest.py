"""Fixtures: a database in each server, connections, and unique names."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.servers.process import until

from .database import LEVELS, Database, MariadbDatabase, PostgresDatabase


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> PostgresDatabase:
    """A database in the PostgreSQL that all tests share."""
    return PostgresDatabase(request.getfixturevalue("shared_postgres"))


@pytest.fixture(scope="session")
def mariadb(request: pytest.FixtureRequest) -> MariadbDatabase:
    """A database in the MariaDB that all tests share."""
    return MariadbDatabase(request.getfixturevalue("shared_mariadb"))


@pytest.fixture(params=["postgres", "mariadb"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """The database of each server in turn."""
    found: Database = request.getfixturevalue(request.param)
    yield found
    until(lambda: found.transactions() == 0, "no test has left a transaction open")


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def pair(database: Database, level: str) -> Iterator[tuple[Any, Any]]:
    """Two connections whose transactions have this isolation level."""
    with database.open(level) as one, database.open(level) as other:
        yield one, other


@pytest.fixture
def aside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def notes(database: Database, own_name: str) -> str:
    """A table for notes of a test."""
    table = own_name.replace("-", "_")
    database.ask(f"CREATE TABLE {table} (what VARCHAR(100))")
    return table
