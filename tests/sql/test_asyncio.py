"""The row lock under asyncio: psycopg, asyncmy, and SQLAlchemy over both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import asyncmy
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from holdfast import ConfigError, NotAcquired, StaleSnapshot
from holdfast.sql import async_row_lock
from tests.servers.process import until

from .database import Database

SCHEMES = {"postgresql": "postgresql+psycopg", "mysql": "mysql+asyncmy"}
Text = Callable[[Database, str], Coroutine[Any, Any, None]]


def on_a_loop(text: Text) -> Callable[..., None]:
    """Make a test of a coroutine function."""

    def test(database: Database, own_name: str) -> None:
        asyncio.run(text(database, own_name))

    test.__name__ = text.__name__  # type: ignore[attr-defined]
    return test


async def connect(database: Database, **options: Any) -> Any:
    """A connection of the driver for asyncio."""
    if database.word == "postgresql":
        return await psycopg.AsyncConnection.connect(database.url(), **options)
    url = sqlalchemy.make_url(database.url())
    return await asyncmy.connect(
        host=url.host, port=url.port, user=url.username, password=url.password or "",
        database=url.database or "", **options,
    )  # fmt: skip


@asynccontextmanager
async def connected(database: Database, **options: Any) -> AsyncIterator[Any]:
    """A connection that is rolled back and closed at the end."""
    one = await connect(database, **options)
    try:
        yield one
        await one.rollback()
    finally:
        await (one.close() if database.word == "postgresql" else one.ensure_closed())


async def refused(connection: Any, name: str, timeout: float = 0) -> bool:
    try:
        await async_row_lock(connection, name, timeout=timeout)
    except NotAcquired:
        return True
    return False


@on_a_loop
async def test_one_connection_holds_the_row_lock_and_the_other_is_refused(
    database: Database, own_name: str
) -> None:
    async with connected(database) as one, connected(database) as other:
        first = await async_row_lock(one, own_name, timeout=0)
        assert await refused(other, own_name)
        assert await refused(other, own_name, 0.05)
        later = asyncio.create_task(async_row_lock(other, own_name, timeout=20))
        await asyncio.to_thread(until, database.waiting, "a client waits in the server")
        await one.commit()
        assert (await later).fence > first.fence


@on_a_loop
async def test_what_was_read_before_is_noticed(database: Database, own_name: str) -> None:
    async with connected(database) as one, connected(database) as other:
        if database.word == "postgresql":
            await one.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await async_row_lock(one, own_name)
        await one.commit()
        cursor = one.cursor()
        await cursor.execute("SELECT count(*) FROM holdfast_rows")
        await cursor.fetchall()
        await cursor.close()
        await async_row_lock(other, own_name)
        await other.commit()
        with pytest.raises(StaleSnapshot):
            await async_row_lock(one, own_name, timeout=0)


@on_a_loop
async def test_a_connection_that_does_not_fit_is_refused(database: Database, own_name: str) -> None:
    async with connected(database, autocommit=True) as one:
        with pytest.raises(ConfigError, match="outside a transaction"):
            await async_row_lock(one, own_name)
    with database.open() as one, pytest.raises(ConfigError, match="use row_lock"):
        await async_row_lock(one, own_name)


@on_a_loop
async def test_a_wait_may_be_cancelled(database: Database, own_name: str) -> None:
    async with connected(database) as one:
        await async_row_lock(one, own_name)
        with pytest.raises(TimeoutError):
            async with connected(database) as other, asyncio.timeout(0.2):
                await async_row_lock(other, own_name)
        await one.commit()
        async with connected(database) as third:
            await async_row_lock(third, own_name, timeout=20)


@on_a_loop
async def test_a_coroutine_function_that_opens_the_separate_connection(
    database: Database, own_name: str
) -> None:
    opened = []

    async def beside() -> Any:
        opened.append(1)
        return await connect(database)

    async with connected(database) as one:
        for number in range(3):
            await async_row_lock(one, f"{own_name}:{number}", timeout=0, side_connection=beside)
    assert opened == [1]


def test_over_sqlalchemy(database: Database, own_name: str) -> None:
    async def main() -> None:
        url = database.url().replace(database.url().partition(":")[0], SCHEMES[database.word])
        engine = create_async_engine(url, pool_size=2, max_overflow=0)
        async with engine.connect() as one, AsyncSession(engine) as session:
            await async_row_lock(one, own_name, timeout=0)
            assert await refused(session, own_name)
            await one.commit()
            await session.rollback()
            await async_row_lock(session, own_name, timeout=5)
            assert await refused(one, own_name, 0.05)
            await session.commit()
            with pytest.raises(ConfigError, match="AsyncConnection or AsyncSession"):
                await async_row_lock(engine, own_name)
        await engine.dispose()

    before = database.connections()
    asyncio.run(main())
    until(lambda: database.connections() <= before, "all of them are closed")
