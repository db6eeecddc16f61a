"""Properties that only serial queues on ZooKeeper have: wake-ups, limits and round trips."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import pytest
from kazoo.client import KazooClient

from holdfast import Client, ConfigError, HoldfastError
from holdfast.runtime.blocking import boottime
from holdfast.stores.zookeeper.blocking.driver import Driver, Slot
from holdfast.stores.zookeeper.names import digest
from holdfast.stores.zookeeper.queues.names import FOLDERS
from holdfast.stores.zookeeper.requests import Children, Create, Request
from holdfast.testing import lag
from holdfast.testing.faults import HOLD_REQUEST, Proxy
from holdfast.testing.promise import promised
from tests.stores.zookeeper.conftest import MakeClient, counted, eventually
from tests.stores.zookeeper.frames import READ, of_kind
from tests.stores.zookeeper.jobs import base, done, inside, multis, taken, wrong_clock

lag.watch()


def test_each_verb_costs_one_round_trip_and_what_was_listed_serves_many(
    other: Client, own_name: str
) -> None:
    queue = other.queue(own_name)
    queue.put("first", group="g")
    with counted(other) as asked:
        queue.put_many(range(200))
        queue.put("more", group="g")
        assert len(asked) == 2
    jobs = [taken(queue)]
    with counted(other) as asked:
        jobs += [taken(queue) for _ in range(50)]
        lists = sum(any(isinstance(one, Children) for one in some) for some in asked)
        assert multis(asked) == 50
        assert lists - multis(asked) <= 25  # sometimes, for ungrouped jobs, of which there are none
        asked.clear()
        assert all(job.ack() for job in jobs)
        assert len(asked) == 51
        asked.clear()
        assert len(queue.take_many(100, timeout=10)) == 100
        assert len(asked) <= 3


def test_a_purge_and_a_revival_of_many_jobs_cost_few_round_trips(
    other: Client, own_name: str
) -> None:
    queue = other.queue(own_name, on_dead="skip")
    groups = [None if n % 2 else f"g{n % 40}" for n in range(240)]
    queue.put_many([{"payload": n, "group": group} for n, group in enumerate(groups)])
    for _ in groups:
        assert taken(queue).dead_letter("broken")
    with counted(other) as asked:
        assert queue.retry_dead() == 240
        assert len(asked) < 60
        # The order is that of the puts
        seen: dict[str | None, list[int]] = {}
        for _ in groups:
            job = done(queue)
            seen.setdefault(job.group, []).append(job.payload)
        assert all(some == sorted(some) for some in seen.values())
        queue.put_many([{"payload": n, "group": group} for n, group in enumerate(groups)])
        queue.put_many([{"payload": n, "group": f"h{n}"} for n in range(160)])
        asked.clear()
        assert queue.purge() == 400
        assert len(asked) < 30
    assert queue.stats().waiting == 0


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
        assert job.retry() if job.payload == 3 else job.ack()
    assert queue.purge("dead") == 2
    # Groups stay until their interval has ended and a client reads them
    time.sleep(0.2)
    eventually(lambda: queue.take(timeout=0) is None and not inside(kazoo, own_name, "groups"))
    folders = {*FOLDERS} - {"lanes", "ids"}
    eventually(lambda: [one for one in folders if inside(kazoo, own_name, one)] == [])
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


def test_a_request_that_no_server_takes_is_put_in_parts(other: Client, own_name: str) -> None:
    queue = other.queue(own_name)
    queue.put("x" * 262_000, group="g")  # the largest one is accepted
    done(queue)
    queue.put_many(["x" * 2000] * 1000)
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


def test_a_group_that_begins_again_is_not_confused_with_its_past(
    new_client: MakeClient, other: Client, own_name: str
) -> None:
    # Given a client that knows the jobs of a group that has ended since
    late, queue = new_client().queue(own_name), other.queue(own_name)
    queue.put_many(range(6), group="g")
    for number in (*range(6), *range(10, 16)):
        mine = number < 3 or (number >= 10 and number % 3 != 2)
        if number == 3:
            assert taken(late).release()
        # When the group begins again with jobs of the same numbers, then no job is passed over
        if number == 10:
            queue.put_many(range(10, 16), group="g")
        job = taken(late if mine else queue)
        assert job.payload == number
        assert job.ack()


@pytest.mark.parametrize("wrong", [-20.0, 20.0])
def test_a_client_that_has_a_wrong_idea_of_the_time_delivers_nothing_too_early(
    wrong: float, new_client: MakeClient, other: Client, own_name: str
) -> None:
    client = new_client()
    queue = client.queue(own_name, min_interval=1.0)
    queue.put_many([1, 2], group="g")
    done(queue)
    # When the client's estimate of the leader's time is too late, or too early
    wrong_clock(client, wrong)._learnt -= 60.0  # so that it asks again, as it does after 5 s
    looking = time.monotonic()
    second = taken(queue, 8 + lag.since(looking))
    assert second.age >= 1.0
    assert second.attempt == 1
    assert second.ack()
    # And a job that it puts with a delay comes late enough
    wrong_clock(client, wrong)
    queue.put("late", delay=0.5)
    if wrong < 0:
        late = done(other.queue(own_name))
        assert late.age >= 0.5
        assert late.attempt == 1


def test_a_taker_woken_before_its_watch_misses_no_other_wake_up(
    proxy: Proxy, new_client: MakeClient, kazoo: KazooClient, own_name: str
) -> None:
    # Given a waiter whose node exists, but is not watched yet
    queue = new_client().queue(own_name)
    queue.put("first")
    done(queue)
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
    job = taken(queue)
    eventually(lambda: inside(kazoo, own_name, "idle") == [])
    armed.let_go()
    time.sleep(0.2)
    # Then it is notified when the job is released
    begun = boottime()
    job.release()
    waiter.join(20)
    assert took[0] - begun < 0.4 + lag.since(begun)


def test_a_client_that_closes_takes_its_waiters_out_of_the_queue_before_its_session_ends(
    new_client: MakeClient, kazoo: KazooClient, own_name: str, monkeypatch: pytest.MonkeyPatch
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


# -- queues that exist in part -------------------------------------------------------------------


def cut_amid_the_making(client: Client, queue: str, folder: str) -> None:
    """Interrupt the first put of a queue before it requests this folder."""
    path, send = f"{base(queue)}/{folder}", Driver.send

    def cut(driver: Driver, request: Request, answer: Slot) -> None:
        if isinstance(request, Create) and request.path == path:
            raise KeyboardInterrupt
        send(driver, request, answer)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Driver, "send", cut)
        with pytest.raises(KeyboardInterrupt):
            client.queue(queue).put(1, id="one")


def test_a_queue_whose_making_was_cut_is_whole_once_something_was_put(
    new_client: MakeClient, kazoo: KazooClient, own_name: str
) -> None:
    ours, other = new_client(), new_client()
    for folder in FOLDERS:
        name = f"{own_name}-{folder}"
        cut_amid_the_making(ours, name, folder)
        queue = other.queue(name)
        queue.put(1, id="one")
        with promised(f"cut before {folder}: all folders are there"):
            assert set(kazoo.get_children(base(name))) == {*FOLDERS}


@pytest.mark.parametrize("group", [None, "g"])
def test_a_job_is_settled_though_a_folder_of_its_queue_was_removed(
    other: Client, kazoo: KazooClient, own_name: str, group: str | None
) -> None:
    queue = other.queue(own_name)
    queue.put("done", group=group)
    queue.put("dead", group=group)
    for folder in ("done", "dead"):
        job = taken(queue)
        assert job.payload == folder
        kazoo.delete(f"{base(own_name)}/{folder}")
        assert job.ack() if folder == "done" else job.dead_letter()
    with promised("each job is settled once"):
        assert queue.take(0) is None
        assert [one.id for one in queue.jobs("dead")] == [job.id]


@pytest.mark.parametrize("group", [None, "g"])
def test_the_next_job_follows_one_that_was_removed_while_it_was_done(
    other: Client, kazoo: KazooClient, own_name: str, group: str | None
) -> None:
    queue, folder = other.queue(own_name), f"groups/{group}" if group else "jobs"
    queue.put_many([1, 2], group=group)
    job = taken(queue)
    kazoo.delete(f"{base(own_name)}/{folder}/{inside(kazoo, own_name, folder)[0]}")
    assert not job.ack()
    with promised("the job behind it isn't lost"):
        assert done(queue).payload == 2
    assert inside(kazoo, own_name, "taken") == []
