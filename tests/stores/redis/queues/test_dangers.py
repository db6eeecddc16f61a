"""Faults of a queue on Redis (lost replies, dead servers), and the cost of its verbs."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import Client, LockLost, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.keys import PREFIX
from holdfast.stores.redis.library import EXTEND, NEXT, PUT, SETTLE, TAKE, Script
from holdfast.testing import lag
from holdfast.testing.faults import RESET_REPLY, RESET_REQUEST, RESP, Fault, Proxy
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.stores.redis.conftest import MakeClient, eventually
from tests.stores.redis.test_rights import PAGE, PASSWORD, USER, rights
from tests.stores.redis.test_trips import Counted, cost
from tests.torture.scale import times

lag.watch()
WINDOW_S = 1.0
RESETS = pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
TRIES = times(100, 3)


def url(server: RedisServer, *options: str) -> str:
    return f"{server.url}?{'&'.join(options)}"


# -- lost replies ----------------------------------------------------------------------------


@RESETS
@pytest.mark.parametrize("script", [PUT, TAKE, SETTLE], ids=["put", "take", "ack"])
def test_a_verb_that_is_cut_off_is_done_once(
    script: Script, fault: Fault, by_proxy: Client, other: Client, proxy: Proxy, own_name: str
) -> None:
    queue, looking = by_proxy.queue(own_name), other.queue(own_name)
    for number in range(TRIES):
        # Given
        armed = proxy.arm(script.sha, fault)
        # When
        queue.put_many([number, "behind"], group="g")
        queue.put(number)
        taken = [queue.take(timeout=5) for _ in range(2)]
        # Then
        assert all(taken)
        assert sorted(str(job.group) for job in taken if job) == ["None", "g"]
        assert looking.take(timeout=0) is None
        assert all(job.ack() for job in taken if job)
        last = queue.take(timeout=5)
        assert last
        assert last.payload == "behind"
        assert last.ack()
        assert armed.hits == 1
        record = looking.stats()
        assert (record.waiting, record.taken) == (0, 0)
        assert record.accepted == record.done == 3 * (number + 1)


@RESETS
def test_a_loop_that_is_cut_off_between_two_jobs_does_each_once(
    fault: Fault, by_proxy: Client, other: Client, proxy: Proxy, own_name: str
) -> None:
    queue, looking = by_proxy.queue(own_name), other.queue(own_name)
    for number in range(TRIES):
        queue.put_many([0, 1, 2], group="g")
        queue.put_many([3, 4])
        armed = proxy.arm(NEXT.sha, fault)
        jobs = [(job.payload, job.attempt) for job in queue.consume(timeout=0)]
        assert sorted(jobs) == [(one, 1) for one in range(5)]
        assert [one for one, _ in jobs if one < 3] == [0, 1, 2]
        assert armed.hits == 1
        record = looking.stats()
        assert (record.waiting, record.taken) == (0, 0)
        assert record.accepted == record.done == 5 * (number + 1)


@RESETS
def test_a_renewal_that_is_cut_off_costs_no_delivery(
    fault: Fault, new_client: MakeClient, other: Client, proxy: Proxy, own_name: str
) -> None:
    queue = new_client(f"redis://127.0.0.1:{proxy.port}").queue(own_name, ttl=4.0)
    queue.put("x", group="g")
    job = queue.take(timeout=5)
    assert job
    armed = proxy.arm(EXTEND.sha, fault)
    assert other.queue(own_name).take(timeout=4.5) is None
    assert armed.hits == 1
    job.check()
    assert job.ack()


# -- servers that die ------------------------------------------------------------------------


def test_what_was_accepted_survives_kills_of_a_durable_server(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    server = new_redis("appendonly yes", "appendfsync always")
    client = new_client(url(server, f"grace={WINDOW_S}"))
    queue = client.queue("q", ttl=2.0, retry_delay=0.0, retry_delay_max=0.0)
    accepted: list[int] = []
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    over = threading.Event()

    def put() -> None:
        number = 0
        while not over.is_set():
            try:
                queue.put(number, group=f"g{number % 3}", id=f"id:{number}")
            except StoreUnavailable:
                continue  # the same again
            accepted.append(number)
            number += 1

    def handle(job: Any) -> None:
        seen[job.payload % 3].append(job.payload)

    thread = threading.Thread(target=put)
    worker = new_client(url(server, f"grace={WINDOW_S}")).queue("q", ttl=2.0).worker(handle)
    thread.start()
    with worker:
        for _ in range(times(20, 2)):
            begun = len(accepted)
            eventually(lambda begun=begun: len(accepted) > begun + 20, 30)  # type: ignore[misc]
            server.kill()
            server.start()
        over.set()
        thread.join(30)
        eventually(lambda: sum(len(set(some)) for some in seen.values()) == len(accepted), 60)
    # Each job was executed, in order; only a job whose ack was lost was executed again
    for some in seen.values():
        assert list(dict.fromkeys(some)) == sorted(set(some))


def test_a_server_that_lost_its_data_delivers_nothing_while_workers_may_believe(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    server = new_redis()
    address = url(server, "grace=3")  # a worker that stands still for a second is heard in that
    queue = new_client(address).queue("q", ttl=30)
    queue.put("first", group="g")
    job = queue.take(timeout=5)
    assert job
    # When the server restarts without data, and the same group gets a new job
    server.restart(data=False)
    other = new_client(address).queue("q")
    other.put("second", group="g")
    again = other.take(timeout=20)
    # Then the worker of the first job notices the loss before the next job is delivered
    assert again
    assert job.lost
    assert again.fence > job.fence
    assert not job.ack()
    assert again.ack()


def test_with_a_strict_guard_no_delivery_is_believed_beyond_its_window(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    """Without renewal a delivery ends within the grace period, whatever ttl the worker sets."""
    server = new_redis()
    client = new_client(url(server, "recovery=strict", "grace=3"))
    queue = client.queue("q", ttl=600)
    queue.put("x", group="g")
    job = queue.take(timeout=5)
    assert job
    assert 0 < job.remaining() <= 3
    # And renewals keep the delivery, each for the grace period at most
    first = job._lease.deadline
    eventually(lambda: job._lease.deadline > first, 10)
    assert job.remaining() <= 3
    assert job.ack()
    assert new_client(url(server, "recovery=reclaim")).queue("q", ttl=600)._options.ttl == 600


def test_a_loop_continues_on_a_server_that_lost_its_data(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    """A request that acks and takes finds a server without data: recovery delays the take."""
    server = new_redis()
    address = url(server, f"grace={WINDOW_S}")
    queue = new_client(address).queue("q", ttl=30)
    queue.put_many(["first", "second"], group="g")
    loop = iter(queue.consume(timeout=20))
    job = next(loop)
    begun = boottime()
    server.restart(data=False)
    new_client(address).queue("q").put("another", group="g")
    try:
        again = next(loop)
    except LockLost:  # noticed before it was acked
        loop = iter(queue.consume(timeout=20))  # one that is forgotten gives its job back
        again = next(loop)
    assert again.payload == "another"
    assert again.fence > job.fence
    assert boottime() - begun > WINDOW_S / 2
    assert again.ack()


# -- remaining keys, and costs ---------------------------------------------------------------


def test_a_queue_that_is_empty_leaves_only_keys_that_end(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    server = new_redis()
    client = new_client(server.url)
    queue = client.queue("q", min_interval=5.0, dedup_window=7200, retry_delay=0, retry_delay_max=0)
    queue.put_many([{"payload": n, "group": f"g{n}", "id": str(n)} for n in range(50)])
    queue.put_many(range(50))
    while jobs := queue.take_many(100, timeout=0):
        assert all(queue.ack_many(jobs))
    queue.put("x", delay=60)
    assert queue.purge() == 1
    assert queue.take(timeout=0.01) is None
    with server.client() as admin:
        left = admin.keys(f"{PREFIX}:*@*")
        assert left
        assert all(admin.ttl(key) > 0 for key in left), left
        # And the queue continues with its earlier state
        assert queue.put("again", id="1").duplicate
        queue.put("again", group="g1")
        lasting = [key for key in left if b"@g:" in key]
        assert [admin.ttl(key) for key in lasting] == [-1]
        assert queue.take(timeout=0) is None


@pytest.fixture
def counter(shared_redis: RedisServer) -> Iterator[Counted]:
    with Counted(shared_redis.host, shared_redis.port, RESP) as one:
        yield one


@pytest.mark.parametrize("protocol", [3, 2])
def test_each_verb_costs_one_round_trip(
    protocol: int, counter: Counted, new_client: MakeClient, own_name: str
) -> None:
    client = new_client(f"redis://127.0.0.1:{counter.port}?protocol={protocol}")
    queue = client.queue(own_name)
    queue.put("warm")
    (warm,) = queue.take_many(1, timeout=0)
    assert warm.ack()
    jobs: list[Any] = []
    assert cost(counter, lambda: queue.put_many(range(500))) == 1
    assert cost(counter, lambda: queue.put_many(range(500), group="g")) == 1
    assert cost(counter, lambda: jobs.extend(queue.take_many(300, timeout=5))) == 1
    assert cost(counter, lambda: queue.ack_many(jobs)) == 1
    assert cost(counter, lambda: jobs.append(queue.take(timeout=0))) == 1
    assert cost(counter, jobs[-1].ack) == 1
    loop = iter(queue.consume(timeout=5))
    assert cost(counter, lambda: next(loop)) == 1
    # An ack and the next take are one request
    assert cost(counter, lambda: [next(loop) for _ in range(20)]) == 20


def test_a_waiting_take_is_woken_once_and_asks_once(
    counter: Counted, new_client: MakeClient, other: Client, own_name: str
) -> None:
    client = new_client(f"redis://127.0.0.1:{counter.port}")
    queue = client.queue(own_name)
    assert queue.take(timeout=0.05) is None
    late: list[float] = []
    for _ in range(times(200, 10)):
        taken: list[Any] = []
        thread = threading.Thread(target=lambda taken=taken: taken.append(queue.take(timeout=20)))
        thread.start()
        time.sleep(0.05)
        begun = boottime()
        other.queue(own_name).put("x", group="g")
        thread.join(20)
        late.append(boottime() - begun - lag.since(begun))
        assert taken[0].ack()
    late.sort()
    print(f"woken after {late[len(late) // 2] * 1e3:.2f} ms, at worst {late[-1] * 1e3:.2f} ms")
    # At least half of the takes are woken long before they would poll
    assert late[len(late) // 2] < 0.4


def test_the_rights_that_the_page_names_suffice_and_none_is_too_much(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"<!-- rights for queues -->\n```\n(.*?)```", text, re.DOTALL)
    assert found, "the page shows no rights"
    more = found[1].split()
    server = new_redis(users=(" ".join([*rights(), *more]),))
    client = new_client(server.url_for(USER, PASSWORD))
    queue = client.queue("q", retry_delay=0, retry_delay_max=0, ttl=1.6, min_interval=0.1)
    queue.put_many([{"payload": n, "group": f"g{n}", "id": str(n)} for n in range(9)])
    queue.put_many(["now", {"payload": "later", "delay": 0.2}])
    assert queue.ack_many(queue.take_many(2, timeout=5)) == [True, True]
    first, second, third = queue.take_many(3, timeout=5)
    assert first.retry(in_=0)
    assert second.dead_letter("no")
    third._ctx.keeper.drop(third._lease)  # as if its process were stopped
    time.sleep(1.7)
    assert queue.retry_dead() == 1
    assert queue.jobs()
    assert queue.stats().waiting
    assert len([job.ack() for job in queue.consume(timeout=1)]) == 9
    queue.put_many(range(5))
    assert sum(1 for _ in queue.consume(timeout=0)) == 5
    queue.put("x")
    assert queue.purge() == 1
    assert [one.name for one in client.queues()] == ["q"]
    assert [str(one) for one in server.ask("ACL", "LOG")] == []
    used = server.client().info("commandstats")
    unused = {word[1:] for word in more} - {name.removeprefix("cmdstat_") for name in used}
    assert not unused


def test_depth_costs_nothing(new_redis: NewRedis, new_client: MakeClient) -> None:
    """A verb runs about as many commands in a long queue with many groups as in an empty one."""
    server = new_redis()
    client = new_client(server.url)
    queue = client.queue("q")
    depth, groups = times(1_000_000, 6000), times(100_000, 1000)

    def spent(count: int = 50) -> tuple[float, float]:
        """Return the commands, and the microseconds in scripts, of one put, take and ack."""
        with server.client() as admin:
            admin.config_resetstat()
            for number in range(count):
                queue.put("x" * 100, group=f"new{number}" if number % 2 else None)
                job = queue.take(timeout=5)
                assert job
                assert job.ack()
            stats = admin.info("commandstats")
        calls = sum(one["calls"] for name, one in stats.items() if "eval" not in name)
        return calls / count, stats["cmdstat_evalsha"]["usec"] / count

    shallow = [spent() for _ in range(3)][-1]
    for start in range(0, depth, 1000):
        queue.put_many(
            [
                {"payload": "x" * 100, "group": f"g{n % groups}" if n % 2 else None}
                for n in range(start, start + 1000)
            ]
        )
    deep = min(spent() for _ in range(3))
    print(f"at 0: {shallow}, at {depth}: {deep}")
    record = queue.stats()
    assert record.waiting == depth
    with server.client() as admin:
        print(f"{admin.info('memory')['used_memory'] / depth:.0f} bytes for a job of 100")
    assert deep[0] <= shallow[0] + 12


def test_a_hot_group_costs_the_quiet_ones_nothing(locks: Client, own_name: str) -> None:
    queue = locks.queue(own_name)
    queue.put_many(range(3000), group="hot")
    queue.put_many(range(300))
    for number in range(10):
        queue.put(number, group=f"quiet{number}")
    order = []
    for _ in range(60):
        job = queue.take(timeout=0)
        assert job
        order.append(job.group or "")
        assert job.ack()
    assert sum(name.startswith("quiet") for name in order[:25]) == 10
    assert order[:40].count("") >= 15


def test_gaps_among_ungrouped_jobs_are_skipped(locks: Client, own_name: str) -> None:
    queue = locks.queue(own_name)
    queue.put_many([{"payload": n, "id": str(n)} for n in range(3000)])
    assert queue.purge(ids=[str(n) for n in range(2990)]) == 2990
    for number in range(2990, 3000):
        job = queue.take(timeout=5)
        assert job
        assert job.payload == number
        assert job.ack()
