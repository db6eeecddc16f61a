"""PgBouncer in transaction mode: a new name needs a second session for a moment."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest

from holdfast import StoreUnavailable
from holdfast.sql import async_row_lock, row_lock
from tests.servers.pgbouncer import PgBouncer
from tests.servers.process import until

from .database import NAME, PostgresDatabase

#: Maximum seconds: the caller's timeout, the minimum for a side connection, and a slow machine.
SOON_S = 1.0 + 2.0 + 5.0


@pytest.fixture(scope="module")
def pooler(postgres: PostgresDatabase) -> Iterator[PgBouncer]:
    """A pooler with sessions for two transactions."""
    with PgBouncer(postgres.server, sessions=2) as one:
        yield one


@pytest.fixture
def address(pooler: PgBouncer) -> str:
    return pooler.url.rpartition("/")[0] + f"/{NAME}"


def begun(address: str, ends: ExitStack) -> psycopg.Connection[Any]:
    """A connection whose transaction has a session."""
    one = ends.enter_context(closing(psycopg.connect(address, prepare_threshold=None)))
    one.execute("SELECT 1")
    return one


def waiting(pooler: PgBouncer) -> int:
    """The number of clients that wait for a session."""
    admin = pooler.url.rpartition("/")[0].replace("postgres@", "pgbouncer@") + "/pgbouncer"
    with closing(psycopg.connect(admin, autocommit=True)) as one:
        cursor = psycopg.ClientCursor(one)
        rows = cursor.execute("SHOW POOLS").fetchall()
        at = [column.name for column in cursor.description or ()].index("cl_waiting")
        return sum(int(row[at]) for row in rows)


def test_new_names_in_all_transactions_of_a_small_pool_are_refused_in_time(
    pooler: PgBouncer, address: str, own_name: str, aside: ThreadPoolExecutor
) -> None:
    with ExitStack() as ends:
        # Given transactions that use all sessions of the pool
        both = [begun(address, ends) for _ in range(2)]
        # When each locks a new name, which needs one session more
        since = time.monotonic()
        results = [
            aside.submit(row_lock, one, f"{own_name}:{number}", timeout=1)
            for number, one in enumerate(both)
        ]
        # Then each gets an error in time that names the cause and the remedy
        for result in results:
            with pytest.raises(StoreUnavailable, match=r"default_pool_size.*side_connection="):
                result.result(20)
        assert time.monotonic() - since < SOON_S
        # And both transactions can continue
        for one in both:
            assert one.execute("SELECT 1").fetchone() == (1,)
        # And when one of them has ended, no client waits, and the other one gets its name
        both[0].rollback()
        until(lambda: waiting(pooler) == 0, "no client waits for a session")
        assert row_lock(both[1], f"{own_name}:1", timeout=1).fence


def test_tasks_are_refused_in_time_too(pooler: PgBouncer, address: str, own_name: str) -> None:
    async def begun() -> psycopg.AsyncConnection[Any]:
        one = await psycopg.AsyncConnection.connect(address, prepare_threshold=None)
        await one.execute("SELECT 1")
        return one

    async def main() -> None:
        both = [await begun() for _ in range(2)]
        since = time.monotonic()
        wanted = (
            async_row_lock(one, f"{own_name}:{number}", timeout=1)
            for number, one in enumerate(both)
        )
        for found in await asyncio.gather(*wanted, return_exceptions=True):
            assert isinstance(found, StoreUnavailable), found
            assert "default_pool_size" in str(found)
        assert time.monotonic() - since < SOON_S
        await both[0].rollback()
        assert (await async_row_lock(both[1], f"{own_name}:1", timeout=1)).fence
        for one in both:
            await one.close()

    asyncio.run(main())


def test_a_direct_separate_connection_needs_no_session_of_the_pool(
    postgres: PostgresDatabase, address: str, own_name: str, aside: ThreadPoolExecutor
) -> None:
    with ExitStack() as ends:
        both = [begun(address, ends) for _ in range(2)]
        results = [
            aside.submit(
                row_lock, one, f"{own_name}:{number}", timeout=1, side_connection=postgres.connect
            )
            for number, one in enumerate(both)
        ]
        assert all(result.result(60).fence for result in results)


def out_of_descriptors(descriptor: int) -> int:
    raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.usual(2)
@pytest.mark.parametrize("face", ["threads", "asyncio"])
def test_without_a_descriptor_for_its_watch_a_separate_connection_is_closed(
    face: str, postgres: PostgresDatabase, own_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []

    def lacks() -> Any:
        """The error of a lock while no descriptor can be opened."""
        monkeypatch.setattr("holdfast.sql.blocking.bound.socket.dup", out_of_descriptors)
        return pytest.raises(StoreUnavailable, match=r"separate connection.*Too many open")

    def beside() -> Any:
        opened.append(postgres.connect(autocommit=True))
        return opened[-1]

    async def second_on_a_loop() -> Any:
        opened.append(await psycopg.AsyncConnection.connect(postgres.url(), autocommit=True))
        return opened[-1]

    async def on_a_loop() -> None:
        async with await psycopg.AsyncConnection.connect(postgres.url()) as one:
            await one.execute("SELECT 1")
            with lacks():
                await async_row_lock(one, own_name, timeout=1, side_connection=second_on_a_loop)
            monkeypatch.undo()
            await async_row_lock(one, own_name, timeout=5)  # the transaction can continue

    if face == "asyncio":
        asyncio.run(on_a_loop())
    else:
        with closing(postgres.connect()) as one:
            one.execute("SELECT 1")
            with lacks():
                row_lock(one, own_name, timeout=1, side_connection=beside)
            monkeypatch.undo()
            row_lock(one, own_name, timeout=5)
    assert [there.closed for there in opened] == [True]
