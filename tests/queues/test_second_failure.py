"""A reply is lost, and then something else fails, too."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import LockLost, StoreUnavailable
from holdfast.core.model import Loss
from holdfast.core.policy import deadline
from holdfast.core.queue import settling
from tests.queues.conftest import At, Case

Run = Callable[[Case], None]
FOREVER = 10**9


@pytest.mark.parametrize("answered_between", [False, True])
def test_a_lease_counts_from_the_first_copy_of_a_take_that_may_have_got_it(
    run: Run, answered_between: bool
) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=30)
        flaky.down["extend"] = FOREVER
        sent: list[float] = []
        take = flaky.queues.take

        async def noted(one: Any, within: float) -> Any:
            sent.append(queue._ctx.now())
            return await take(one, within)

        flaky.queues.take = noted  # type: ignore[method-assign]
        if answered_between:  # nothing was there then, so nothing is on loan since before
            taking = at.start(lambda: queue.take(timeout=20))

            async def waits() -> bool:
                return len(sent) >= 2

            await at.until(waits, "it waits")
            flaky.mute["take"] = 2
            await at.queue().put("a", group="g")
            job = await taking.result()
            # The copy before these three certainly got nothing.
            assert deadline(sent[-4], 30) < job._lease.deadline <= deadline(sent[-3], 30)
        else:
            await queue.put("a", group="g")
            flaky.mute["take"] = 2
            job = await queue.take(timeout=5)
            assert len(sent) == 3
            assert job._lease.deadline <= deadline(sent[0], 30)
        assert await job.ack()

    run(case)


def test_two_workers_never_believe_in_one_job_after_a_lost_reply(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=2.0)
        await queue.put("a", group="g")

        def slow(verb: str) -> None:
            if verb == "take" and flaky.calls["take"] == 1:
                time.sleep(1.0)

        flaky.arrived = slow
        flaky.mute["take"] = 1
        flaky.down["extend"] = FOREVER
        job = await queue.take(timeout=5)
        assert job.attempt == 1
        assert job.remaining() > 0
        again = await at.queue().take(timeout=5)
        assert again.attempt == 2
        assert job.remaining() == 0
        assert await again.ack()
        assert await job.ack() is False

    run(case)


def test_what_was_repeated_is_renewed_at_once(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=300)
        await queue.put("a", group="g")
        flaky.mute["take"] = 1
        job = await queue.take(timeout=5)

        async def renewed() -> bool:
            return flaky.calls["extend"] > 0

        await at.until(renewed, "it is renewed long before a third of its ttl")
        assert await job.ack()

    run(case)


def test_a_delivery_whose_ack_is_unknown_is_renewed_on(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "REQUEST_S", 0.05)

    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=300)
        await queue.put("a", group="g")
        job = await queue.take(timeout=5)
        flaky.down["settle"] = FOREVER
        with pytest.raises(StoreUnavailable):
            await job.ack()

        async def renewed() -> bool:
            return flaky.calls["extend"] > 0

        await at.until(renewed, "it is renewed at once")
        job.check()
        flaky.down.clear()
        assert await job.ack()

    run(case)


@pytest.mark.parametrize("renewed", [False, True])
def test_a_repeated_ack_whose_first_reply_was_lost_is_no_loss(
    run: Run, monkeypatch: pytest.MonkeyPatch, renewed: bool
) -> None:
    monkeypatch.setattr(settling, "REQUEST_S", 0.05)

    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=30)
        await queue.put("a", group="g")
        job = await queue.take(timeout=5)
        flaky.mute["settle"] = FOREVER
        if not renewed:
            flaky.down["extend"] = FOREVER
        with pytest.raises(StoreUnavailable):
            await job.ack()
        flaky.mute.clear()
        if renewed:  # the keeper hears that it is on loan no more

            async def heard() -> bool:
                return job._lease.end is not None

            await at.until(heard, "the keeper knows it")
        assert await job.ack() is True
        assert job.settled
        assert job.lost is None
        assert (await at.queue().stats()).done == 1

    run(case)


def test_a_body_that_was_protected_until_its_end_is_not_reported_as_failed(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(settling, "REQUEST_S", 0.05)

    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=30)
        await queue.put("a", group="g")
        async with await queue.take(timeout=5) as job:
            flaky.down["settle"] = 3
        assert "its ack is repeated" in caplog.text
        assert repr(job) in caplog.text or "job" in caplog.text
        await at.stands(done=1, taken=0)

    caplog.set_level(logging.WARNING, "holdfast")
    run(case)


def test_a_body_whose_ack_is_unknown_until_after_its_lease_is_not_reported_as_failed(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=30)
        await queue.put("a", group="g")

        async def body() -> None:
            async with await queue.take(timeout=5) as job:
                job._lease.renewing = False

                def late(verb: str) -> None:
                    if verb == "settle":
                        job._lease.deadline = 0.0

                flaky.arrived = late
                flaky.mute["settle"] = 1

        await body()
        assert "may be delivered again" in caplog.text

    caplog.set_level(logging.WARNING, "holdfast")
    run(case)


def test_a_body_whose_session_ends_before_its_ack_is_known_is_not_reported_as_failed(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=30)
        await queue.put("a", group="g")
        settle = flaky.queues.settle
        sent = []

        async def session_ends(settles: Any, within: float) -> list[Any]:
            sent.append(await settle(settles, within))
            if len(sent) == 1:
                raise StoreUnavailable("the reply was lost")
            return [LockLost("the session has ended", Loss.SESSION)]

        flaky.queues.settle = session_ends  # type: ignore[method-assign]
        async with await queue.take(timeout=5):
            pass
        assert sent[0] == [True]
        assert "may be delivered again" in caplog.text
        await at.stands(done=1, taken=0)

    caplog.set_level(logging.WARNING, "holdfast")
    run(case)


def test_a_loop_whose_ack_gets_no_reply_continues_after_the_outage(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "REQUEST_S", 0.05)

    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=30)
        await queue.put_many(["a", "b"], group="g")
        seen = []
        async for job in queue.consume(timeout=5):
            seen.append((job.payload, job.attempt))
            if len(seen) == 1:
                flaky.down["settle"] = 3
            if len(seen) == 2:
                await job.ack()
                break
        assert seen == [("a", 1), ("b", 1)]
        await at.stands(done=2, taken=0)

    run(case)


@pytest.mark.parametrize("how", ["with", "consume"])
def test_a_loss_seen_by_the_renewer_is_raised_at_the_end_of_the_body(run: Run, how: str) -> None:
    async def case(at: At) -> None:
        queue = at.queue(ttl=30)
        await queue.put("a", group="g")

        async def lose(job: Any) -> None:
            at.pass_(60)
            again = await at.queue().take(timeout=5)
            assert await again.ack()
            job._ctx.keeper.add_early(job._lease, job._ctx.now())

            async def lost() -> bool:
                return job._lease.end is not None

            await at.until(lost, "the keeper has seen it")

        async def body() -> None:
            if how == "with":
                async with await queue.take(timeout=5) as job:
                    await lose(job)
            else:
                async for job in queue.consume(timeout=0):
                    await lose(job)

        with pytest.raises(LockLost, match="before its body ended"):
            await body()

    run(case)


def test_a_body_that_fails_after_a_loss_raises_its_own_failure(run: Run) -> None:
    async def case(at: At) -> None:
        queue = at.queue(ttl=30)
        await queue.put("a", group="g")

        async def body() -> None:
            async with await queue.take(timeout=5) as job:
                job._lease.deadline = 0.0
                raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            await body()

    run(case)
