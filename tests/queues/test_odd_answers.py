"""Settles that fail in odd ways, and deliveries of a client that is closed."""

from __future__ import annotations

import pytest

from holdfast import Loss
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
