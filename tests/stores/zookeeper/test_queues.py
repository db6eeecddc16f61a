"""Properties that only serial queues on ZooKeeper have: wake-ups, limits and round trips."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient

from holdfast import Client, ConfigError, HoldfastError, NotSupported
from holdfast.runtime.blocking import boottime
from holdfast.stores.zookeeper.names import digest
from holdfast.stores.zookeeper.queues.names import FOLDERS, place_of
from holdfast.stores.zookeeper.requests import Children, Multi
from holdfast.testing import lag
from holdfast.testing.faults import HOLD_REQUEST, Proxy
from tests.stores.zookeeper.conftest import MakeClient, eventually
from tests.stores.zookeeper.frames import READ, of_kind
from tests.torture.scale import times

lag.watch()


def base(name: str) -> str:
    """The path of the queue."""
    return place_of("/holdfast", name).base


def inside(kazoo: KazooClient, name: str, folder: str) -> list[str]:
    """The names of the nodes in one folder of the queue."""
    return sorted(kazoo.get_children(f"{base(name)}/{folder}"))


def talk(client: Client) -> Any:
    """The object with which a client's queues send their requests."""
    return client._ctx.store.queues._talk  # type: ignore[attr-defined]


@contextmanager
def counted(client: Client) -> Iterator[list[list[object]]]:
    """The requests of this client, one list for each round trip."""
    port = client._ctx.store._port  # type: ignore[attr-defined]
    asked: list[list[object]] = []
    before = port.ask

    async def ask(requests: list[object], until: float) -> Any:
        asked.append(list(requests))
        return await before(requests, until)

    port.ask = ask
    try:
        yield asked
    finally:
        port.ask = before


def test_each_verb_costs_one_round_trip_and_what_was_listed_serves_many(
    other: Client, own_name: str
) -> None:
    queue = other.queue(own_name)
    queue.put("first", group="g")
    with counted(other) as asked:
        queue.put_many(range(200))
        assert len(asked) == 1
        queue.put("more", group="g")
        assert len(asked) == 2
    jobs = [queue.take(timeout=10)]
    with counted(other) as asked:
        jobs += [queue.take(timeout=10) for _ in range(50)]
        assert all(jobs)
        taken = sum(any(isinstance(one, Multi) for one in some) for some in asked)
        lists = sum(any(isinstance(one, Children) for one in some) for some in asked) - taken
        assert taken == 50
        assert lists <= 25  # for the lane that has nothing, now and then
        asked.clear()
        assert all(job.ack() for job in jobs[1:] if job)
        assert len(asked) == 50
        asked.clear()
        assert len(queue.take_many(100, timeout=10)) == 100
        assert len(asked) <= 3
    with counted(other) as asked:
        for job in jobs[:1]:
            assert job
            assert job.ack()
        assert len(asked) == 1


@pytest.mark.parametrize("lane", ["plain", "groups"])
def test_a_purge_of_many_jobs_costs_few_round_trips(
    other: Client, own_name: str, lane: str
) -> None:
    queue = other.queue(own_name)
    groups = [None if lane == "plain" else f"g{n % 200}" for n in range(400)]
    queue.put_many([{"payload": n, "group": group} for n, group in enumerate(groups)])
    with counted(other) as asked:
        assert queue.purge() == 400
    assert len(asked) < 30
    assert queue.stats().waiting == 0


def test_dead_letters_of_many_groups_are_revived_in_few_round_trips_and_in_order(
    other: Client, own_name: str
) -> None:
    queue = other.queue(own_name, on_dead="skip")
    groups = [None if n % 2 else f"g{n % 40}" for n in range(240)]
    queue.put_many([{"payload": n, "group": group} for n, group in enumerate(groups)])
    for _ in range(240):
        job = queue.take(timeout=10)
        assert job
        assert job.dead_letter("broken")
    with counted(other) as asked:
        assert queue.retry_dead() == 240
    assert len(asked) < 60
    seen: dict[str | None, list[int]] = {}
    for _ in range(240):
        job = queue.take(timeout=10)
        assert job
        seen.setdefault(job.group, []).append(job.payload)
        assert job.ack()
    assert seen == {
        group: [n for n in range(240) if groups[n] == group] for group in dict.fromkeys(groups)
    }


def test_a_job_wakes_exactly_one_waiter(
    new_client: MakeClient, other: Client, kazoo: KazooClient, own_name: str
) -> None:
    # Given ten waiters, five in each of two clients
    crowd = [new_client(), new_client()]
    got: list[Any] = []

    def wait(client: Client) -> None:
        got.append(client.queue(own_name).take(timeout=30))

    threads = [threading.Thread(target=wait, args=(crowd[n % 2],)) for n in range(10)]
    for thread in threads:
        thread.start()
    eventually(lambda: kazoo.exists(f"{base(own_name)}/idle"))
    eventually(lambda: len(inside(kazoo, own_name, "idle")) == 10)
    alone = 0
    for left in range(9, -1, -1):
        # When a job is put, then one waiter is woken, long before its next poll
        begun = time.monotonic()
        other.queue(own_name).put(left, group=f"g{left % 2}")
        alone += len(inside(kazoo, own_name, "idle")) == left
        eventually(lambda left=left: len(got) == 10 - left)  # type: ignore[misc]
        assert time.monotonic() - begun < 5.0 + lag.since(begun)
        # A waiter that polled just then was faster, and the one that was woken waits again
        eventually(lambda left=left: len(inside(kazoo, own_name, "idle")) == left)  # type: ignore[misc]
        assert got[-1].payload == left
        assert got[-1].ack()
    assert alone >= 7
    for thread in threads:
        thread.join(20)


def test_what_is_empty_leaves_nothing_but_its_folders(
    other: Client, kazoo: KazooClient, own_name: str
) -> None:
    queue = other.queue(own_name, min_interval=0.1, dedup_window=0, max_attempts=1)
    queue.put_many([{"payload": n, "group": f"g{n % 3}", "id": f"i{n}"} for n in range(9)])
    queue.put_many(range(5))
    while job := queue.take(timeout=0.5):
        if job.payload == 3:
            assert job.retry()
        else:
            assert job.ack()
    assert queue.purge("dead") == 2
    # Groups stay until their interval has ended and a client reads them
    time.sleep(0.2)
    eventually(lambda: queue.take(timeout=0) is None and not inside(kazoo, own_name, "groups"))
    for folder in FOLDERS:
        if folder not in ("lanes", "ids"):
            eventually(lambda f=folder: inside(kazoo, own_name, f) == [])  # type: ignore[misc]
    record = queue.stats()
    assert (record.accepted, record.done, record.waiting) == (14, 12, 0)


def test_an_id_past_its_dedup_window_is_removed_by_later_puts(
    other: Client, kazoo: KazooClient, own_name: str
) -> None:
    # Given ids that are remembered in one folder
    ids = (f"i{n}" for n in itertools.count() if digest(f"i{n}").startswith("00"))
    queue = other.queue(own_name, dedup_window=0)
    for _ in range(4):
        some = list(itertools.islice(ids, 10))
        queue.put_many([{"payload": one, "id": one} for one in some])
        assert all(queue.ack_many(queue.take_many(10, timeout=10)))
    # Then the ids of earlier puts are removed
    queue.put("one more", id=next(ids))
    eventually(lambda: len(inside(kazoo, own_name, "ids/00")) <= 20)


# -- limits ----------------------------------------------------------------------------------


def test_a_request_that_no_server_takes_is_put_in_parts(other: Client, own_name: str) -> None:
    queue = other.queue(own_name)
    queue.put("x" * 262_000, group="g")  # the largest one is taken in
    job = queue.take(timeout=5)
    assert job
    assert job.ack()
    queue.put_many(["x" * 2000] * 1000)
    assert queue.stats().waiting == 1000
    queue.put_many(["x" * 100] * 1000)
    queue.put_many(["x" * 100] * 1000, group="a group with a name that is longer than most are")
    assert queue.stats().waiting == 3000


def test_a_full_queue_refuses_puts_until_there_is_room(
    new_client: MakeClient, other: Client, own_name: str
) -> None:
    full = new_client()
    full._ctx.store.queues._putting._depth = 10  # type: ignore[attr-defined]
    queue = full.queue(own_name)
    queue.put_many(range(8))
    with pytest.raises(ConfigError, match=r"has 8 jobs, and .* no more than 10 .* catch up"):
        queue.put_many(range(3))
    queue.put_many(range(2))
    with pytest.raises(ConfigError, match="1 more don't fit"):
        queue.put("one more")
    # When another client takes and acks some jobs
    assert all(other.queue(own_name).ack_many(other.queue(own_name).take_many(4, timeout=5)))
    queue.put_many(range(4))


def test_a_depth_of_thousands_is_worked_off_in_order(other: Client, own_name: str) -> None:
    depth, groups = times(18_000, 600), times(1000, 60)
    queue = other.queue(own_name)
    for start in range(0, depth, 600):
        some = range(start, start + 600)
        queue.put_many([{"payload": n, "group": f"g{n % groups}"} for n in some])
    assert queue.stats().waiting == depth
    seen: dict[str | None, list[int]] = {}
    while sum(map(len, seen.values())) < depth:
        jobs = queue.take_many(100, timeout=10)
        assert jobs
        for job in jobs:
            seen.setdefault(job.group, []).append(job.payload)
        assert all(queue.ack_many(jobs))
    assert queue.stats().waiting == 0
    assert all(some == sorted(some) for some in seen.values())


def test_the_simple_recipe_has_no_queues(ours: Client) -> None:
    assert not ours.supports("queues")
    with pytest.raises(NotSupported, match="serial queues"):
        ours.queue("q").put(1)


# -- clients with wrong information --------------------------------------------------------------


def test_a_group_that_begins_again_is_not_confused_with_its_past(
    new_client: MakeClient, other: Client, own_name: str
) -> None:
    # Given a client that knows the jobs of a group that has ended since
    late = new_client().queue(own_name)
    queue = other.queue(own_name)
    queue.put_many(range(6), group="g")
    for number in range(4):
        job = late.take(timeout=5)
        assert job
        assert job.payload == number
        assert job.ack() if number < 3 else job.release()
    for number in range(3, 6):
        job = queue.take(timeout=5)
        assert job
        assert job.payload == number
        assert job.ack()
    # When the group begins again with jobs of the same numbers
    queue.put_many(range(10, 16), group="g")
    # Then no job is passed over
    for number in range(10, 16):
        job = (late, queue)[number % 3 == 2].take(timeout=5)
        assert job
        assert job.payload == number
        assert job.ack()


@pytest.mark.parametrize("wrong", [-20.0, 20.0])
def test_a_client_that_has_a_wrong_idea_of_the_time_delivers_nothing_too_early(
    wrong: float, new_client: MakeClient, other: Client, own_name: str
) -> None:
    client = new_client()
    queue = client.queue(own_name, min_interval=1.0)
    queue.put_many([1, 2], group="g")
    first = queue.take(timeout=5)
    assert first
    assert first.ack()
    # When the client's estimate of the leader's time is too late, or too early
    clock = talk(client).clock
    clock._low += wrong
    clock._high += wrong
    clock._learnt -= 60.0  # so that it asks anew, as it does after 5 s
    looking = time.monotonic()
    second = queue.take(timeout=8 + lag.since(looking))
    assert second
    assert second.age >= 1.0
    assert second.attempt == 1
    assert second.ack()
    # And a job that it puts with a delay comes late enough
    clock._low += wrong
    clock._high += wrong
    queue.put("late", delay=0.5)
    if wrong < 0:
        late = other.queue(own_name).take(timeout=10)
        assert late
        assert late.age >= 0.5
        assert late.attempt == 1
        assert late.ack()


def test_a_taker_woken_before_its_watch_misses_no_other_wake_up(
    proxy: Proxy, new_client: MakeClient, kazoo: KazooClient, own_name: str
) -> None:
    # Given a waiter whose node exists, but is not watched yet
    queue = new_client().queue(own_name)
    queue.put("first")
    assert queue.take(5.0).ack()
    took: list[float] = []
    slow = new_client(f"zookeeper://127.0.0.1:{proxy.port}").queue(own_name)

    def takes() -> None:
        slow.take(20.0)
        took.append(boottime())

    armed = proxy.arm(of_kind(READ, having=f"{base(own_name)}/idle/".encode()), HOLD_REQUEST)
    waiter = threading.Thread(target=takes)
    waiter.start()
    armed.wait()
    # When the waiter is woken for a job that another client takes
    queue.put("second")
    job = queue.take(5.0)
    eventually(lambda: inside(kazoo, own_name, "idle") == [])
    armed.let_go()
    time.sleep(0.2)
    # Then it is notified when the job is released
    begun = boottime()
    job.release()
    waiter.join(20)
    assert took[0] - begun < 0.4 + lag.since(begun)


def test_a_client_that_closes_takes_its_waiters_out_of_the_queue_before_its_session_ends(
    new_client: MakeClient,
    kazoo: KazooClient,
    own_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a waiting worker, and two other waiters: a take that is undone wakes one of the three
    client = new_client()
    failed: list[Exception] = []

    def takes() -> None:
        try:
            client.queue(own_name).take(20.0)
        except HoldfastError as failure:
            failed.append(failure)

    worker = threading.Thread(target=takes)
    worker.start()
    eventually(lambda: kazoo.exists(f"{base(own_name)}/idle"))
    eventually(lambda: len(inside(kazoo, own_name, "idle")) == 1)
    (ours,) = inside(kazoo, own_name, "idle")
    for node in ("!", "!!"):
        kazoo.create(f"{base(own_name)}/idle/{node}")
    # When its client is closed
    there: list[list[str]] = []
    store = client._ctx.store
    close = store.close

    async def watched() -> None:
        there.append(inside(kazoo, own_name, "idle"))
        await close()

    monkeypatch.setattr(store, "close", watched)
    client.close()
    worker.join(20)
    # Then no client can wake the closed waiter in the time that its session takes to end
    assert len(there) == len(failed) == 1
    assert ours not in there[0]
