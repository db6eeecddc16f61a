"""An old snapshot keeps dead rows from being removed: the verbs stay fast."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest

from holdfast import Client
from tests.servers.postgres_server import PostgresServer
from tests.torture.scale import times

#: Number of claims that are made and released while the snapshot is open.
CLAIMS = times(100_000, 1_600)
SAMPLES = 200
#: Maximum factor by which the pages that a verb reads grow with all the dead rows. Pages are
#: counted, because the time depends on the machine's other work. The time is printed.
MORE = 3.0
#: Maximum seconds until a session's counts are visible to others.
TOLD_S = 1.5
_CHURN = """
DO $$ DECLARE secret uuid; BEGIN FOR i IN 1 .. {count} LOOP
    secret := gen_random_uuid();
    PERFORM holdfast.join_3('{name}', secret, 'lock', 1, 1, 30000000, -3000000, '', 'me', '',
        4000000, false);
    PERFORM holdfast.leave_3('{name}', secret, 0, 0, false, 30000000, 4000000, false);
    IF i % 50 = 0 THEN COMMIT; END IF;
END LOOP; END $$
"""


def cost(server: PostgresServer, client: Client, name: str) -> tuple[float, float]:
    """The mean number of pages that acquire and release read, and their median time in seconds."""
    taken = []
    server.ask("SELECT pg_stat_statements_reset()")
    for _ in range(SAMPLES):
        begun = time.perf_counter()
        client.lock(name).acquire().release()
        taken.append(time.perf_counter() - begun)
    ((pages,),) = server.ask(
        "SELECT sum(shared_blks_hit + shared_blks_read) FROM pg_stat_statements"
        " WHERE query LIKE 'SELECT%join_3(%' OR query LIKE 'SELECT%leave_3(%'"
    )
    return float(pages) / SAMPLES, statistics.median(taken)


@pytest.mark.usual(0)
def test_claims_made_and_removed_under_an_open_snapshot_cost_little(
    new_postgres: Callable[..., PostgresServer],
) -> None:
    server = new_postgres("shared_preload_libraries = pg_stat_statements")
    server.ask("CREATE EXTENSION pg_stat_statements")
    with Client(server.url) as client, server.connect() as old:
        cost(server, client, "one name")
        before, took = cost(server, client, "one name")
        print(f"before: {before:.1f} pages, {took * 1e6:.0f} us")
        # Given a snapshot that stays open
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM holdfast.lines")
        # When claims come and go, half of them on one name, half on many names. In the second round
        # the planner also gets new statistics
        for analyze in (False, True):
            server.ask(_CHURN.format(count=CLAIMS // 4, name="one name"))
            for number in range(10):
                server.ask(_CHURN.format(count=CLAIMS // 40, name=f"name {number}"))
            if analyze:
                server.ask("ANALYZE holdfast.lines, holdfast.claims")
            # Then a verb reads hardly more pages
            for name in ("one name", "name 3", "a new name"):
                pages, took = cost(server, client, name)
                print(f"{name}: {pages:.1f} pages, {took * 1e6:.0f} us")
                assert pages < MORE * before
        old.execute("ROLLBACK")


def test_every_statement_goes_by_an_index(new_postgres: Callable[..., PostgresServer]) -> None:
    server = new_postgres()
    with Client(server.url) as client:
        client.lock("x").acquire().release()
    time.sleep(TOLD_S)
    server.ask("SELECT pg_stat_reset()")
    with Client(server.url) as client:
        for number in range(50):
            hold = client.lock(f"x{number % 5}").acquire()
            hold.extend()
            assert client.lock(f"x{number % 5}").acquire(blocking=False) is None
            hold.release()
        assert client.inspect("x") == []
    time.sleep(TOLD_S)
    rows = server.ask(
        "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE relname IN ('lines', 'claims')"
    )
    assert dict(rows) == {"lines": 0, "claims": 0}
