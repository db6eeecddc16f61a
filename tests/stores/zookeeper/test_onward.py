"""Serial queues: one transaction settles a job and takes the next one.

Either both happen or neither. No job is lost, counted twice or done twice.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from holdfast import AsyncClient, Client, LockLost
from holdfast.core.model import Loss
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import (
    HOLD_REPLY,
    HOLD_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
    Fault,
    Proxy,
)
from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.zookeeper.conftest import MakeClient, counted, eventually, expire, play
from tests.stores.zookeeper.frames import MULTI, of_kind
from tests.stores.zookeeper.jobs import base, done, inside, multis, taken, wrong_clock
from tests.torture.scale import times

lag.watch()
#: Seconds after which a list of jobs is too old for a take in the same request, less a margin.
OLD_S = 0.5
GROUPS = pytest.mark.parametrize("groups", [0, 3], ids=["plain", "grouped"])


def both(name: str) -> Callable[[bytes], bool]:
    """Return a test for the transaction that settles one delivery here and begins another."""
    wanted = of_kind(MULTI, having=name.encode())
    return lambda message: wanted(message) and message.count(b"/taken/") == 2


def numbered(jobs: int, groups: int = 0) -> list[dict[str, Any]]:
    """As many jobs as ``jobs``, spread over ``groups`` groups in turn, or ungrouped."""
    return [{"payload": n, "group": f"g{n % groups}" if groups else None} for n in range(jobs)]


def counts(queue: Any) -> tuple[int, int, int]:
    """The numbers of jobs that are done, waiting and taken."""
    record = queue.stats()
    return record.done, record.waiting, record.taken


@GROUPS
def test_a_job_in_a_loop_costs_one_round_trip(groups: int, other: Client, own_name: str) -> None:
    jobs = 120
    queue = other.queue(own_name)
    queue.put_many(numbered(jobs + 1, groups and jobs // 2))
    loop = queue.consume(timeout=0)
    assert next(loop)
    begun = time.monotonic()
    with counted(other) as asked:
        for _ in range(jobs):
            assert next(loop)
        seconds = time.monotonic() - begun
        # Once a second the client lists all jobs before it takes the next one
        assert multis(asked) <= jobs + 1 + seconds
        assert len(asked) <= jobs + 2 * (1 + seconds)
        # A job of the other kind (grouped or not) is found all the same
        queue.put("elsewhere", group=None if groups else "g")
        assert next(loop).payload == "elsewhere"
        asked.clear()
        assert next(loop, None) is None
        assert multis(asked) == 1
    assert counts(queue) == (jobs + 2, 0, 0)


@GROUPS
@pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
def test_a_loop_that_is_cut_off_does_each_job_once(
    fault: Fault, groups: int, face: Face, proxy: Proxy, proxied: str, other: Client, own_name: str
) -> None:
    seen: list[tuple[int, int]] = []
    jobs = times(40, 8)

    async def act(client: AsyncClient) -> None:
        armed, asked = None, boottime()
        async for job in client.queue(own_name).consume(timeout=0):
            seen.append((job.payload, job.attempt))
            # On a machine that stands still, the list becomes too old for the combined request
            assert armed is None or armed.hits == 1 or boottime() > asked + OLD_S
            # Given every second combined request, if two other jobs can be taken. (The client
            # first has to read a group whose entry was created by a request without a reply.)
            left = {*range(jobs)} - {n for n, _ in seen}
            heads = {n % groups for n in left} if groups else left
            strike = len(seen) % 2 == 1 and len(heads) > 1 and len(left) > max(groups, 1)
            armed = proxy.arm(both(own_name), fault) if strike else None
            asked = boottime()

    other.queue(own_name).put_many(numbered(jobs, groups))
    play(face, proxied, act, 100.0)
    # Then each job was delivered once, each group in order, and each ack has counted
    assert sorted(seen) == [(n, 1) for n in range(jobs)]
    for group in range(groups):
        mine = [n for n, _ in seen if n % groups == group]
        assert mine == sorted(mine)
    assert counts(other.queue(own_name)) == (jobs, 0, 0)


@pytest.mark.parametrize("then", ["works", "acks", "releases"])
def test_a_job_that_another_took_first_costs_the_ack_nothing(
    then: str, new_client: MakeClient, other: Client, own_name: str
) -> None:
    mine, rival = new_client(), other.queue(own_name)
    rival.put_many(range(4))
    loop = mine.queue(own_name).consume(timeout=0)
    assert next(loop).payload == 0
    # Given a rival that took the next job before this client's list was updated
    first = taken(rival)
    assert first.payload == 1
    if then == "acks":
        assert first.ack()
    if then == "releases":
        assert first.release()
    with counted(mine) as asked:
        # Then the ack and the take are sent one after the other: the ack counts, and a job is taken
        found = next(loop)
        assert multis(asked) in (3, 4)
    assert found.attempt == 1
    # After a refusal the client tries a later job, to avoid the rival (a released job is the last)
    assert found.payload in (2, 3)
    record = rival.stats()
    assert record.done == (2 if then == "acks" else 1)
    assert record.taken == (2 if then == "works" else 1)
    # And the client doesn't regard the refused job as delivered to it
    if then == "works":
        assert first.release()
    rest = {0, found.payload} | ({1} if then == "acks" else set())
    assert {job.payload for job in loop} == {0, 1, 2, 3} - rest
    assert rival.stats().done == 4


@GROUPS
def test_a_loop_whose_job_went_to_another_worker_raises_and_keeps_none(
    groups: int, new_client: MakeClient, other: Client, kazoo: KazooClient, own_name: str
) -> None:
    queue = other.queue(own_name)
    queue.put_many(numbered(6, groups))
    loop = new_client().queue(own_name).consume(timeout=0)
    lost = next(loop)
    # Given that the mark of its delivery is deleted, and another client has the job
    (mark,) = inside(kazoo, own_name, "taken")
    kazoo.delete(f"{base(own_name)}/taken/{mark}")
    again = taken(queue)
    assert (again.payload, again.attempt) == (lost.payload, 2)
    with pytest.raises(LockLost, match="delivered again"):
        next(loop)
    # Then the other delivery stays valid, and the loop releases the job that it took last
    assert counts(queue) == (0, 5, 1)
    assert [one.attempts for one in queue.jobs("waiting")] == [0] * 5
    assert again.ack()


@pytest.mark.parametrize("fault", [HOLD_REQUEST, HOLD_REPLY], ids=["request", "reply"])
def test_an_ack_that_may_have_ended_with_its_session_ends_no_loop(
    fault: Fault,
    new_client: MakeClient,
    proxy: Proxy,
    proxied: str,
    other: Client,
    shared_zookeeper: ZooKeeperServer,
    own_name: str,
) -> None:
    client = new_client(proxied)
    queue = other.queue(own_name)
    queue.put_many(range(3))
    loop = client.queue(own_name).consume(timeout=0)
    lost = next(loop)
    armed = proxy.arm(both(own_name), fault)
    going_on: list[Any] = []
    thread = threading.Thread(target=lambda: going_on.append(next(loop)))
    thread.start()
    # Given a session that ends long before the lease, while the request has no reply
    armed.wait()
    proxy.hold()
    expire(client, shared_zookeeper.place)
    assert lost.remaining() > 0
    proxy.reset()
    proxy.heal()
    thread.join(60)
    # Then the ack isn't reported as counted: a second request finds nothing, which proves nothing.
    # But it can have counted, so the work isn't reported as failed
    assert lost.lost is Loss.SESSION
    (job,) = going_on
    attempts = {job.payload: job.attempt}
    assert job.ack()
    while job := queue.take(timeout=5 if len(attempts) < 2 else 0):
        attempts[job.payload] = job.attempt
        assert job.ack()
    # The job that it had when its session ended is delivered again, and the attempt counts
    assert attempts == ({0: 2, 1: 1, 2: 1} if fault is HOLD_REQUEST else {1: 2, 2: 1})
    assert queue.stats().done == 3


def test_a_loop_whose_task_is_cancelled_settles_and_releases(
    proxy: Proxy, proxied: str, other: Client, own_name: str
) -> None:
    async def act(client: AsyncClient) -> None:
        for turn in range(times(50, 5)):
            # (A separate queue: after a refusal the next ack and take are two requests.)
            name = f"{own_name}-{turn}"
            queue = other.queue(name)
            queue.put_many(range(2))
            loop = client.queue(name).consume(timeout=0)
            assert (await anext(loop)).attempt == 1
            # Given a request on its way, or carried out, without a reply
            armed = proxy.arm(both(name), (HOLD_REPLY, HOLD_REQUEST)[turn % 2])
            going = asyncio.ensure_future(anext(loop))
            await asyncio.to_thread(armed.wait)
            going.cancel()
            await asyncio.sleep(0)
            armed.let_go()
            with pytest.raises(asyncio.CancelledError):
                await going
            # Then the ack counts, and another client can take the next job
            await asyncio.to_thread(eventually, lambda queue=queue: counts(queue) == (1, 1, 0))
            assert done(queue, 0).attempt == 1

    play(FACES["aio"], proxied, act, 100.0)


def test_what_an_ack_makes_due_is_there_for_others_and_wakes_one(
    other: Client, new_client: MakeClient, kazoo: KazooClient, own_name: str
) -> None:
    mine = new_client()
    queue = other.queue(own_name)
    queue.put_many(["a", "b"], group="g")
    queue.put("c", group="h")
    loop = mine.queue(own_name).consume(timeout=0)
    assert next(loop).payload == "a"
    # Given a waiter
    kazoo.create(f"{base(own_name)}/idle/somebody", b"", ephemeral=True)
    with counted(mine) as asked:
        assert next(loop).payload == "c"
        assert multis(asked) == 1
    # Then the waiter is woken for the job behind the acked one, and that job is available
    eventually(lambda: not inside(kazoo, own_name, "idle"))
    assert done(queue, 0).payload == "b"
    # And this client has noted the job too: it empties a group in one loop
    queue.put_many(["d", "e"], group="i")
    assert [one.payload for one in loop] == ["d", "e"]


@pytest.mark.parametrize("start, seconds, least", [("ack", 0.2, 0.199), ("take", 1.0, 0.99)])
def test_the_interval_counts_though_one_request_acks_and_takes(
    start: Any, seconds: float, least: float, other: Client, own_name: str
) -> None:
    # Given a group, or two groups: then the request for a job acked one of the other group
    groups = 1 if start == "ack" else 2
    queue = other.queue(own_name, min_interval=seconds, interval_from=start)
    queue.put_many(numbered(4, groups))
    since: dict[int, float] = {}
    asked = time.monotonic()  # before: its answer may be late
    for job in queue.consume(timeout=4):
        before = since.get(job.payload - groups)
        assert before is None or time.monotonic() - before >= least
        since[job.payload] = time.monotonic() if start == "ack" else asked
        asked = time.monotonic()
    assert sorted(since) == [0, 1, 2, 3]
    assert [*since][:2] == [0, 1]


def test_a_job_that_would_come_too_early_is_put_back_and_the_next_one_comes(
    new_client: MakeClient, other: Client, own_name: str
) -> None:
    client = new_client()
    put = time.monotonic()
    other.queue(own_name).put("late", delay=2.0)
    other.queue(own_name).put_many(range(3))
    loop = client.queue(own_name).consume(timeout=8)
    assert next(loop).payload == 0
    # Given a client whose estimate of the leader's time is too late
    wrong_clock(client, 20.0)
    with counted(client) as asked:
        found = next(loop)
        if time.monotonic() - put < 1.5:
            assert multis(asked) == 3  # both at once; back again; the next one
            assert found.payload == 1
    rest = [(found.payload, found.attempt), *((job.payload, job.attempt) for job in loop)]
    assert len(rest) == 3
    assert {*rest} == {(1, 1), (2, 1), ("late", 1)}
    assert time.monotonic() - put >= 2.0
    assert other.queue(own_name).stats().done == 4


def test_a_loop_obeys_the_rate_of_its_queue(other: Client, own_name: str) -> None:
    # Each take also writes the time from which the next one may start
    queue = other.queue(own_name, rate=10)
    queue.put_many(range(3))
    begun = time.monotonic()
    assert [job.payload for job in queue.consume(timeout=2)] == [0, 1, 2]
    assert time.monotonic() - begun >= 0.19
    assert queue.stats().done == 3
