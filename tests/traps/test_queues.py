"""Traps of queues: a job that is removed before it is done, and two workers in one group."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from holdfast import Client, Queue
from tests.traps.naive import PopThenWork

Plain = Callable[[], redis.Redis]
Made = Callable[..., Queue]


@pytest.fixture
def queues(redis_url: str, own_name: str) -> Iterator[Made]:
    """Return a function that makes the test's queue, with a new client for each call."""
    with contextlib.ExitStack() as ends:

        def make(**options: Any) -> Queue:
            client = ends.enter_context(Client(redis_url))
            if not client.supports("queues"):
                client = ends.enter_context(Client(f"memory://{own_name}"))
            return client.queue(own_name, **options)

        yield make


def die(queue: Queue, ttl: float = 1.6) -> Any:
    """Take a job and stop its renewal, as a dead worker would."""
    job = queue.take(timeout=10)
    assert job is not None
    job._ctx.keeper.drop(job._lease)
    assert job._lease.ttl == ttl
    return job


def taken(queue: Queue) -> Any:
    """Take the next job within a time limit."""
    job = queue.take(timeout=20)
    assert job is not None
    return job


def test_a_naive_worker_that_takes_and_dies_loses_the_job(plain: Plain, own_name: str) -> None:
    # Given a job, and a worker that dies between LPOP and its work
    def die_here() -> None:
        raise SystemExit

    PopThenWork(plain()).put(own_name, b"refund order 42")
    dying = PopThenWork(plain(), between=die_here)
    with pytest.raises(SystemExit):
        dying.take(own_name)
    # Then no worker ever gets the job again
    assert PopThenWork(plain()).take(own_name) is None


def test_a_worker_of_holdfast_that_takes_and_dies_loses_no_job(queues: Made) -> None:
    queue = queues()
    queue.put_many(["refund order 42", "refund order 43"], group="bank")
    dead = die(queues(ttl=1.6))
    # Then the same job comes next in its group, with a greater fence, and the other job after it
    again = taken(queue)
    assert (again.payload, again.attempt) == ("refund order 42", 2)
    assert again.fence > dead.fence
    assert again.ack()
    last = taken(queue)
    assert last.payload == "refund order 43"
    assert last.ack()


def test_two_naive_workers_turn_the_order_of_a_group_round(plain: Plain, own_name: str) -> None:
    # Given two jobs of one account in order, and a slow worker
    done: list[bytes] = []
    quick = PopThenWork(plain())

    def meanwhile() -> None:
        done.append(quick.take(own_name) or b"")

    slow = PopThenWork(plain(), between=meanwhile)
    slow.put(own_name, b"open the account")
    slow.put(own_name, b"close the account")
    done.append(slow.take(own_name) or b"")
    # Then the second job is done before the first
    assert done == [b"close the account", b"open the account"]


def test_two_workers_of_holdfast_keep_the_order_of_a_group(queues: Made) -> None:
    slow, quick = queues(), queues()
    slow.put("open the account", group="account")
    first = taken(slow)
    slow.put("close the account", group="account")
    # While the slow worker has a delivery, the quick one gets no job of that account
    assert quick.take(timeout=0) is None
    first.check()
    assert first.ack()
    second = taken(quick)
    assert second.payload == "close the account"
    assert second.fence > first.fence
    assert second.ack()


def test_a_late_ack_of_holdfast_is_refused_and_ends_no_other_delivery(queues: Made) -> None:
    queue = queues()
    queue.put_many(["first", "second"], group="g")
    late = die(queues(ttl=1.6))
    again = taken(queue)
    # When the first worker continues and acks its job
    assert late.ack() is False
    # Then the ack has no effect: the other delivery is still valid, and the next job waits
    again.check()
    assert queues().take(timeout=0) is None
    assert again.ack()
    assert taken(queue).ack()
