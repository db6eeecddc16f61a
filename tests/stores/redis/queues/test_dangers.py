"""Faults of a queue on Redis (lost replies, dead servers), its rights and its depth."""

from __future__ import annotations

import itertools

import pytest

from holdfast import Client
from holdfast.stores.redis.keys import PREFIX
from holdfast.stores.redis.library import NEXT
from holdfast.testing import server
from holdfast.testing.faults import RESP, Fault, Proxy
from holdfast.testing.server import Bench
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import old_program, program
from tests.stores.queue_lost import *  # noqa: F403
from tests.stores.queue_lost import RESETS
from tests.stores.redis.added import added
from tests.stores.redis.conftest import MakeClient, eventually
from tests.stores.redis.test_rights import PASSWORD, USER, rights
from tests.torture.scale import times

TRIES = times(100, 3)


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


def test_a_server_that_lost_its_data_delivers_nothing_while_workers_may_believe(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    server = new_redis()
    address = f"{server.url}?grace=3"  # a worker that pauses for a second renews in this time
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


def test_with_strict_recovery_no_delivery_is_believed_beyond_its_window(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    """Without renewal a delivery ends within the grace period, whatever ttl the worker sets."""
    server = new_redis()
    client = new_client(f"{server.url}?recovery=strict&grace=3")
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
    reclaiming = new_client(f"{server.url}?recovery=reclaim")
    assert reclaiming.queue("q", ttl=600)._options.ttl == 600


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


@pytest.mark.parametrize("old", [False, True], ids=["usual", "6.2"])
def test_the_rights_that_the_page_adds_suffice_and_none_is_too_much(
    old: bool, new_redis: NewRedis
) -> None:
    more = [*added("rights for queues"), *added("rights for guards")]
    users = (" ".join([*rights(), *more]),)
    one = new_redis(users=users, server=old_program() if old else program())

    def url(_: str, port: int) -> str:
        return one.url_for(USER, PASSWORD, port=port)

    bench = Bench(url, one.host, one.port, {}, RESP, least=url)
    for run in server.runs(()):
        if run.name == "the_least_rights_suffice":
            run.on(bench)
    assert [str(denied) for denied in one.ask("ACL", "LOG")] == []
    assert {word[1:] for word in more} <= set(one.calls())


def test_depth_costs_nothing(new_redis: NewRedis, new_client: MakeClient) -> None:
    """A verb runs about as many commands in a long queue as in an empty one."""
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
    jobs = (
        {"payload": "x" * 100, "group": f"g{n % groups}" if n % 2 else None} for n in range(depth)
    )
    while some := list(itertools.islice(jobs, 1000)):
        queue.put_many(some)
    deep = min(spent() for _ in range(3))
    print(f"at 0: {shallow}, at {depth}: {deep}")
    record = queue.stats()
    assert record.waiting == depth
    with server.client() as admin:
        print(f"{admin.info('memory')['used_memory'] / depth:.0f} bytes for a job of 100")
    assert deep[0] <= shallow[0] + 12


def test_gaps_among_ungrouped_jobs_are_skipped(locks: Client, own_name: str) -> None:
    queue = locks.queue(own_name)
    queue.put_many([{"payload": n, "id": str(n)} for n in range(3000)])
    assert queue.purge(ids=[str(n) for n in range(2990)]) == 2990
    for number in range(2990, 3000):
        (job,) = queue.take_many(1, timeout=5)
        assert job.payload == number
        assert job.ack()
