"""A request can be sent twice, and a copy can arrive late: neither has a second effect."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from holdfast import LockLost, StoreUnavailable
from holdfast.core.model import Gone
from holdfast.core.ports import Unreached
from holdfast.core.queue import queue as core
from holdfast.core.queue import taking
from tests.queues.conftest import At, Case

Run = Callable[[Case], None]
FOREVER = 10**6


def test_a_put_whose_reply_is_lost_is_accepted_once(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky()
        flaky.mute["put"] = 2
        receipts = await queue.put_many(
            [{"payload": 1, "group": "g"}, {"payload": 2, "id": "known"}]
        )
        # The repeated request is no duplicate
        assert [one.duplicate for one in receipts] == [False, False]
        assert flaky.calls["put"] == 3
        assert [one.payload for one in await queue.jobs()] == [b"j1", b"j2"]

    run(case)


def test_a_late_copy_of_a_put_is_accepted_no_second_time(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky()
        await queue.put("first", group="g")
        await flaky.copy("put")()
        await queue.put("second", group="g")
        with pytest.raises(StoreUnavailable, match="came late"):
            await flaky.copy("put")()
        assert [one.payload for one in await queue.jobs()] == [b"tfirst", b"tsecond"]

    run(case)


def test_simultaneous_puts_use_separate_producers(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky()
        flaky.mute["put"] = 3  # so that they overlap
        putting = [at.start(queue.put, number) for number in range(8)]
        for one in putting:
            assert not (await one.result()).duplicate
        assert sorted(one.payload for one in await queue.jobs()) == [b"j%d" % n for n in range(8)]

    run(case)


def test_a_put_without_a_reply_reports_that_its_result_is_unknown(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "PUT_S", 0.5)

    async def case(at: At) -> None:
        queue, flaky = at.flaky()
        flaky.mute["put"] = FOREVER
        with pytest.raises(StoreUnavailable, match="is unknown whether 1 job"):
            await queue.put("x", id="x")
        flaky.mute["put"] = 0
        given_up = flaky.copy("put")
        # A second put of the same id gets a duplicate receipt, because the caller chose the id
        assert (await queue.put("x", id="x")).duplicate
        assert not (await queue.put("y")).duplicate
        await given_up()
        assert (await queue.stats()).accepted == 2

    run(case)


@pytest.mark.parametrize("asked", ["once", "never"])
def test_a_put_that_was_never_sent_reports_that(
    run: Run, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setattr(core, "PUT_S", 0.5)

    async def case(at: At) -> None:
        queue, flaky = at.flaky()
        put, sent = flaky.queues.put, []

        async def unreached(*args: object) -> list[bool]:
            if asked == "once" and not sent:
                sent.append(args)
                raise StoreUnavailable("planted: no answer")
            raise Unreached("planted: no connection")

        monkeypatch.setattr(flaky.queues, "put", unreached)
        said = "is unknown whether 1 job" if asked == "once" else "nothing was sent"
        with pytest.raises(StoreUnavailable, match=said):
            await queue.put("x", id="x")
        monkeypatch.setattr(flaky.queues, "put", put)
        assert not (await queue.put("x", id="x")).duplicate

    run(case)


def test_a_take_whose_reply_is_lost_gets_the_same_once(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky()
        await queue.put_many(["a", "b"], group="g")
        await queue.put("c", group="h")
        flaky.mute["take"] = 2
        jobs = await queue.take_many(10, timeout=5)
        assert sorted(job.payload for job in jobs) == ["a", "c"]
        assert [job.attempt for job in jobs] == [1, 1]
        for job in jobs:
            job.check()
            assert await job.ack()
        assert (await queue.stats()).done == 2

    run(case)


def test_a_late_copy_of_a_take_gets_nothing_when_its_jobs_are_settled(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky()
        await queue.put_many(["a", "b"], group="g")
        flaky.mute["take"] = 1
        job = await queue.take(timeout=5)
        assert await job.ack()
        late = await flaky.copy("take")()
        assert late.deliveries == ()
        await at.stands(taken=0, waiting=1, done=1)

    run(case)


def test_a_take_without_a_reply_is_undone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking, "SILENCE_S", 0.3)

    async def case(at: At) -> None:
        queue, flaky = at.flaky()
        await queue.put("a", group="g")
        flaky.mute["take"] = FOREVER
        with pytest.raises(StoreUnavailable):
            await queue.take(timeout=5)
        await at.stands(taken=0, waiting=1)
        late = await flaky.copy("take")()
        assert late.deliveries == ()
        other = at.queue()
        job = await other.take(timeout=5)
        assert (job.payload, job.attempt) == ("a", 1)
        assert await job.ack()

    run(case)


def test_a_take_that_is_answered_after_its_lease_is_not_handed_out(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=1.2)
        await queue.put("a", group="g")

        def slow(verb: str) -> None:
            if flaky.calls["take"] == 1:
                time.sleep(1.3)  # the machine, or the line to the store

        flaky.arrived = slow
        job = await queue.take(timeout=20)
        job.check()
        assert (job.payload, job.attempt) == ("a", 2)
        assert await job.ack()

    run(case)


def test_a_settle_whose_reply_is_lost_counts_once(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky(retry_delay=0, retry_delay_max=0)
        await queue.put_many(["a", "b"], group="g")
        job = await queue.take(timeout=5)
        flaky.mute["settle"] = 2
        assert await job.ack()
        assert flaky.calls["settle"] == 3
        assert await job.ack()  # the answer stays
        assert flaky.calls["settle"] == 3
        job = await queue.take(timeout=5)
        assert job.payload == "b"
        flaky.mute["settle"] = 1
        assert await job.retry()
        again = await queue.take(timeout=5)
        assert (again.payload, again.attempt) == ("b", 2)
        # A late copy of the settle of the first delivery leaves the second delivery alone
        (late,) = await flaky.copy("settle", -1)()
        assert late is False
        again.check()
        assert await again.ack()
        assert (await queue.stats()).done == 2

    run(case)


def test_many_acks_whose_reply_is_lost_count_once_each_and_the_lost_one_not(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky()
        await queue.put_many([{"payload": n, "group": str(n)} for n in range(5)])
        jobs = await queue.take_many(5, timeout=5)
        jobs[2]._lease.deadline = 0.0  # as it was asleep for that time
        flaky.mute["settle"] = 1
        assert await queue.ack_many(jobs) == [True, True, False, True, True]
        assert await queue.ack_many(jobs) == [True, True, False, True, True]
        assert flaky.calls["settle"] == 2
        record = await queue.stats()
        assert (record.done, record.taken) == (4, 1)

    run(case)


def test_a_settle_that_never_arrived_can_be_repeated(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=1.2)
        await queue.put("a", group="g")
        job = await queue.take(timeout=5)
        flaky.down["settle"] = FOREVER
        with pytest.raises(StoreUnavailable):
            await job.ack()
        flaky.down["settle"] = 0
        # The renewals continue unless the lease has ended; either way the result is true
        kept = await job.ack()
        assert kept is (job.lost is None)
        await at.until(lambda: _settled(at), "nothing is on loan")
        record = await queue.stats()
        assert record.done == kept

    run(case)


async def _settled(at: At) -> bool:
    queue = at.queue()
    await queue.jobs()  # which takes back what is over
    return not (await queue.stats()).taken


def test_an_extension_whose_reply_is_lost_loses_nothing(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=3.0)
        await queue.put("a", group="g")
        job = await queue.take(timeout=5)
        flaky.mute["extend"] = 1
        await at.face.sleep(4.0)
        job.check()
        assert flaky.calls["extend"] >= 3
        assert await job.ack()
        # A late copy doesn't restore the lease
        (late,) = await flaky.copy("extend")()
        assert isinstance(late, Gone)
        assert (await queue.stats()).taken == 0

    run(case)


def test_a_late_copy_of_an_extension_brings_no_expired_lease_back(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=3.0)
        await queue.put("a", group="g")
        lost = await queue.take(timeout=5)

        async def renewed() -> bool:
            return flaky.calls["extend"] > 0

        await at.until(renewed, "it was renewed")
        lost._ctx.keeper.drop(lost._lease)
        at.pass_(5)
        (late,) = await flaky.copy("extend")()
        assert isinstance(late, Gone)
        again = await at.queue().take(timeout=5)
        assert again.attempt == 2
        assert again.fence > lost.fence
        assert not await lost.ack()
        assert await again.ack()

    run(case)


def test_an_extension_may_be_as_late_as_it_likes_but_never_shortens(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=30)
        await queue.put("a", group="g")
        job = await queue.take(timeout=5)
        short = job._lease.extension(0)._replace(ttl=0.01)
        (answer,) = await flaky.queues.extend([short], 1.0)
        assert not isinstance(answer, Gone)
        at.pass_(1)
        assert await at.queue().take(timeout=0) is None
        assert await job.ack()

    run(case)


@pytest.mark.parametrize("lost", ["request", "reply"])
def test_a_loop_continues_after_a_lost_settle_and_take(run: Run, lost: str) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=30)
        await queue.put_many(["a", "b", "c"], group="g")
        seen = []
        async for job in queue.consume(timeout=0):
            seen.append((job.payload, job.attempt))
            if job.payload == "b":
                (flaky.down if lost == "request" else flaky.mute)["settle"] = 1
        # Each job was executed once: an already settled job did not count as lost
        assert seen == [("a", 1), ("b", 1), ("c", 1)]
        record = await queue.stats()
        assert (record.done, record.waiting, record.taken) == (3, 0, 0)
        if lost == "reply":
            await at.queue().put("d", group="g")
            _, taken = await flaky.copy("settle_and_take", 1)()
            assert not taken.deliveries

    run(case)


def test_a_loop_whose_job_was_lost_raises_and_takes_no_other(run: Run) -> None:
    async def case(at: At) -> None:
        queue, other = at.queue(ttl=30), at.queue()
        await queue.put_many([{"payload": n, "group": str(n)} for n in range(2)])
        loop = queue.consume(timeout=0)
        assert (await anext(loop)).attempt == 1
        at.pass_(31)  # for the store, not for us
        with pytest.raises(LockLost, match="delivered again"):
            await anext(loop)
        await at.stands(taken=0, waiting=2)
        assert sorted(one.attempts for one in await other.jobs()) == [0, 1]

    run(case)
