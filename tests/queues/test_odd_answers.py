"""Settles that fail in odd ways, and deliveries of a client that is closed."""

from __future__ import annotations

import pytest

from holdfast import Loss, StoreUnavailable
from holdfast.core.queue import mending
from holdfast.core.queue.ports import queues_of
from holdfast.core.queue.silence import FIRST_S, Silence
from holdfast.testing.conformance.struck import Overlaid
from tests.faced import At


async def test_after_an_error_in_place_of_a_reply_the_job_is_kept_and_can_be_settled(
    at: At,
) -> None:
    queue, flaky = at.flaky(ttl=60)
    job = await at.taken(queue)
    inner = flaky.verbs

    async def odd(settles: list[object], within: float) -> list[object]:
        return [OSError("planted") for _ in settles]

    flaky.verbs = Overlaid(inner, settle=odd)
    with pytest.raises(OSError, match="planted"):
        await job.ack()
    flaky.verbs = inner
    job.check()
    assert not job._lease.closing  # it is renewed again
    assert not job._lease.asked  # no settle can have counted
    assert await job.ack()


async def test_a_delivery_is_lost_as_soon_as_its_client_closes(at: At) -> None:
    queue = at.queue(ttl=60)
    job, ctx = await at.taken(queue), queue._ctx
    ctx.closed = True
    try:
        assert job.lost is Loss.CLOSED
    finally:
        ctx.closed, job._lease.reason = False, None
    job._lease.closing = True  # a settle is under way
    ctx.closed = True
    try:
        assert job.lost is None
    finally:
        ctx.closed = job._lease.closing = False
    assert await job.ack()


async def test_the_last_attempt_without_a_reason_is_named_by_its_number(at: At) -> None:
    queue = at.queue(ttl=60, max_attempts=1)
    job = await at.taken(queue)
    assert await job.retry()
    (letter,) = await queue.jobs("dead")
    assert letter.reason == "attempt 1 was the last"


async def test_a_purge_reports_its_progress(at: At) -> None:
    queue = at.queue()
    await queue.put_many([{"payload": n, "id": f"{n}"} for n in range(3)])
    verbs, told = queues_of(queue._ctx.store), list[int]()
    assert await mending.purge(verbs, "q", None, ["0", "1"], told.append) == 2
    assert await mending.purge(verbs, "q", None, None, told.append) == 1
    assert told == [2, 1]


def test_each_outage_is_reported_and_each_end_of_one() -> None:
    now, told = [0.0], list[object]()
    silence, down = Silence(lambda: now[0], told.append), StoreUnavailable("planted")
    for _ in range(2):
        silence.failed(down, now[0])
        silence.answered()  # too short an outage
        silence.failed(down, now[0])
        now[0] += FIRST_S
        silence.failed(down, now[0])
        silence.answered()
        silence.answered()
    assert told == [down, None] * 2


async def test_no_delay_can_be_written_as_none(at: At) -> None:
    queue = at.queue()
    await queue.put("now", delay=None)
    assert (await queue.take(timeout=0)).payload == "now"
