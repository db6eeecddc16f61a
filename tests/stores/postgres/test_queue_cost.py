"""The cost of queues: neither a deep queue nor an old snapshot makes them slow."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest

from holdfast import Client
from tests.servers.postgres_server import PostgresServer
from tests.torture.scale import times

SHALLOW = 1_000
DEEP = times(1_000_000, 4_000)
#: Number of jobs that come and go while a snapshot is open.
CHURN = times(100_000, 1_600)
SAMPLES = 50
#: Maximum factors by which the pages that a verb reads grow. Pages are counted, because the time
#: depends on the machine's other work. The time is printed.
MORE_BY_DEPTH, MORE_BY_BLOAT = 1.5, 3.0
#: Maximum pages for listing some jobs: in all, and for each job.
TO_LOOK, TO_LOOK_EACH = 50, 10
TOLD_S = 1.5
GROUPED = pytest.mark.parametrize("groups", [0, 100], ids=["plain", "groups"])


@pytest.fixture(scope="module")
def server() -> object:
    with PostgresServer(
        "shared_preload_libraries = pg_stat_statements", "shared_buffers = 128MB"
    ) as one:
        one.ask("CREATE EXTENSION pg_stat_statements")
        yield one


def fill(client: Client, name: str, many: int, groups: int) -> None:
    """Put ``many`` jobs, spread over ``groups`` groups; with 0 they are ungrouped."""
    for start in range(0, many, 1000):
        batch = range(start, min(start + 1000, many))
        client.queue(name).put_many(
            {"payload": "x" * 100, "group": f"g{at % groups}" if groups else None} for at in batch
        )


def spent(server: PostgresServer) -> tuple[int, int]:
    """The number of calls of the queue verbs, and the pages that they read."""
    ((calls, pages),) = server.ask(
        "SELECT coalesce(sum(calls), 0), coalesce(sum(shared_blks_hit + shared_blks_read), 0)"
        " FROM pg_stat_statements WHERE query LIKE 'SELECT%queue\\_%'"
    )
    return int(calls), int(pages)


def cost(server: PostgresServer, client: Client, name: str, groups: int) -> tuple[float, float]:
    """The mean number of pages that put, take and ack read, and the median of their seconds."""
    queue = client.queue(name, min_interval=0)
    took = []
    server.ask("SELECT pg_stat_statements_reset()")
    for number in range(SAMPLES):
        begun = time.perf_counter()
        queue.put("x" * 100, group=f"g{number % groups}" if groups else None)
        job = queue.take(timeout=0)
        assert job is not None
        assert job.ack()
        took.append(time.perf_counter() - begun)
    calls, pages = spent(server)
    assert calls == 3 * SAMPLES  # one statement, and one round trip, for each verb
    return pages / SAMPLES, statistics.median(took)


@GROUPED
def test_a_deep_queue_costs_what_a_shallow_one_costs(server: PostgresServer, groups: int) -> None:
    deep, shallow = f"deep:{groups}", f"shallow:{groups}"
    with Client(server.url) as client:
        fill(client, shallow, SHALLOW, groups * SHALLOW // 1000)
        fill(client, deep, DEEP, groups * DEEP // 1000)
        look_at_a_few(server, client, deep, groups)
        server.ask("ANALYZE")
        figures = {}
        for name in (shallow, deep, shallow, deep):
            figures[name] = cost(server, client, name, groups)
            print(f"{name}: {figures[name][0]:.1f} pages, {figures[name][1] * 1e6:.0f} us")
        assert client.queue(deep).stats().waiting == DEEP
    # One more level in the tree of an index is one more page for each look-up.
    assert figures[deep][0] < MORE_BY_DEPTH * figures[shallow][0]


def look_at_a_few(server: PostgresServer, client: Client, name: str, groups: int) -> None:
    """Check that a list of a few jobs does not read the others."""
    queue = client.queue(name)
    first, second = queue.take_many(1, timeout=5) + queue.take_many(1, timeout=5)
    assert first.dead_letter("no")
    for state, group, many in (("taken", None, 1), ("dead", None, 1), (None, "g1", 10)):
        queue.jobs(state, group=group, limit=10)  # the first one reads of the catalogue, too
        server.ask("SELECT pg_stat_statements_reset()")
        found = queue.jobs(state, group=group, limit=10)
        assert len(found) == (many if group is None or groups else 0)
        calls, pages = spent(server)
        print(f"{state or group}: {pages} pages")
        assert calls == 1
        assert pages < TO_LOOK + TO_LOOK_EACH * many
    assert second.release()
    assert queue.retry_dead() == 1


@GROUPED
def test_jobs_made_and_removed_under_an_open_snapshot_cost_little(
    server: PostgresServer, groups: int
) -> None:
    name = f"churn:{groups}"
    with Client(server.url) as client, server.connect() as old:
        cost(server, client, name, groups)
        before, took = cost(server, client, name, groups)
        print(f"before: {before:.1f} pages, {took * 1e6:.0f} us")
        # Given a snapshot that stays open
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM holdfast.jobs")
        # When jobs come and go, the second time with new statistics for the planner
        for analyze in (False, True):
            churn(client, name, CHURN // 2, groups)
            if analyze:
                server.ask("ANALYZE")
            # Then the verbs read hardly more pages
            pages, took = cost(server, client, name, groups)
            print(f"after {CHURN} and analyze={analyze}: {pages:.1f} pages, {took * 1e6:.0f} us")
            # A group has one row, and each of its jobs leaves old versions of the row
            versions = CHURN / groups if groups else 0
            assert pages < MORE_BY_BLOAT * before + versions
        old.execute("ROLLBACK")


def test_a_take_looks_only_where_something_may_be(server: PostgresServer) -> None:
    def looked_at() -> int:
        ((read,),) = server.ask(
            "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'ready_pkey'"
        )
        return int(read)

    with server.connect() as old:
        with Client(server.url) as client:
            client.queue("where").stats()
            old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            old.execute("SELECT count(*) FROM holdfast.jobs")
            churn(client, "where", 1_000, 0)
        time.sleep(TOLD_S)  # a session tells what it has counted when it ends
        before = looked_at()
        with Client(server.url) as client:
            cost(server, client, "where", 0)
        time.sleep(TOLD_S)
        read = (looked_at() - before) / SAMPLES
        old.execute("ROLLBACK")
    # Once a second a take reads all dead entries; other takes read hardly any
    print(f"{read:.0f} entries for a job")
    assert read < 300


def churn(client: Client, name: str, many: int, groups: int) -> None:
    """Let ``many`` jobs come and go, a hundred at a time."""
    queue = client.queue(name)
    for start in range(0, many, 100):
        batch = range(start, start + 100)
        queue.put_many(
            {"payload": at, "group": f"g{at % groups}" if groups else None} for at in batch
        )
        left = 100
        while left:
            jobs = queue.take_many(100, timeout=10)
            assert all(queue.ack_many(jobs))
            left -= len(jobs)


def test_every_statement_goes_by_an_index(new_postgres: Callable[..., PostgresServer]) -> None:
    server = new_postgres()
    with Client(server.url) as client:
        client.queue("x").put(0)
    time.sleep(TOLD_S)
    server.ask("SELECT pg_stat_reset()")
    with Client(server.url) as client:
        queue = client.queue("x", rate=10_000)
        for number in range(30):
            queue.put(number, group=f"g{number % 3}", id=f"i{number}")
            job = queue.take(timeout=10)
            assert job is not None
            assert job.retry(in_=0) if number % 2 else job.ack()
    time.sleep(TOLD_S)
    rows = server.ask(
        "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE relname IN"
        " ('jobs', 'groups', 'ready', 'loans', 'known', 'lanes', 'counts', 'idle')"
    )
    assert {name: scans for name, scans in rows if scans} == {}
