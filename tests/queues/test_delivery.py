"""Deliveries: forgotten, lost, forked, closed, and renewed by the hundred."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client, LockLost, Loss, NotHeld, StoreUnavailable
from tests.queues.conftest import At, Case

Run = Callable[[Case], None]


def test_a_forgotten_delivery_warns_and_comes_again(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def case(at: At) -> None:
        queue = at.queue(ttl=0.5)
        await queue.put("a", group="g")
        assert (await queue.take(timeout=5)).payload == "a"
        gc.collect()
        again = await at.queue().take(timeout=10)
        assert again is not None
        assert (again.payload, again.attempt) == ("a", 2)
        assert await again.ack()
        await queue.take(timeout=0)  # the keeper says it, or whoever comes by
        (told,) = [one.getMessage() for one in caplog.records if "unsettled" in one.message]
        assert told.startswith("a delivery of 'q/g'")
        assert "Call ack(), retry() or dead_letter(), or use `with`" in told

    run(case)


def test_a_lost_delivery_raises_and_settles_nothing(run: Run) -> None:
    async def case(at: At) -> None:
        queue = at.queue(ttl=30)
        await queue.put("a", group="g")
        job = await queue.take(timeout=5)
        at.pass_(60)
        again = await at.queue().take(timeout=5)
        job._lease.deadline = 0.0  # as its process was asleep for that time
        assert job.remaining() == 0
        with pytest.raises(LockLost, match="delivered again"):
            job.check()
        for settle in (job.ack, job.retry, job.dead_letter, job.release):
            assert await settle() is False
        assert not job.settled
        again.check()
        assert await again.ack()
        with pytest.raises(NotHeld, match="was settled"):
            again.check()
        assert await again.dead_letter() is False  # the first verdict stays
        record = await queue.stats()
        assert (record.done, record.dead) == (1, 0)

    run(case)


def test_a_body_over_a_lost_delivery_raises(run: Run) -> None:
    async def case(at: At) -> None:
        queue = at.queue(ttl=30)
        await queue.put("a", group="g")

        async def body() -> None:
            async with await queue.take(timeout=5) as job:
                job._lease.deadline = 0.0

        with pytest.raises(LockLost, match="before its body ended"):
            await body()

    run(case)


def test_closing_a_client_releases_its_deliveries(run: Run) -> None:
    async def case(at: At) -> None:
        closing, watch = at.client(), at.queue()
        queue = closing.queue("q", ttl=60)
        await queue.put("a", group="g")
        await queue.put("b")
        jobs = await queue.take_many(5, timeout=5)
        assert len(jobs) == 2
        await closing.close()
        assert [job.lost for job in jobs] == [Loss.CLOSED] * 2
        again = await watch.take_many(5, timeout=5)
        assert [(job.payload, job.attempt) for job in again] == [("a", 1), ("b", 1)]
        for job in again:
            assert await job.ack()
        with pytest.raises(StoreUnavailable, match="is closed"):
            await queue.take(timeout=0)

    run(case)


def test_a_forked_child_has_no_delivery_and_settles_nothing() -> None:
    with Client("memory://fork-of-queues") as client:
        queue = client.queue("q")
        queue.put("a", group="g")
        job = queue.take(timeout=5)
        assert job is not None
        pid = os.fork()
        if pid == 0:
            try:
                right = job.lost is Loss.FORKED and job.ack() is False and not job.remaining()
            finally:
                os._exit(0 if right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        job.check()
        assert job.ack()


def test_a_forked_child_has_its_own_producer() -> None:
    with Client("memory://fork-of-lanes") as client:
        queue = client.queue("q")
        queue.put("a")
        (lane,) = queue._lanes
        begin, end = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                queue.put("b")
                os.write(end, queue._lanes[-1].id.encode())
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        assert os.read(begin, 100).decode() not in ("", lane.id)
        os.close(begin)
        os.close(end)


def test_hundreds_of_deliveries_are_kept_in_batches(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=3)
        await queue.put_many([{"payload": n, "group": str(n)} for n in range(600)])
        jobs = await queue.take_many(600, timeout=5)
        assert len(jobs) == 600
        sizes: list[int] = []
        extend = flaky.queues.extend

        async def counted(extends: Any, within: float) -> Any:
            sizes.append(len(extends))
            return await extend(extends, within)

        flaky.queues.extend = counted  # type: ignore[method-assign]

        async def twice() -> bool:
            return sum(sizes) >= 1200

        await at.until(twice, "all were renewed twice")
        for job in jobs:
            job.check()
        assert sum(sizes) / len(sizes) > 50, sizes
        for job in jobs:
            assert await job.ack()

    run(case)


def test_one_delivery_that_cannot_be_renewed_leaves_the_others_alone(run: Run) -> None:
    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=4.0)
        await queue.put_many([{"payload": n, "group": str(n)} for n in range(3)])
        jobs = await queue.take_many(3, timeout=5)
        extend = flaky.queues.extend

        async def broken(extends: Any, within: float) -> Any:
            answers = await extend([one for one in extends if one.group != "1"], within)
            found = iter(answers)
            return [OSError("planted") if one.group == "1" else next(found) for one in extends]

        flaky.queues.extend = broken  # type: ignore[method-assign]

        async def lost() -> bool:
            return jobs[1].lost is not None

        await at.until(lost, "the one is lost")
        jobs[0].check()
        jobs[2].check()
        assert not await jobs[1].ack()
        assert await jobs[0].ack()
        assert await jobs[2].ack()
        again = await at.queue().take(timeout=10)
        assert (again.payload, again.attempt) == (1, 2)
        assert await again.ack()

    run(case)


def test_removed_jobs_block_no_other_jobs(run: Run) -> None:
    async def case(at: At) -> None:
        queue = at.queue()
        await queue.put_many([{"payload": n, "id": f"p{n}"} for n in range(3)])
        await queue.put_many([{"payload": n, "id": f"g{n}"} for n in range(3)], group="g")
        assert await queue.purge(ids=["p0", "g0", "g2"]) == 3
        got = [job.id async for job in queue.consume(timeout=0)]
        assert sorted(got) == ["g1", "p1", "p2"]

    run(case)


def test_a_delivery_that_is_lost_in_its_last_attempt_is_given_up(run: Run) -> None:
    async def case(at: At) -> None:
        # Given a job in its last attempt, whose worker loses it before the store's lease ends
        queue = at.queue(ttl=30, max_attempts=1)
        await queue.put("a", group="g")
        job = await queue.take(timeout=5)
        undo = job._lease.undo(Loss.UNREACHABLE)
        # When its client releases it
        await job._ctx.withdraw(undo, 5.0)
        # Then it is a dead letter, as if the lease had ended
        assert await queue.take(timeout=0) is None
        assert (await queue.stats()).dead == 1
        job._forgo()

    run(case)
