"""Queue requests and replies that are lost, late or cut off, and servers that crash."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.testing.faults import (
    DROP_REPLY,
    DROP_REQUEST,
    HOLD_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
    Fault,
    Proxy,
)
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until
from tests.stores.postgres.bank import Bank
from tests.stores.postgres.conftest import proxied
from tests.torture.scale import FULL, times

MakeClient = Callable[..., Client]
RESETS = pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
#: Faults without a reply; the client sends such a request again after five seconds.
UNANSWERED = (RESET_REPLY, DROP_REPLY, DROP_REQUEST) if FULL else (RESET_REPLY,)
TRIES = times(50, 2)
#: Each request contains the name of its prepared statement.
PUT, TAKE, SETTLE, EXTEND = (
    f"holdfast_queue_{verb}\0".encode() for verb in ("put", "take", "settle", "extend")
)


@pytest.fixture
def worker(proxy: Proxy, new_client: MakeClient, own_name: str) -> Client:
    """A client behind the proxy that has already sent every verb of queues."""
    client = new_client(proxied(proxy))
    queue = client.queue(f"warm:{own_name}")
    queue.put(1)
    job = queue.take(timeout=10)
    assert job is not None
    job._ctx.keeper.add_early(job._lease, job._ctx.now())
    time.sleep(0.2)
    assert job.ack()
    return client


@RESETS
def test_each_verb_that_is_cut_off_counts_once(
    fault: Fault, worker: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    queue, other = worker.queue(own_name), locks.queue(own_name)
    for number in range(TRIES):
        group = "g" if number % 2 else None
        hits = [proxy.arm(PUT, fault)]
        assert not queue.put(number, group=group, id=f"{number}").duplicate
        assert [job.payload for job in other.jobs()] == [b"j%d" % number]
        hits.append(proxy.arm(TAKE, fault))
        job = queue.take(timeout=10)
        assert job is not None
        assert (job.payload, job.attempt) == (number, 1)
        hits.append(proxy.arm(SETTLE, fault))
        assert job.ack()
        assert [one.hits for one in hits] == [1, 1, 1]
        assert other.jobs() == []
    stats = other.stats()
    assert (stats.accepted, stats.done, stats.waiting) == (TRIES, TRIES, 0)


@pytest.mark.parametrize("fault", (RESET_REQUEST, RESET_REPLY) if FULL else (RESET_REPLY,))
def test_a_renewal_that_is_cut_off_costs_no_delivery(
    fault: Fault, worker: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    queue = worker.queue(own_name, ttl=6)
    queue.put("x", group="g")
    job = queue.take(timeout=10)
    assert job is not None
    before = job._lease.deadline
    armed = proxy.arm(EXTEND, fault)
    armed.wait()
    until(lambda: job._lease.deadline > before, "it is renewed all the same")
    job.check()
    assert locks.queue(own_name).take(timeout=0) is None
    assert job.ack()


def test_a_put_without_an_answer_is_sent_again_and_counts_once(
    worker: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    for at, fault in enumerate(UNANSWERED):
        armed = proxy.arm(PUT, fault)
        worker.queue(own_name).put_many(range(3 * at, 3 * at + 3), group="g")
        assert armed.hits == 1
    seen = [job.payload for job in locks.queue(own_name).consume(timeout=0)]
    assert seen == [*range(3 * len(UNANSWERED))]


def test_a_late_copy_of_a_take_that_was_given_up_gets_nothing(
    worker: Client, proxy: Proxy, locks: Client, own_name: str, shared_postgres: PostgresServer
) -> None:
    other = locks.queue(own_name)

    def tombs() -> set[str]:
        return {str(row) for row in shared_postgres.ask("SELECT id FROM holdfast.tombs")}

    for number in range(times(50, 2)):
        other.put(number, group="g")
        before = tombs()
        # Given a take that is on its way while its worker gives up and withdraws it
        late = proxy.arm(TAKE, HOLD_REQUEST)
        with pytest.raises(StoreUnavailable):
            worker.queue(own_name).take(timeout=0.05)
        until(lambda: tombs() - before, "it is withdrawn")  # noqa: B023
        # When the take arrives late
        late.let_go()
        until(lambda: proxy.connections <= 2, "its connection has ended")
        # Then another client can take the job, at its first attempt
        job = other.take(timeout=5)
        assert job is not None
        assert (job.payload, job.attempt) == (number, 1)
        assert job.ack()


@pytest.mark.usual(0)
def test_a_server_that_crashes_under_load_loses_nothing_and_keeps_the_order(
    new_postgres: Callable[..., PostgresServer],
) -> None:
    # Given putters and workers, on a server that is killed with all its processes now and then
    server, bank, over = new_postgres(fsync=True), Bank(4), threading.Event()
    with Client(server.url) as client:  # its tables are there: see test_death.py
        client.queue("x").put(0)
        client.queue("x").purge()
    putters = [threading.Thread(target=put, args=(server, bank, one, over)) for one in bank.seen]
    put_all = threading.Event()  # the last put may be accepted long after it was sent
    workers = [threading.Thread(target=work, args=(server, bank, put_all)) for _ in range(3)]
    threads = putters + workers
    for thread in threads:
        thread.start()
    crashes = times(40, 2)
    for _ in range(crashes):
        time.sleep(times(3, 1))
        server.crash()
    over.set()
    for thread in putters:
        thread.join(90)
    put_all.set()
    for thread in workers:
        thread.join(90)
    print(f"{crashes} crashes, {sum(len(one) for one in bank.accepted.values())} jobs")
    assert not any(thread.is_alive() for thread in threads)
    # Then each job was done, in order and one at a time
    assert bank.broken == []
    assert bank.all_done(), bank.lost()


def put(server: PostgresServer, bank: Bank, group: str, over: threading.Event) -> None:
    """Put jobs into a group, one after the other, and note each accepted one."""
    with Client(server.url) as client:
        queue, number = client.queue("x"), 0
        while not over.is_set():
            with contextlib.suppress(StoreUnavailable):
                queue.put(number, group=group, id=f"{group}:{number}")
                bank.accepted[group].append(number)
                number += 1
            time.sleep(0.002)


def work(server: PostgresServer, bank: Bank, over: threading.Event) -> None:
    """Take and ack jobs until all are done."""
    with Client(server.url) as client:
        queue = client.queue("x", ttl=3, retry_delay=0, retry_delay_max=0)
        while not (over.is_set() and bank.all_done()):
            with contextlib.suppress(StoreUnavailable):
                job = queue.take(timeout=0.5)
                if job is not None:
                    bank.work(job)
                    job.ack()
