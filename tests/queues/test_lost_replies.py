"""A request can be sent twice, and a copy can arrive late: neither has a second effect."""

from __future__ import annotations

import time

import pytest

from holdfast import LockLost, StoreUnavailable
from holdfast.core.model import Gone
from holdfast.core.ports import Unreached
from holdfast.core.queue import queue as core
from holdfast.testing.conformance.struck import FOREVER, Overlaid
from tests.faced import At


async def test_simultaneous_puts_use_separate_producers(at: At) -> None:
    queue, flaky = at.flaky()
    flaky.lost["put"] = 3  # so that they overlap
    for putting in [at.start(queue.put, number) for number in range(8)]:
        assert not (await putting.result()).duplicate
    assert sorted(one.payload for one in await queue.jobs()) == [b"j%d" % n for n in range(8)]


async def test_a_put_without_a_reply_reports_that_its_result_is_unknown(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "PUT_S", 0.5)
    queue, flaky = at.flaky()
    flaky.lost["put"] = FOREVER
    with pytest.raises(StoreUnavailable, match="is unknown whether 1 job"):
        await queue.put("x", id="x")
    flaky.lost["put"] = 0
    given_up = flaky.copy("put")
    # A second put of the same id gets a duplicate receipt, because the caller chose the id
    assert (await queue.put("x", id="x")).duplicate
    assert not (await queue.put("y")).duplicate
    await given_up()
    assert (await queue.stats()).accepted == 2


@pytest.mark.parametrize("asked", ["once", "never"])
async def test_a_put_that_was_never_sent_reports_that(
    at: At, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setattr(core, "PUT_S", 0.5)
    queue, flaky = at.flaky()
    inner = flaky.verbs

    async def unreached(*args: object) -> list[bool]:
        if asked == "once" and flaky.calls["put"] == 1:
            raise StoreUnavailable("planted: no answer")
        raise Unreached("planted: no connection")

    flaky.verbs = Overlaid(inner, put=unreached)
    said = "is unknown whether 1 job" if asked == "once" else "nothing was sent"
    with pytest.raises(StoreUnavailable, match=said):
        await queue.put("x", id="x")
    flaky.verbs = inner
    assert not (await queue.put("x", id="x")).duplicate


async def test_a_take_that_is_answered_after_its_lease_is_not_handed_out(at: At) -> None:
    queue, flaky = at.flaky(ttl=1.2)

    def slow(verbs: object) -> None:
        if flaky.calls["take"] == 1:
            time.sleep(1.3)  # the machine, or the line to the store

    await queue.put("a", group="g")
    flaky.arrived = slow
    job = await queue.take(timeout=20)
    job.check()
    assert (job.payload, job.attempt) == ("a", 2)
    assert await job.ack()


async def test_many_acks_whose_reply_is_lost_count_once_each_and_the_lost_one_not(at: At) -> None:
    queue, flaky = at.flaky()
    await queue.put_many([{"payload": n, "group": str(n)} for n in range(5)])
    jobs = await queue.take_many(5, timeout=5)
    jobs[2]._lease.deadline = 0.0  # it was asleep for this time
    flaky.lost["settle"] = 1
    for _ in range(2):
        assert await queue.ack_many(jobs) == [True, True, False, True, True]
    assert flaky.calls["settle"] == 2
    record = await queue.stats()
    assert (record.done, record.taken) == (4, 1)


async def test_a_late_copy_of_an_extension_brings_no_expired_lease_back(at: At) -> None:
    queue, flaky = at.flaky(ttl=3.0)
    lost = await at.taken(queue)
    await at.until(lambda: flaky.calls["extend"] > 0, "it was renewed")
    lost._ctx.keeper.drop(lost._lease)
    at.pass_(5)
    (late,) = await flaky.copy("extend")()
    assert isinstance(late, Gone)
    again = await at.queue().take(timeout=5)
    assert again.attempt == 2
    assert again.fence > lost.fence
    assert not await lost.ack()
    assert await again.ack()


async def test_an_extension_may_be_as_late_as_it_likes_but_never_shortens(at: At) -> None:
    queue, flaky = at.flaky(ttl=30)
    job = await at.taken(queue)
    short = job._lease.extension()._replace(ttl=0.01)
    (answer,) = await flaky.verbs.extend([short], 1.0)
    assert not isinstance(answer, Gone)
    at.pass_(1)
    assert await at.queue().take(timeout=0) is None
    assert await job.ack()


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_a_loop_continues_after_a_lost_settle_and_take(at: At, lost: str) -> None:
    queue, flaky = at.flaky(ttl=30)
    await queue.put_many(["a", "b", "c"], group="g")
    seen = []
    async for job in queue.consume(timeout=0):
        seen.append((job.payload, job.attempt))
        if job.payload == "b":
            (flaky.down if lost == "request" else flaky.lost)["settle"] = 1
    # Each job was executed once: an already settled job did not count as lost
    assert seen == [("a", 1), ("b", 1), ("c", 1)]
    record = await queue.stats()
    assert (record.done, record.waiting, record.taken) == (3, 0, 0)
    if lost == "reply":
        await at.queue().put("d", group="g")
        _, taken = await flaky.copy("settle_and_take", 1)()
        assert not taken.deliveries


async def test_a_loop_whose_job_was_lost_raises_and_takes_no_other(at: At) -> None:
    queue = at.queue(ttl=30)
    await queue.put_many([{"payload": n, "group": str(n)} for n in range(2)])
    loop = queue.consume(timeout=0)
    assert (await anext(loop)).attempt == 1
    at.pass_(31)  # for the store, not for us
    with pytest.raises(LockLost, match="delivered again"):
        await anext(loop)
    await at.stands(taken=0, waiting=2)
    assert sorted(one.attempts for one in await at.queue().jobs()) == [0, 1]
