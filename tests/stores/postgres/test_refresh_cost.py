"""The cost of refresh guards: statements, pages, and the extra cost of an old snapshot."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator

import pytest

from holdfast import AsyncClient, Client
from holdfast.core.guard.model import Entry, Finish
from holdfast.runtime.blocking import run_sync
from tests.servers.postgres_server import PostgresServer
from tests.stores.postgres.test_refresh import guards_of
from tests.torture.scale import times

SAMPLES = 50
#: Number of values that come and go while a snapshot is open.
CHURN = times(100_000, 2_000)
MORE = 3.0
TOLD_S = 1.5
#: A request that stores nothing, and can start a sweep.
NOTHING = Finish(Entry("nobody", ""), "0" * 32, 1, b"", 1.0, 0.0, 0.0, 0.0)
_CHURN = """
DO $$ DECLARE secret uuid; n bigint; BEGIN FOR i IN 1 .. {count} LOOP
    secret := gen_random_uuid();
    SELECT o.n INTO n
    FROM holdfast.refresh_begin_2('churned', '{key}', secret, 'me', 9000000, 0, '') o;
    PERFORM holdfast.refresh_finish_2('churned', '{key}', secret, n, 'value', 0, 60000000, 0, 1);
    IF i % 50 = 0 THEN COMMIT; END IF;
END LOOP; END $$
"""
_SWEEP = "DELETE FROM holdfast.refresh_values; DELETE FROM holdfast.refresh_duties"
_SPENT = """
SELECT coalesce(sum(calls), 0), coalesce(sum(shared_blks_hit + shared_blks_read), 0)
FROM pg_stat_statements WHERE query LIKE 'SELECT%refresh\\_%'
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer("shared_preload_libraries = pg_stat_statements") as one:
        one.ask("CREATE EXTENSION pg_stat_statements")
        yield one


def spent(server: PostgresServer) -> tuple[int, int]:
    """The statements of refresh guards since the last call, and the pages that they read."""
    ((calls, pages),) = server.ask(_SPENT)
    server.ask("SELECT pg_stat_statements_reset()")
    return int(calls), int(pages)


def test_a_fresh_hit_is_one_statement_and_a_computation_three(server: PostgresServer) -> None:
    with Client(server.url) as client:
        guard = client.guard("cost", ttl=60)
        keys = [f"{number}" for number in range(100)]
        assert guard.get_many(keys, len) == {key: len(key) for key in keys}
        spent(server)
        for _ in range(20):
            guard.get(len, key="1")
        assert spent(server)[0] == 20
        assert guard.get_many(keys, len) == {key: len(key) for key in keys}
        assert spent(server)[0] == 1
        guard.get(lambda: 1, key="a new one")
        assert spent(server)[0] in (3, 4)  # once a second, what is over is removed as well
        assert guard.invalidate(*keys) == 100
        assert spent(server)[0] == 1


def test_the_same_under_asyncio(server: PostgresServer) -> None:
    async def main() -> None:
        async def compute() -> int:
            return 1

        async with AsyncClient(server.url) as client:
            guard = client.guard("cost aio", ttl=60)
            assert await guard.get(compute) == 1
            spent(server)
            for _ in range(20):
                await guard.get(compute)
            assert spent(server)[0] == 20

    asyncio.run(main())


def cost(server: PostgresServer, client: Client) -> tuple[float, float]:
    """The mean number of pages of a fresh hit, and of a computation with an invalidation."""
    guard = client.guard("churned", ttl=60)
    # The cost of sweeps is measured in another test
    guards_of(client)._tidied, guards_of(client)._since = math.inf, -SAMPLES * SAMPLES
    # The first time, it also costs pages to find that no row of a key is left
    assert guard.get_many(["hit", "computed"], lambda _: "value")
    guard.invalidate("computed")
    spent(server)
    for _ in range(SAMPLES):
        guard.get(lambda: "value", key="hit")
    calls, hit = spent(server)
    assert calls == SAMPLES
    for _ in range(SAMPLES):
        guard.get(lambda: "value", key="computed")
        guard.invalidate("computed")
    calls, computed = spent(server)
    assert calls >= 4 * SAMPLES
    return hit / SAMPLES, computed / SAMPLES


def test_values_made_and_removed_under_an_open_snapshot_cost_little(
    server: PostgresServer,
) -> None:
    with Client(server.url) as client, server.connect() as old:
        cost(server, client)
        before = cost(server, client)
        print(f"before: {before[0]:.1f} pages for a hit, {before[1]:.1f} for a computation")
        # Given a snapshot that stays open
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM holdfast.refresh_values")
        # When values come and go; then also with new statistics for the planner; then with all rows
        # removed
        for then in ("", "ANALYZE holdfast.refresh_values, holdfast.refresh_duties", _SWEEP):
            for key in ("hit", "computed"):
                server.ask(_CHURN.format(count=CHURN // 4, key=key))
            client.guard("churned", ttl=60).invalidate("hit", "computed")
            if then:
                server.ask(then)
            hit, computed = cost(server, client)
            print(f"after {CHURN} and {then!r:.20}: {hit:.1f}, {computed:.1f}")
            # Then the verbs read hardly more pages
            assert hit < MORE * before[0]
            assert computed < MORE * before[1]
        old.execute("ROLLBACK")


def test_a_sweep_reads_only_where_expired_rows_can_be(server: PostgresServer) -> None:
    with Client(server.url) as client, server.connect() as old:
        guard, guards = client.guard("tidied", ttl=60), guards_of(client)
        guard.get(lambda: 1)
        guards._from = 0
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM holdfast.refresh_values")
        # Given many expired rows that are removed, while a snapshot keeps them on the pages
        server.ask(
            "INSERT INTO holdfast.refresh_duties (guard, key, ends)"
            " SELECT 'over', int4send(n), 1 FROM generate_series(1, 2000) n"
        )
        run_sync(guards.finish(NOTHING, 10.0))
        costs = []
        for _ in range(3):
            guards._since, guards._tidied = 5000, -math.inf
            spent(server)
            run_sync(guards.finish(NOTHING, 10.0))
            costs.append(spent(server)[1])
        old.execute("ROLLBACK")
    print(f"{costs} pages")
    assert costs[-1] < 60


def test_every_statement_goes_by_an_index(server: PostgresServer) -> None:
    with Client(server.url) as client:
        client.guard("indexed", ttl=60).get(lambda: 1)
        server.ask("ANALYZE")
        time.sleep(TOLD_S)
        server.ask("SELECT pg_stat_reset()")
    with Client(server.url) as client:
        guard = client.guard("indexed", ttl=60)
        for number in range(30):
            assert guard.get_many([f"{number}", "b"], lambda _: 1) == {f"{number}": 1, "b": 1}
            assert guard.get(lambda: 1, key=f"{number % 3}") == 1
            guard.invalidate(f"{number}", "b")
        assert guard.stats().computes > 30
        assert client.guards("indexed")
        guard.inspect()
    time.sleep(TOLD_S)
    rows = server.ask(
        "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE relname LIKE 'refresh%'"
    )
    assert {name: scans for name, scans in rows if scans} == {}
