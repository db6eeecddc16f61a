"""Queues on PostgreSQL: see ``tests/stores/sql/queues.py``; wake-ups, and rows that stay behind."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import closing
from typing import Any

import pytest

from holdfast import Client, LockLost, StoreUnavailable
from holdfast.core.queue.model import Job, Pace, Put
from holdfast.runtime.blocking import boottime, run_sync
from holdfast.stores.postgres.ddl import VERSION
from holdfast.testing import lag
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until
from tests.stores.postgres.conftest import Bench, NewServer, acknowledged
from tests.stores.sql.fixtures import MakeClient
from tests.stores.sql.queueing import job
from tests.stores.sql.queues import *  # noqa: F403
from tests.stores.sql.queues import Make

lag.watch()
HOUR_US = 3_600_000_000
TABLES = ("jobs", "groups", "ready", "loans", "known", "counts", "idle", "rates")


def put_of(queue: str, *payloads: bytes, group: str = "", number: int = 1) -> Put:
    jobs = tuple(Job(f"{at}", group, b"b" + one) for at, one in enumerate(payloads))
    return Put(queue, uuid.uuid5(uuid.NAMESPACE_URL, queue).hex, number, jobs, 60.0)


def left(server: PostgresServer, queue: str) -> dict[str, int]:
    """The number of rows of a queue in each table that has any, without the producers."""
    found = {}
    for table in TABLES:
        ((rows,),) = server.ask(
            f"SELECT count(*) FROM holdfast.{table} WHERE queue = %s", queue.encode()
        )
        if rows:
            found[table] = rows
    return found


def tidy(server: PostgresServer, hours: int) -> None:
    """Remove expired rows, as if ``hours`` hours had passed."""
    with server.connect(options="-c search_path=holdfast") as link:
        link.execute("SELECT queue_tidy_4(clock_4() + %s)", [hours * HOUR_US])


def test_a_repair_by_a_take_that_began_earlier_shortens_no_pause(
    bench: Bench, new_verbs: Make
) -> None:
    verbs = new_verbs()
    verbs.put(job("a", "g"), job("b", "g"))
    take = verbs.wish(pace=Pace(60.0))
    assert verbs.settle(take, verbs.take(take)) == [True]
    asked = "SELECT due FROM holdfast.groups WHERE queue = %s ORDER BY gen DESC LIMIT 1"
    ((until_us,),) = bench.server.ask(asked, verbs.queue.encode())
    # When a take repairs the queue that read the clock 10 s before the group was settled
    with bench.server.connect(options="-c search_path=holdfast") as link:
        mend = f"SELECT queue_mend_{VERSION}(%s, %s)"
        link.execute(mend, [verbs.queue.encode(), until_us - 70_000_000])  # type: ignore[call-overload]
    assert bench.server.ask(asked, verbs.queue.encode()) == [(until_us,)]


def test_a_lease_that_expires_during_a_take_is_due_at_once(bench: Bench, new_verbs: Make) -> None:
    verbs, late = new_verbs(), new_verbs().wish(wait=True)
    verbs.asked(late)  # now the client listens for wake-ups
    verbs.put(job("a"))
    assert verbs.take(verbs.wish(ttl=0.3))
    # Given a take that has read the clock, and whose search for expired leases has to wait
    key = "hashtextextended(%s, 7236144)"
    with bench.server.connect() as link, link.transaction():
        link.execute(f"SELECT pg_advisory_xact_lock({key})", [str(uuid.UUID(late.id))])
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(verbs.asked(late)))
        thread.start()
        time.sleep(0.5)  # the lease expires
    thread.join()
    # Then it asks again at once, and not after a second
    assert found[0].deliveries or found[0].retry_in < 0.1


def test_a_job_that_is_being_put_when_a_worker_goes_to_sleep_wakes_it(
    bench: Bench, locks: Client, own_name: str
) -> None:
    queue = locks.queue(own_name)
    assert queue.take(timeout=0.05) is None
    # The wake-up comes before the next poll; the fastest of three counts, as the server can be slow
    assert min(_until_woken(bench, queue, at) for at in range(1, 4)) < 0.5


def _until_woken(bench: Bench, queue: Any, number: int) -> float:
    """The seconds until a worker that began to wait during an uncommitted put has its job."""
    got: list[tuple[float, Any]] = []

    def work() -> None:
        job = queue.take(timeout=20)
        assert job is not None
        got.append((time.monotonic(), job.payload))
        job.ack()

    with bench.open(bench.queues.put(put_of(queue.name, b"x", number=number), False)) as link:
        worker = threading.Thread(target=work)
        worker.start()
        time.sleep(0.3)
        begun, since = time.monotonic(), boottime()
        link.commit()
        worker.join(30)
    assert got[0][1] == b"x"
    return got[0][0] - begun - lag.since(since)


def test_one_put_wakes_one_sleeping_waiter(
    shared_postgres: PostgresServer, new_client: MakeClient, own_name: str
) -> None:
    def asleep() -> int:
        return left(shared_postgres, own_name).get("idle", 0)

    done: list[object] = []
    assert new_client().queue(own_name).jobs() == []

    def work(client: Client) -> None:
        job = client.queue(own_name).take(timeout=20)
        assert job is not None
        done.append(job.payload)
        job.ack()

    workers = [threading.Thread(target=work, args=(new_client(),)) for _ in range(3)]
    for worker in workers:
        worker.start()
    until(lambda: asleep() == 3, "all sleep")
    heard: list[str] = []
    with shared_postgres.connect() as link:
        for (address,) in link.execute(
            "SELECT address FROM holdfast.idle WHERE queue = %s", [own_name.encode()]
        ).fetchall():
            link.execute(f'LISTEN "{address}"')
        putter = new_client().queue(own_name)
        for number in range(3):
            putter.put(number)
            until(lambda: len(done) == number + 1, "it is done")  # noqa: B023
            heard += [one.payload for one in link.notifies(timeout=0.1)]
        while len(heard) < 3 and (late := [*link.notifies(timeout=10, stop_after=1)]):
            heard += [one.payload for one in late]
    for worker in workers:
        worker.join(30)
    assert done == [0, 1, 2]
    assert len(heard) == 3
    # Each wake-up goes to another waiter; but a waiter that polls at that moment can get the job
    # first
    assert len(set(heard)) >= 2
    until(lambda: left(shared_postgres, own_name).keys() <= {"counts"}, "nothing is left")


def test_a_timed_out_take_leaves_no_row(
    shared_postgres: PostgresServer, locks: Client, own_name: str
) -> None:
    for _ in range(2):
        assert locks.queue(own_name).take(timeout=0.3) is None
        assert left(shared_postgres, own_name) == {}


def test_a_put_into_a_group_waits_for_the_uncommitted_put_before_it(
    bench: Bench, locks: Client, own_name: str
) -> None:
    queue = locks.queue(own_name)
    queue.put("first", group="g")
    second = put_of(own_name, b"second", group="g")
    with bench.open(bench.queues.put(second, False)) as link:
        later = threading.Thread(target=lambda: queue.put("third", group="g"))
        later.start()
        # Another group isn't blocked
        queue.put("other", group="h")
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        until(lambda: bench.ask(waiting) == [(1,)], "it waits for the row of the group")
        link.commit()
        later.join(30)
    seen = [job.payload for job in queue.consume(timeout=0) if job.group == "g"]
    assert seen == ["first", b"second", "third"]


def test_takers_dont_wait_for_each_other(
    shared_postgres: PostgresServer, locks: Client, own_name: str
) -> None:
    queue = locks.queue(own_name)
    queue.put_many([1, 2], group="a")
    queue.put(3, group="b")
    with shared_postgres.connect() as link, link.transaction(force_rollback=True):
        # Given an uncommitted take of the first group
        link.execute(
            "DELETE FROM holdfast.ready WHERE queue = %s AND grp = 'a'", [own_name.encode()]
        )
        # When another client takes, then it gets the other group at once, and nothing of the first
        job = queue.take(timeout=5)
        assert job is not None
        assert job.payload == 3
        assert queue.take(timeout=0) is None
    again = queue.take(timeout=5)
    assert again is not None
    assert again.payload == 1
    assert job.ack()
    assert again.ack()
    assert queue.purge() == 1


def test_what_must_be_on_the_disk_is_waited_for(
    new_server: NewServer,
) -> None:
    server = new_server()
    with Client(server.url) as client:
        queue, queues = client.queue("x"), client._ctx.store.queues  # type: ignore[attr-defined]
        queue.put_many([1, 2, 3, 4])
        done, job = queue.take_many(2, timeout=5)
        # Given a server that cannot confirm a commit, because its standby is away
        acknowledged(server, False)
        until(lambda: server.ask("SHOW synchronous_standby_names") == [("nobody",)], "it knows")
        until(lambda: _waits_for_standbys(server), "all of its processes do")
        # Then an ack gets a reply, because it may be forgotten; verbs that promise something get
        # none
        assert done.ack()
        with pytest.raises(StoreUnavailable):
            run_sync(queues.put(put_of("x", b"more"), 0.5))
        with pytest.raises(StoreUnavailable):
            run_sync(queues.extend([job._lease.extension()], 0.5))
        take = job._lease.take._replace(id=uuid.uuid4().hex)
        with pytest.raises(StoreUnavailable):
            run_sync(queues.take(take, 0.5))


def _waits_for_standbys(server: PostgresServer) -> bool:
    """Return whether the server leaves a commit without a reply.

    A new setting reaches the server's processes one after the other.
    """
    with closing(server.connect()) as link:
        link.pgconn.send_query(b"SELECT pg_logical_emit_message(true, '', '')")
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            link.pgconn.consume_input()
            if not link.pgconn.is_busy():
                return False
            time.sleep(0.01)
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid = %s"
        return bool(server.ask(waits, link.info.backend_pid))


def test_hundreds_of_leases_that_end_together_are_all_recovered(
    bench: Bench, locks: Client, new_client: MakeClient, own_name: str
) -> None:
    dying = new_client().queue(own_name, ttl=2)
    dying.put_many(range(350))
    taken = dying.take_many(350, timeout=5)
    assert len(taken) == 350
    for one in taken:
        one._ctx.keeper.drop(one._lease)  # as if its process had been killed
    running = "SELECT 1 FROM {loans} WHERE queue = %s AND expires > holdfast.clock_4()"
    until(lambda: not bench.ask(running, own_name.encode()), "all leases have ended")
    queue, left_over = locks.queue(own_name), set(range(350))
    for _ in range(8):  # a hundred at a time, and at once
        for one in queue.take_many(100, timeout=0):
            left_over.discard(one.payload)
            assert one.ack()
    assert not left_over


def test_done_jobs_leave_no_row(
    new_server: NewServer,
) -> None:
    server = new_server()
    with Client(server.url) as client:
        queue = client.queue("x", dedup_window=60, rate=1000, retry_delay=0, retry_delay_max=0)
        for number in range(20):
            queue.put(number, group=f"g{number % 3}" if number % 2 else None, id=f"i{number}")
        for job in queue.take_many(3, timeout=5):
            assert job.retry(in_=0)
        assert queue.purge(ids=["i19"]) == 1
        for _ in queue.consume(timeout=0):
            pass
        before = queue.stats()
        assert (before.accepted, before.done, before.waiting) == (20, 19, 0)
        assert left(server, "x").keys() <= {"groups", "known", "counts", "idle", "rates"}
        # When three hours have passed
        tidy(server, 3)
        # Then nothing is left but the sums, and after 50 hours not even these
        assert left(server, "x") == {}
        assert server.ask("SELECT count(*) FROM holdfast.lanes") == [(0,)]
        assert queue.stats() == before
        tidy(server, 50)
        assert queue.stats().accepted == 0


def test_after_a_relaxed_crash_no_job_is_delivered_in_the_grace_period(
    new_server: NewServer,
) -> None:
    server = new_server(fsync=True)
    url = server.url_for(options="durable=relaxed&grace=3")
    with Client(url) as client, Client(url) as other:
        queue = client.queue("x", ttl=30)
        queue.put("x", group="g")
        job = queue.take(timeout=5)
        assert job is not None
        # Given a server that has lost the delivery, as is allowed with durable=relaxed
        server.crash()
        with server.connect() as admin:
            admin.execute("DELETE FROM holdfast.loans")
            admin.execute(
                "INSERT INTO holdfast.ready SELECT queue, 0, holdfast.clock_4(), seq, grp, 0"
                " FROM holdfast.jobs"
            )
        begun = time.monotonic()
        # When another client takes, it gets the job only after the loss reached the first worker
        again = other.queue("x").take(timeout=20)
        assert again is not None
        assert time.monotonic() - begun > 0.5
        until(lambda: job.lost is not None, "its worker knows")
        with pytest.raises(LockLost):
            job.check()
        assert again.ack()
