"""The cost of verbs: statements, pages, and the extra cost of a deep queue or an old snapshot."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from holdfast import Client
from holdfast.core.guard.model import Entry, Finish
from holdfast.runtime.blocking import run_sync
from tests.servers.postgres_server import PostgresServer
from tests.stores.postgres.conftest import NewServer
from tests.stores.sql.costs import *  # noqa: F403
from tests.stores.sql.costs import Counting
from tests.stores.sql.refresh import guards_of
from tests.torture.scale import times

SAMPLES = 50
#: Numbers of jobs of a shallow and of a deep queue.
SHALLOW, DEEP = 1_000, times(1_000_000, 4_000)
#: Number of claims, of jobs or of values that come and go while a snapshot is open.
CHURN = times(100_000, 1_600)
#: Maximum factors by which the pages that a verb reads grow. Pages are counted, because the time
#: depends on the machine's other work. The time is printed.
MORE_BY_DEPTH, MORE = 1.5, 3.0
#: Maximum pages for listing some jobs: in all, and for each job.
TO_LOOK, TO_LOOK_EACH = 50, 10
#: Maximum seconds until a session's counts are visible to others.
TOLD_S = 1.5
LOCKS, QUEUES, GUARDS = r"^SELECT.*(join|leave)_4\(", "^SELECT.*queue_", "^SELECT.*refresh_"
GROUPED = pytest.mark.parametrize("groups", [0, 100], ids=["plain", "groups"])
#: Claims and values that come and go; a client would take longer.
CLAIMS = """
DO $$ DECLARE secret uuid; BEGIN FOR i IN 1 .. {count} LOOP
    secret := gen_random_uuid();
    PERFORM holdfast.join_4('{name}', secret, 'lock', 1, 1, 30000000, -3000000, '', 'me', '',
        4000000, false);
    PERFORM holdfast.leave_4('{name}', secret, 0, 0, false, 30000000, 4000000, false);
    IF i % 50 = 0 THEN COMMIT; END IF;
END LOOP; END $$
"""
VALUES = """
DO $$ DECLARE secret uuid; n bigint; BEGIN FOR i IN 1 .. {count} LOOP
    secret := gen_random_uuid();
    SELECT o.n INTO n
    FROM holdfast.refresh_begin_2('churned', '{key}', secret, 'me', 9000000, 0, '') o;
    PERFORM holdfast.refresh_finish_2('churned', '{key}', secret, n, 'value', 0, 60000000, 0, 1);
    IF i % 50 = 0 THEN COMMIT; END IF;
END LOOP; END $$
"""
_SWEEP = "DELETE FROM holdfast.refresh_values; DELETE FROM holdfast.refresh_duties"
#: A request that stores nothing, and can start a sweep.
NOTHING = Finish(Entry("nobody", ""), "0" * 32, 1, b"", 1.0, 0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def server(counting: Counting) -> PostgresServer:
    return counting.server  # type: ignore[no-any-return]


@contextmanager
def snapshot(server: PostgresServer) -> Iterator[None]:
    """A snapshot that stays open, so that no dead row is removed."""
    with server.connect() as old:
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM holdfast.lines")
        yield
        old.execute("ROLLBACK")


def spent(server: PostgresServer, verbs: str) -> tuple[int, int]:
    """The calls of these verbs since the last call, and the pages that they read."""
    ((calls, pages),) = server.ask(
        "SELECT coalesce(sum(calls), 0), coalesce(sum(shared_blks_hit + shared_blks_read), 0)"
        " FROM pg_stat_statements WHERE query ~ %s",
        verbs,
    )
    server.ask("SELECT pg_stat_statements_reset()")
    return int(calls), int(pages)


def cost(server: PostgresServer, verbs: str, calls: int, work: Callable[[int], object]) -> float:
    """The mean number of pages that this work reads; it makes at least ``calls`` calls."""
    took = []
    spent(server, verbs)
    for number in range(SAMPLES):
        begun = time.perf_counter()
        work(number)
        took.append(time.perf_counter() - begun)
    counted, pages = spent(server, verbs)
    assert counted >= calls * SAMPLES
    print(f"{pages / SAMPLES:.1f} pages, {statistics.median(took) * 1e6:.0f} us")
    return pages / SAMPLES


def old_snapshots_cost_little(
    server: PostgresServer,
    used: Callable[[], list[float]],
    churn: Callable[[], None],
    then: tuple[str, ...] = (),
    more: float = 0,
) -> None:
    """Let rows come and go while a snapshot is open; verbs read hardly more pages after that.

    The second time, the planner also gets new statistics; after that, ``then`` is carried out.
    """
    used()
    before = used()
    with snapshot(server):
        for statement in ("SELECT 1", "ANALYZE", *then):
            churn()
            server.ask(statement)
            for now, first in zip(used(), before, strict=True):
                assert now < MORE * first + more


# -- locks ----------------------------------------------------------------------------------------


@pytest.mark.usual(0)
def test_claims_made_and_removed_under_an_open_snapshot_cost_little(server: PostgresServer) -> None:
    with Client(server.url) as client:

        def used() -> list[float]:
            locks = [client.lock(name) for name in ("one name", "name 3", "a new name")]
            return [cost(server, LOCKS, 2, lambda _: one.acquire().release()) for one in locks]  # noqa: B023

        def churn() -> None:  # half of the claims on one name, half on many names
            server.ask(CLAIMS.format(count=CHURN // 4, name="one name"))
            for number in range(10):
                server.ask(CLAIMS.format(count=CHURN // 40, name=f"name {number}"))

        old_snapshots_cost_little(server, used, churn)


# -- queues ---------------------------------------------------------------------------------------


def fill(client: Client, name: str, many: int, groups: int) -> None:
    """Put ``many`` jobs, spread over ``groups`` groups; with 0 they are ungrouped."""
    for start in range(0, many, 1000):
        batch = range(start, min(start + 1000, many))
        client.queue(name).put_many(
            {"payload": "x" * 100, "group": f"g{at % groups}" if groups else None} for at in batch
        )


def a_job(server: PostgresServer, client: Client, name: str, groups: int) -> float:
    """The mean number of pages that put, take and ack of a job read."""
    queue = client.queue(name, min_interval=0)

    def work(number: int) -> None:
        queue.put("x" * 100, group=f"g{number % groups}" if groups else None)
        job = queue.take(timeout=0)
        assert job is not None
        assert job.ack()

    return cost(server, QUEUES, 3, work)


@GROUPED
def test_a_deep_queue_costs_what_a_shallow_one_costs(server: PostgresServer, groups: int) -> None:
    deep, shallow = f"deep:{groups}", f"shallow:{groups}"
    with Client(server.url) as client:
        fill(client, shallow, SHALLOW, groups * SHALLOW // 1000)
        fill(client, deep, DEEP, groups * DEEP // 1000)
        look_at_a_few(server, client, deep, groups)
        server.ask("ANALYZE")
        names = (shallow, deep, shallow, deep)
        figures = {name: a_job(server, client, name, groups) for name in names}
        assert client.queue(deep).stats().waiting == DEEP
    # One more level in the tree of an index is one more page for each look-up.
    assert figures[deep] < MORE_BY_DEPTH * figures[shallow]


def look_at_a_few(server: PostgresServer, client: Client, name: str, groups: int) -> None:
    """Check that a list of a few jobs does not read the others."""
    queue = client.queue(name)
    first, second = queue.take_many(1, timeout=5) + queue.take_many(1, timeout=5)
    assert first.dead_letter("no")
    for state, group, many in (("taken", None, 1), ("dead", None, 1), (None, "g1", 10)):
        queue.jobs(state, group=group, limit=10)  # the first one reads of the catalogue, too
        spent(server, QUEUES)
        found = queue.jobs(state, group=group, limit=10)
        assert len(found) == (many if group is None or groups else 0)
        calls, pages = spent(server, QUEUES)
        assert calls == 1
        assert pages < TO_LOOK + TO_LOOK_EACH * many
    assert second.release()
    assert queue.retry_dead() == 1


@GROUPED
def test_jobs_made_and_removed_under_an_open_snapshot_cost_little(
    server: PostgresServer, groups: int
) -> None:
    name = f"churn:{groups}"
    with Client(server.url) as client:
        old_snapshots_cost_little(
            server,
            lambda: [a_job(server, client, name, groups)],
            lambda: churn(client, name, CHURN // 2, groups),
            # A group has one row, and each of its jobs leaves old versions of the row
            more=CHURN / groups if groups else 0,
        )


def test_a_take_looks_only_where_something_may_be(server: PostgresServer) -> None:
    def looked_at() -> int:
        time.sleep(TOLD_S)  # a session reports its counts when it ends
        ((read,),) = server.ask(
            "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'ready_pkey'"
        )
        return int(read)

    with Client(server.url) as client:
        client.queue("where").stats()
    with snapshot(server):
        with Client(server.url) as client:
            churn(client, "where", 1_000, 0)
        before = looked_at()
        with Client(server.url) as client:
            a_job(server, client, "where", 0)
        read = (looked_at() - before) / SAMPLES
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


# -- refresh guards -------------------------------------------------------------------------------


def a_value(server: PostgresServer, client: Client) -> list[float]:
    """The mean number of pages of a fresh hit, and of a computation with an invalidation."""
    guard = client.guard("churned", ttl=60)
    # The cost of sweeps is measured in another test
    guards_of(client)._tidied, guards_of(client)._since = math.inf, -SAMPLES * SAMPLES
    # The first time, it also costs pages to find that no row of a key is left
    assert guard.get_many(["hit", "computed"], lambda _: "value")
    guard.invalidate("computed")

    def compute(_: int) -> None:
        guard.get(lambda: "value", key="computed")
        guard.invalidate("computed")

    hit = cost(server, GUARDS, 1, lambda _: guard.get(lambda: "value", key="hit"))
    return [hit, cost(server, GUARDS, 4, compute)]


def test_values_made_and_removed_under_an_open_snapshot_cost_little(server: PostgresServer) -> None:
    with Client(server.url) as client:

        def churn() -> None:
            for key in ("hit", "computed"):
                server.ask(VALUES.format(count=CHURN // 4, key=key))
            client.guard("churned", ttl=60).invalidate("hit", "computed")

        old_snapshots_cost_little(server, lambda: a_value(server, client), churn, (_SWEEP,))


def test_a_sweep_reads_only_where_expired_rows_can_be(server: PostgresServer) -> None:
    with Client(server.url) as client:
        guard, guards = client.guard("tidied", ttl=60), guards_of(client)
        guard.get(lambda: 1)
        guards._from = 0
        # Given many expired rows that are removed, while a snapshot keeps them on the pages
        with snapshot(server):
            server.ask(
                "INSERT INTO holdfast.refresh_duties (guard, key, ends)"
                " SELECT 'over', int4send(n), 1 FROM generate_series(1, 2000) n"
            )
            run_sync(guards.finish(NOTHING, 10.0))
            costs = []
            for _ in range(3):
                guards._since, guards._tidied = 5000, -math.inf
                spent(server, GUARDS)
                run_sync(guards.finish(NOTHING, 10.0))
                costs.append(spent(server, GUARDS)[1])
    print(f"{costs} pages")
    assert costs[-1] < 60


# -- all ------------------------------------------------------------------------------------------


def test_every_statement_goes_by_an_index(new_server: NewServer) -> None:
    server = new_server()

    def use(client: Client, numbers: range) -> None:
        queue = client.queue("x", rate=10_000)
        guard = client.guard("indexed", ttl=60)
        for number in numbers:
            hold = client.lock(f"x{number % 5}").acquire()
            hold.extend()
            assert client.lock(f"x{number % 5}").acquire(blocking=False) is None
            hold.release()
            queue.put(number, group=f"g{number % 3}", id=f"i{number}")
            job = queue.take(timeout=10)
            assert job is not None
            assert job.retry(in_=0) if number % 2 else job.ack()
            assert guard.get_many([f"{number}", "b"], lambda _: 1) == {f"{number}": 1, "b": 1}
            assert guard.get(lambda: 1, key=f"{number % 3}") == 1
            guard.invalidate(f"{number}", "b")
        assert client.inspect("x") == []
        assert guard.stats().computes
        assert client.guards("indexed")
        guard.inspect()

    with Client(server.url) as client:
        use(client, range(1))
        server.ask("ANALYZE holdfast.refresh_duties, holdfast.refresh_values")
    time.sleep(TOLD_S)
    server.ask("SELECT pg_stat_reset()")
    with Client(server.url) as client:
        use(client, range(1, 40))
    time.sleep(TOLD_S)
    rows = server.ask(
        "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE relname LIKE 'refresh%' OR relname"
        " IN ('lines', 'claims', 'jobs', 'groups', 'ready', 'loans', 'known', 'lanes', 'counts',"
        " 'idle')"
    )
    assert {name: scans for name, scans in rows if scans} == {}
