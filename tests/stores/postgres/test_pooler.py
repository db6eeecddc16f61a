"""PgBouncer in transaction mode: everything works, but waiters get no wake-ups."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from holdfast import Client
from holdfast.core.finding import Level
from holdfast.testing import differential
from holdfast.testing.faces import FACES, Face
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until
from tests.stores.examined import worst
from tests.stores.postgres.conftest import Bench
from tests.stores.stalled import POOL, most_sessions


@pytest.fixture(scope="module")
def pooler(shared_postgres: PostgresServer) -> Iterator[PgBouncer]:
    with PgBouncer(shared_postgres) as one:
        yield one


def test_the_verbs_mean_the_same(pooler: PgBouncer) -> None:
    summary = differential.check(pooler.url, face="sync", steps=600)
    assert "Granted" not in summary.answers
    assert summary.answers["Held"] > 50


@pytest.mark.usual(2)
@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_waiters_and_workers_get_their_turn_by_asking(
    pooler: PgBouncer, own_name: str, face: Face
) -> None:
    async def main() -> None:
        async with face.client(pooler.url) as locks:
            hold = await locks.lock(own_name).acquire()
            fences: list[int] = []

            async def wait() -> None:
                async with locks.lock(own_name, timeout=20) as mine:
                    fences.append(mine.fence)

            queue, got = locks.queue(own_name), list[object]()

            async def work() -> None:
                async for job in queue.consume(timeout=4):
                    got.append(job.payload)

            actors = [face.start(one) for one in (wait, wait, wait, work)]
            await face.sleep(0.3)
            await hold.release()
            await queue.put_many(range(5), group="g")
            for one in actors:
                await one.result(60)
            assert fences == sorted(set(fences))
            assert (len(fences), got) == (3, [*range(5)])
            assert not locks.capabilities.wakes_waiters
            assert await locks.inspect(own_name) == []

    face.run(main, 90)


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
    found = worst(pooler.url)
    assert found["pooler"].level is Level.WARN
    assert "no waiter can be woken" in found["pooler"].text
    assert not any(one.level is Level.FAIL for one in found.values())


@pytest.mark.usual(0)
@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_stalled_row_takes_up_no_more_sessions_of_the_server_than_the_pool(
    bench: Bench, shared_postgres: PostgresServer, own_name: str, face: Face
) -> None:
    busy = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%join%'"
    with PgBouncer(shared_postgres, "transaction", 10 * POOL) as wide:
        with Client(wide.url) as client:
            client.lock(own_name).acquire().release()
        with bench.locked(own_name):
            url = f"{wide.url}?pool={POOL}"
            most = most_sessions(face, url, own_name, lambda: len(bench.ask(busy)))
            assert 1 <= most <= POOL + 2
            # Then the cancellations have arrived, too
            until(lambda: not bench.ask(busy), "nothing of it waits")
