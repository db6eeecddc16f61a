"""Queue requests and replies that are lost, late or cut off: no job is lost or done twice."""

from __future__ import annotations

import time

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.testing.faults import (
    DROP_REPLY,
    HOLD_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
    Fault,
    Proxy,
    delay_reply,
)
from tests.stores.mysql.conftest import eventually
from tests.torture.scale import times

RESETS = pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
TRIES = times(50, 2)
PUT, TAKE, SETTLE = b"_queue_put_2(", b"_queue_take_2(", b"_queue_settle_2("
RETURN, EXTEND, PURGE = b"_queue_return_2(", b"_queue_extend_2(", b"_queue_purge_2("
PEEK = b"t.stands IN (0, 1, 2)"


@RESETS
def test_each_verb_that_is_cut_off_is_carried_out_once(
    fault: Fault, by_proxy: Client, proxy: Proxy, own_name: str
) -> None:
    queue = by_proxy.queue(own_name, ttl=20)
    for _ in range(TRIES):
        # A put is sent again, and accepted once
        armed = proxy.arm(PUT, fault)
        receipts = queue.put_many([{"payload": 1, "id": "a"}, 2], group="g")
        assert armed.hits == 1
        assert [one.duplicate for one in receipts] == [False, False]
        assert queue.stats().waiting == 2
        # A take gets the first job, and no second one
        armed = proxy.arm(TAKE, fault)
        job = queue.take(timeout=10)
        assert armed.hits == 1
        assert job is not None
        assert (job.payload, job.attempt) == (1, 1)
        assert queue.stats().taken == 1
        # An ack returns the truth
        armed = proxy.arm(SETTLE, fault)
        assert job.ack()
        assert armed.hits == 1
        last = queue.take(timeout=10)
        assert last is not None
        assert last.dead_letter("no good")
        assert queue.retry_dead() == 1
        # A purge that is cut off is an error, because the count of its repetition could be too
        # small. After a second purge the queue is empty
        armed = proxy.arm(PURGE, fault)
        with pytest.raises(StoreUnavailable):
            queue.purge()
        assert armed.hits == 1
        queue.purge()
        assert queue.jobs() == []
        queue = by_proxy.queue(f"{own_name}:{time.monotonic_ns()}", ttl=20)


def test_a_renewal_that_is_cut_off_costs_no_delivery(
    by_proxy: Client, proxy: Proxy, own_name: str
) -> None:
    queue = by_proxy.queue(own_name, ttl=6)
    queue.put("long")
    job = queue.take(timeout=5)
    assert job is not None
    for fault in (RESET_REQUEST, RESET_REPLY):
        proxy.arm(EXTEND, fault).wait()
    before = job._lease.deadline
    eventually(lambda: job._lease.deadline > before)
    job.check()
    assert job.ack()


def test_a_wait_that_is_cut_off_finds_what_comes(
    by_proxy: Client, proxy: Proxy, own_name: str, locks: Client
) -> None:
    armed = proxy.arm(PEEK, RESET_REPLY)
    queue = by_proxy.queue(own_name)
    assert queue.take(timeout=0.5) is None
    assert armed.hits == 1
    locks.queue(own_name).put("now")
    job = queue.take(timeout=10)
    assert job is not None
    assert job.ack()


def test_a_take_without_an_answer_keeps_nothing(
    by_proxy: Client, proxy: Proxy, own_name: str, locks: Client
) -> None:
    queue, other = by_proxy.queue(own_name), locks.queue(own_name)
    other.put_many([1, 2], group="g")
    # Given a take that was carried out, and whose reply never comes
    armed = proxy.arm(TAKE, DROP_REPLY)
    with pytest.raises(StoreUnavailable):
        queue.take(timeout=0.2)
    assert armed.hits == 1
    # Then its undo releases the job at once, and the attempt is not counted
    job = other.take(timeout=10)
    assert job is not None
    assert (job.payload, job.attempt) == (1, 1)
    assert job.ack()


def test_a_late_copy_of_a_take_gets_nothing(
    by_proxy: Client, proxy: Proxy, own_name: str, locks: Client
) -> None:
    queue, other = by_proxy.queue(own_name), locks.queue(own_name)
    for number in range(TRIES):
        # Given a take that is on its way while its client gives up
        returned = proxy.arm(RETURN, delay_reply(0.0))
        late = proxy.arm(TAKE, HOLD_REQUEST)
        with pytest.raises(StoreUnavailable):
            queue.take(timeout=0.05)
        returned.wait()
        other.put(number, group="g")
        # When the take arrives late
        late.let_go()
        time.sleep(0.3)
        # Then another client can take the job
        assert other.stats().taken == 0
        job = other.take(timeout=5)
        assert job is not None
        assert job.payload == number
        assert job.ack()
