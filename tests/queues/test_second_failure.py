"""A reply is lost, and then something else fails, too."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest

from holdfast import LockLost, StoreUnavailable
from holdfast.core.model import Loss
from holdfast.core.policy import deadline
from holdfast.core.queue import settling
from holdfast.testing.conformance.struck import FOREVER, Overlaid
from tests.faced import At


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A settle without a reply is given up soon."""
    monkeypatch.setattr(settling, "REQUEST_S", 0.05)


@pytest.mark.parametrize("answered_between", [False, True])
async def test_a_lease_counts_from_the_first_copy_of_a_take_that_may_have_got_it(
    at: At, answered_between: bool
) -> None:
    queue, flaky = at.flaky(ttl=30)
    flaky.down["extend"] = FOREVER
    sent: list[float] = []
    inner = flaky.verbs

    async def noted(one: Any, within: float) -> Any:
        sent.append(queue._ctx.now())
        return await inner.take(one, within)

    flaky.verbs = Overlaid(inner, take=noted)
    if answered_between:  # nothing was there then, so nothing is on loan since before
        taking = at.start(queue.take, 20)
        await at.until(lambda: len(sent) >= 2, "it waits")
        flaky.lost["take"] = 2
        await at.queue().put("a", group="g")
        job = await taking.result()
        # The copy before these three certainly got nothing.
        assert deadline(sent[-4], 30) < job._lease.deadline <= deadline(sent[-3], 30)
    else:
        flaky.lost["take"] = 2
        job = await at.taken(queue)
        assert len(sent) == 3
        assert job._lease.deadline <= deadline(sent[0], 30)
    assert await job.ack()


async def test_two_workers_never_believe_in_one_job_after_a_lost_reply(at: At) -> None:
    queue, flaky = at.flaky(ttl=2.0)

    def slow(verbs: Any) -> None:
        if "take" in verbs and flaky.calls["take"] == 1:
            time.sleep(1.0)

    flaky.arrived = slow
    flaky.lost["take"] = 1
    flaky.down["extend"] = FOREVER
    job = await at.taken(queue)
    assert job.attempt == 1
    assert job.remaining() > 0
    again = await at.queue().take(timeout=5)
    assert again.attempt == 2
    assert job.remaining() == 0
    assert await again.ack()
    assert await job.ack() is False


async def test_what_was_repeated_is_renewed_at_once(at: At) -> None:
    queue, flaky = at.flaky(ttl=300)
    flaky.lost["take"] = 1
    job = await at.taken(queue)
    await at.until(
        lambda: flaky.calls["extend"] > 0, "it is renewed long before a third of its ttl"
    )
    assert await job.ack()


@pytest.mark.usefixtures("hasty")
async def test_a_delivery_whose_ack_is_unknown_is_renewed_on(at: At) -> None:
    queue, flaky = at.flaky(ttl=300)
    job = await at.taken(queue)
    flaky.down["settle"] = FOREVER
    with pytest.raises(StoreUnavailable):
        await job.ack()
    await at.until(lambda: flaky.calls["extend"] > 0, "it is renewed at once")
    job.check()
    flaky.down.clear()
    assert await job.ack()


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("renewed", [False, True])
async def test_a_repeated_ack_whose_first_reply_was_lost_is_no_loss(at: At, renewed: bool) -> None:
    queue, flaky = at.flaky(ttl=30)
    job = await at.taken(queue)
    flaky.lost["settle"] = FOREVER
    flaky.down["extend"] = 0 if renewed else FOREVER
    with pytest.raises(StoreUnavailable):
        await job.ack()
    flaky.lost.clear()
    if renewed:  # the keeper hears that it is on loan no more
        await at.until(lambda: job._lease.end is not None, "the keeper knows it")
    assert await job.ack() is True
    assert job.settled
    assert job.lost is None
    assert (await at.queue().stats()).done == 1


@pytest.mark.usefixtures("hasty")
async def test_a_body_that_was_protected_until_its_end_is_not_reported_as_failed(
    at: At, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "holdfast")
    queue, flaky = at.flaky(ttl=30)
    async with await at.taken(queue):
        flaky.down["settle"] = 3
    assert "its ack is repeated" in caplog.text
    await at.stands(done=1, taken=0)


async def test_a_body_whose_ack_is_unknown_until_after_its_lease_is_not_reported_as_failed(
    at: At, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "holdfast")
    queue, flaky = at.flaky(ttl=30)
    async with await at.taken(queue) as job:
        job._lease.renewing = False

        def late(verbs: Any) -> None:
            if "settle" in verbs:
                job._lease.deadline = 0.0

        flaky.arrived = late
        flaky.lost["settle"] = 1
    assert "may be delivered again" in caplog.text


async def test_a_body_whose_session_ends_before_its_ack_is_known_is_not_reported_as_failed(
    at: At, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "holdfast")
    queue, flaky = at.flaky(ttl=30)
    inner, sent = flaky.verbs, []

    async def session_ends(settles: Any, within: float) -> list[Any]:
        sent.append(await inner.settle(settles, within))
        if len(sent) == 1:
            raise StoreUnavailable("the reply was lost")
        return [LockLost("the session has ended", Loss.SESSION)]

    flaky.verbs = Overlaid(inner, settle=session_ends)
    async with await at.taken(queue):
        pass
    assert sent[0] == [True]
    assert "may be delivered again" in caplog.text
    await at.stands(done=1, taken=0)


@pytest.mark.usefixtures("hasty")
async def test_a_loop_whose_ack_gets_no_reply_continues_after_the_outage(at: At) -> None:
    queue, flaky = at.flaky(ttl=30)
    await queue.put_many(["a", "b"], group="g")
    loop = queue.consume(timeout=5)
    assert (await anext(loop)).payload == "a"
    flaky.down["settle"] = 3
    job = await anext(loop)
    assert (job.payload, job.attempt) == ("b", 1)
    assert await job.ack()
    await at.stands(done=2, taken=0)


@pytest.mark.parametrize("how", ["with", "consume"])
async def test_a_loss_seen_by_the_renewer_is_raised_at_the_end_of_the_body(
    at: At, how: str
) -> None:
    queue = at.queue(ttl=30)
    await queue.put("a", group="g")

    async def lose(job: Any) -> None:
        at.pass_(60)
        again = await at.queue().take(timeout=5)
        assert await again.ack()
        job._ctx.keeper.add_early(job._lease, job._ctx.now())
        await at.until(lambda: job._lease.end is not None, "the keeper has seen it")

    async def body() -> None:
        if how == "with":
            async with await queue.take(timeout=5) as job:
                await lose(job)
        else:
            async for job in queue.consume(timeout=0):
                await lose(job)

    with pytest.raises(LockLost, match="before its body ended"):
        await body()
