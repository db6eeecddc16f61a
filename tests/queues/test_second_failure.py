"""A reply is lost, and then something else fails, too."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from typing import Any

import pytest

from holdfast import ConfigError, LockLost, StoreUnavailable
from holdfast.core.model import Loss
from holdfast.core.policy import deadline
from holdfast.core.ports import DiskFailed
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
    if answered_between:  # no job was there then, so no job was delivered before
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
    if renewed:  # the renewer is notified that it is no longer delivered
        await at.until(lambda: job._lease.end is not None, "the renewer has seen it")
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
        await at.until(lambda: job._lease.end is not None, "the renewer has seen it")

    async def body() -> None:
        if how == "with":
            async with await queue.take(timeout=5) as job:
                await lose(job)
        else:
            async for job in queue.consume(timeout=0):
                await lose(job)

    with pytest.raises(LockLost, match="before its body ended"):
        await body()


class Settles:
    """The settles of a store, in which two tasks meet in an order that a test chooses.

    ``fates``: by the name of a task, the fate of its request: "answered", "lost" (carried out
    without a reply), "refused" (with a `ConfigError`) or "odd" (an error in place of the reply).
    """

    def __init__(self, verbs: Any, fates: dict[str, str]) -> None:
        self.verbs, self.fates = verbs, fates
        self.arrive = {who: asyncio.Event() for who in fates}
        self.reply = {who: asyncio.Event() for who in fates}
        #: The verdicts that were carried out.
        self.carried: list[str] = []

    async def settle(self, settles: Any, within: float) -> list[Any]:
        who = getattr(asyncio.current_task(), "get_name", str)()
        if (fate := self.fates.get(who)) is None:
            return list(await self.verbs.settle(settles, within))
        await self.arrive[who].wait()
        found: list[Any] = [OSError("planted")]
        if fate in ("answered", "lost"):
            found = await self.verbs.settle(settles, within)
            self.carried += [str(settles[0].verdict)] * (found == [True])
        await self.reply[who].wait()
        if fate in ("lost", "refused"):
            raise FAILURES[fate]("planted")
        return found


#: Seconds within which a test expects the end of a call that needs to wait for nothing.
SOON_S = 20.0
#: The failure that a caller gets, by the fate of its request. `DiskFailed` isn't repeated.
FAILURES = {"lost": DiskFailed, "refused": ConfigError, "odd": OSError}


@pytest.mark.parametrize("verdict", ["ack", "retry"])
@pytest.mark.parametrize("order", [(0, 1, 0, 1), (0, 1, 1, 0), (1, 0, 0, 1), (1, 0, 1, 0)])
async def test_of_two_settles_at_once_one_counts_and_each_caller_knows_which(
    aio: At, verdict: str, order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "REQUEST_S", 2 * SOON_S)
    for fates in itertools.product(("answered", *FAILURES), repeat=2):
        # Given two calls that settle a delivery: their requests and replies come in this order
        aio.space += "'"
        queue, flaky = aio.flaky(ttl=60, retry_delay=0, retry_delay_max=0)
        job = await aio.taken(queue)
        flaky.down["extend"] = FOREVER
        two = Settles(flaky.verbs, dict(zip("ab", fates, strict=True)))
        flaky.verbs = Overlaid(two.verbs, settle=two.settle)
        hows = {"a": "ack", "b": verdict}
        tasks = [asyncio.create_task(getattr(job, how)(), name=who) for who, how in hows.items()]
        events = [*two.arrive.values()], [*two.reply.values()]
        for step, who in enumerate(order):
            events[step // 2][who].set()
            for _ in range(20):
                await asyncio.sleep(0)
        async with asyncio.timeout(SOON_S):  # neither waits for more than the other's end
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        # Then a call raises its own failure, or returns whether its verdict counts
        said = f"{fates}: {ends}, carried {two.carried}"
        for how, fate, end in zip(hows.values(), fates, ends, strict=True):
            if fate == "answered":
                assert end is (two.carried == [how]), said
            else:
                assert type(end) is FAILURES[fate], said
        # And the delivery is settled if one call knows that, else it is kept and can be settled
        assert job.lost is None, said
        assert job.settled is ("answered" in fates), said
        assert (job._lease.settling, len(two.carried) < 2) == (0, True), said
        assert not job._ctx.settling, said
        if not job.settled:
            assert (job._lease.asked, job._lease.closing) == ("lost" in fates, False), said
            assert await job.ack() is (two.carried in ([], ["ack"])) or fates == ("lost",) * 2, said
            assert job.settled, said


@pytest.mark.parametrize("other", ["hangs", "is cancelled"])
async def test_a_settle_that_counts_is_known_although_another_one_has_no_end(
    aio: At, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "REQUEST_S", 2 * SOON_S)
    queue, flaky = aio.flaky(ttl=60, retry_delay=0, retry_delay_max=0)
    job = await aio.taken(queue)
    two = Settles(flaky.verbs, dict.fromkeys("abc", "answered"))
    flaky.verbs = Overlaid(two.verbs, settle=two.settle)
    first, second, last = (
        asyncio.create_task(how(), name=who)
        for who, how in (("a", job.retry), ("b", job.retry), ("c", job.ack))
    )
    # Given a settle that the store has carried out, one that it didn't find, and one that hangs
    for event in (two.arrive["a"], two.arrive["b"], two.reply["b"]):
        event.set()
        await asyncio.sleep(0.01)
    # When that one is cancelled, then the renewer sends it, and expects that it counts
    if other == "is cancelled":
        last.cancel()
        await asyncio.sleep(0.01)
        assert job.settled
    # When the reply to the first comes, then it decides
    two.reply["a"].set()
    async with asyncio.timeout(SOON_S):
        assert await first is True
        known = await second
    assert known or other == "is cancelled"  # then it returned before the reply
    last.cancel()
    assert (await job.retry(), await job.ack()) == (True, False)
    await aio.stands(done=0, waiting=1)


@pytest.mark.parametrize("lost", [0, 1])
async def test_a_refused_ack_has_settled_nothing_unless_an_earlier_copy_got_no_reply(
    at: At, lost: int
) -> None:
    queue, flaky = at.flaky(ttl=60)
    job = await at.taken(queue)
    inner = flaky.verbs

    async def refuse(settles: Any, within: float) -> list[Any]:
        if flaky.calls["settle"] > lost:
            raise ConfigError("planted")
        raise StoreUnavailable("planted: no reply")

    flaky.verbs = Overlaid(inner, settle=refuse)
    with pytest.raises(ConfigError):
        await job.ack()
    # When the renewer then finds no delivery, only a request without a reply can have settled it
    at.pass_(70)
    assert await (await at.queue().take(timeout=5)).ack()
    job._ctx.keeper.add_early(job._lease, job._ctx.now())
    await at.until(lambda: job._lease.end is not None, "the renewer has seen it")
    assert (job.settled, job.lost) == ((True, None) if lost else (False, Loss.EXPIRED))
    assert await job.ack() is bool(lost)


@pytest.mark.usefixtures("hasty")
async def test_a_settle_does_not_wait_longer_for_another_one_than_for_the_store(aio: At) -> None:
    queue, flaky = aio.flaky(ttl=60)
    job = await aio.taken(queue)
    two = Settles(flaky.verbs, {"a": "answered", "b": "answered"})
    flaky.verbs = Overlaid(two.verbs, settle=two.settle)
    hanging = asyncio.create_task(job.ack(), name="a")
    two.arrive["a"].set()
    await aio.until(lambda: two.carried, "the first is carried out")
    # When the store doesn't find the delivery, and the other reply doesn't come
    for one in (two.arrive["b"], two.reply["b"]):
        one.set()
    # Then nothing but the other request can have settled it
    assert await asyncio.create_task(job.ack(), name="b") is True
    assert not hanging.done()
    two.reply["a"].set()
    assert await hanging is True
    assert job.settled


async def test_the_end_of_a_body_repeats_no_ack_after_another_call_has_settled(
    at: At, caplog: pytest.LogCaptureFixture
) -> None:
    queue, flaky = at.flaky(ttl=60, retry_delay=0, retry_delay_max=0)
    inner = flaky.verbs

    async def meanwhile(settles: Any, within: float) -> Any:
        flaky.verbs = inner
        assert await job.retry()
        raise DiskFailed("planted")

    async with await at.taken(queue) as job:
        flaky.verbs = Overlaid(inner, settle=meanwhile)
    assert "its ack is repeated" not in caplog.text
    assert (await job.retry(), await job.ack()) == (True, False)
    await at.stands(done=0, waiting=1)
