"""Other connections: of SQLAlchemy, of Django, and of drivers with their own kinds of rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from holdfast import ConfigError, NotAcquired, StoreUnavailable
from holdfast.sql import purge, row_lock
from tests.servers.process import until

from .database import Database, refused

SCHEMES = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}


@pytest.fixture
def engine(database: Database) -> Iterator[sqlalchemy.Engine]:
    """An engine with a single connection."""
    url = database.url().replace(database.url().partition(":")[0], SCHEMES[database.word])
    made = sqlalchemy.create_engine(url, pool_size=1, max_overflow=0, pool_timeout=5)
    yield made
    made.dispose()


def test_a_connection_or_session_of_sqlalchemy(
    engine: sqlalchemy.Engine, database: Database, own_name: str
) -> None:
    for make in (engine.connect, lambda: Session(engine)):
        with database.open() as other, make() as one:
            # SQLAlchemy knows the transaction that the lock begins
            assert row_lock(one, own_name, timeout=0).name == own_name
            assert one.in_transaction()
            assert refused(other, own_name)
            one.rollback()
            assert not refused(other, own_name)
            # A refusal leaves the transaction unchanged
            assert refused(one, own_name)
            one.execute(sqlalchemy.text("SELECT 1"))
    with database.open() as other:
        with engine.begin() as one:
            row_lock(one, own_name, timeout=5)
            assert refused(other, own_name)
        assert not refused(other, own_name)
        other.rollback()
    of_thread = scoped_session(sessionmaker(engine))
    row_lock(of_thread, own_name, timeout=0)
    of_thread.remove()


def test_sqlalchemy_in_autocommit_is_refused(engine: sqlalchemy.Engine, own_name: str) -> None:
    automatic = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    with automatic, pytest.raises(ConfigError, match="outside a transaction"):
        row_lock(automatic, own_name)
    with pytest.raises(ConfigError, match="Connection or Session"):
        row_lock(engine, own_name)


def test_the_separate_connections_end_with_the_engine(
    engine: sqlalchemy.Engine, database: Database, own_name: str
) -> None:
    before = database.connections()
    with engine.begin() as one:
        row_lock(one, own_name, timeout=0)
    assert database.connections() > before
    engine.dispose()
    until(lambda: database.connections() <= before, "all of them are closed")


@pytest.fixture
def wrapper(database: Database) -> Iterator[Any]:
    """``django.db.connections[...]`` for the database."""
    import django
    from django.conf import settings
    from django.db import connections
    from django.db.utils import ConnectionHandler

    pymysql.install_as_MySQLdb()  # type: ignore[attr-defined]
    if not settings.configured:
        settings.configure(USE_TZ=True, LOGGING_CONFIG=None)
        django.setup()
    url = sqlalchemy.make_url(database.url())
    place = {
        "ENGINE": f"django.db.backends.{database.word}",
        "NAME": url.database,
        "HOST": url.host,
        "PORT": str(url.port),
        "USER": url.username,
        "PASSWORD": url.password or "",
    }
    handler = ConnectionHandler({"default": {}, database.word: place})
    connections.settings[database.word] = handler.settings[database.word]
    yield connections[database.word]
    connections[database.word].close()


def test_a_connection_of_django(wrapper: Any, database: Database, own_name: str) -> None:
    from django.db import transaction

    with pytest.raises(ConfigError, match="outside a transaction"):
        row_lock(wrapper, own_name)
    with database.open() as other:
        with transaction.atomic(wrapper.alias):
            assert row_lock(wrapper, own_name, timeout=0).name == own_name
            assert refused(other, own_name)
        assert not refused(other, own_name)
        with transaction.atomic(wrapper.alias):
            # A refusal leaves the block unchanged
            assert refused(wrapper, own_name)
            with wrapper.cursor() as cursor:
                cursor.execute("SELECT 1")


def test_rows_of_another_kind(database: Database, own_name: str) -> None:
    options: dict[str, Any] = {"row_factory": dict_row, "cursor_factory": psycopg.ClientCursor}
    if database.word == "mysql":
        options = {"cursorclass": pymysql.cursors.DictCursor}
    with database.open(**options) as one, database.open("READ COMMITTED", **options) as other:
        row_lock(one, own_name, timeout=0)
        assert refused(other, own_name)
        with pytest.raises(NotAcquired):
            row_lock(other, own_name, timeout=1.1)
        assert purge(other, 3600) >= 0


def test_a_side_connection_that_was_closed_is_opened_again(
    database: Database, own_name: str
) -> None:
    with database.open() as one:
        row_lock(one, own_name, timeout=0)
        one.commit()
        database.kill_others(one)
        row_lock(one, own_name, timeout=0)


def test_a_function_that_opens_the_separate_connection(database: Database, own_name: str) -> None:
    with database.open() as one, closing(database.connect()) as other:
        opened = iter([other])  # it is opened once

        def beside() -> Any:
            return next(opened)

        for number in range(3):
            row_lock(one, f"{own_name}:{number}", timeout=0, side_connection=beside)
            one.rollback()
        assert not [*opened]


def test_a_separate_connection_that_cannot_be_had(database: Database, own_name: str) -> None:
    def beside() -> Any:
        raise OSError("no route")

    class MySQLdbLike:
        """A connection of a driver that does not show the options it was opened with."""

        __module__ = "MySQLdb.connections"

    with database.open() as one, pytest.raises(StoreUnavailable, match="no route"):
        row_lock(one, own_name, side_connection=beside)
    with pytest.raises(ConfigError, match="side_connection="):
        row_lock(MySQLdbLike(), own_name)
