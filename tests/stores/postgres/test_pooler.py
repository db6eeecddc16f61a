"""PgBouncer in transaction mode: everything works, but waiters get no wake-ups."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from holdfast import AsyncClient, Client
from holdfast.core.finding import Level
from holdfast.stores.postgres import examine
from holdfast.testing import differential
from holdfast.url import find
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until
from tests.stores.stalled import FACES

#: Number of connections of a client with a small pool.
POOL = 4


@pytest.fixture(scope="module")
def pooler(shared_postgres: PostgresServer) -> Iterator[PgBouncer]:
    with PgBouncer(shared_postgres) as one:
        yield one


def test_the_verbs_mean_the_same(pooler: PgBouncer) -> None:
    summary = differential.check(pooler.url, face="sync", steps=600)
    assert "Granted" not in summary.answers
    assert summary.answers["Held"] > 50


def test_threads_wait_their_turn_by_asking(pooler: PgBouncer, own_name: str) -> None:
    fences: list[int] = []
    with Client(pooler.url) as locks:
        hold = locks.lock(own_name).acquire()

        def work() -> None:
            with locks.lock(own_name, timeout=20) as mine:
                fences.append(mine.fence)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        hold.release()
        for thread in threads:
            thread.join(30)
        assert len(fences) == 3
        assert fences == sorted(fences)
        assert not locks.capabilities.wakes_waiters
        assert locks.inspect(own_name) == []


def test_tasks_wait_their_turn_by_asking(pooler: PgBouncer, own_name: str) -> None:
    async def main() -> None:
        async with AsyncClient(pooler.url) as locks:
            hold = await locks.lock(own_name).acquire()

            async def work() -> int:
                async with locks.lock(own_name, timeout=20) as mine:
                    return mine.fence

            tasks = [asyncio.create_task(work()) for _ in range(3)]
            await asyncio.sleep(0.3)
            await hold.release()
            assert len(set(await asyncio.gather(*tasks))) == 3
            assert not locks.capabilities.wakes_waiters

    asyncio.run(main())


def test_no_session_of_the_pool_is_changed(pooler: PgBouncer, own_name: str) -> None:
    with Client(pooler.url) as locks:
        locks.lock(own_name).acquire().release()
    with psycopg.connect(pooler.url, autocommit=True, prepare_threshold=None) as plain:
        for _ in range(5):
            row = plain.execute("SELECT current_setting('lock_timeout')").fetchone()
            assert row == ("0",)
        found = plain.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
        assert found == (0,)


def test_doctor_reports_the_pooler(pooler: PgBouncer) -> None:
    _, url = find(pooler.url)
    found = {one.subject: one for one in examine(url)}
    assert found["pooler"].level is Level.WARN
    assert "no waiter can be woken" in found["pooler"].text
    assert not any(one.level is Level.FAIL for one in found.values())


@pytest.mark.usual(0)
@pytest.mark.parametrize("face", FACES)
def test_a_stalled_row_takes_up_no_more_sessions_of_the_server_than_the_pool(
    shared_postgres: PostgresServer, own_name: str, face: str
) -> None:
    with PgBouncer(shared_postgres, "transaction", 10 * POOL) as wide:
        with Client(wide.url) as client:
            client.lock(own_name).acquire().release()

        def busy() -> int:
            ((many,),) = shared_postgres.ask(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND query LIKE '%join%'"
            )
            return int(many)

        with shared_postgres.connect() as other, other.transaction(force_rollback=True):
            name = own_name.encode()
            other.execute("SELECT FROM holdfast.lines WHERE name = %s FOR UPDATE", (name,))
            most = FACES[face](f"{wide.url}?pool={POOL}", own_name, busy)
            assert 1 <= most <= POOL + 2
            # Then the cancellations have arrived, too
            until(lambda: not busy(), "nothing of it waits")
