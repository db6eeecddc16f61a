"""Deliveries: forgotten, lost, forked, closed, and renewed by the hundred."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import pytest

from holdfast import Client, HoldfastError, LockLost, Loss, NotHeld, StoreUnavailable
from holdfast.runtime.starting.blocking import DaemonThread
from holdfast.testing.conformance.struck import Overlaid
from holdfast.testing.faults import Fork
from tests.faced import At


async def test_a_forgotten_delivery_warns_and_comes_again(
    at: At, caplog: pytest.LogCaptureFixture
) -> None:
    queue = at.queue(ttl=0.5)
    assert (await at.taken(queue)).payload == "a"
    gc.collect()
    again = await at.queue().take(timeout=10)
    assert again is not None
    assert (again.payload, again.attempt) == ("a", 2)
    assert await again.ack()
    await queue.take(timeout=0)  # the renewer notices it, or this request
    (told,) = [one.getMessage() for one in caplog.records if "unsettled" in one.message]
    assert told.startswith("a delivery of 'q/g'")
    assert "Call ack(), retry() or dead_letter(), or use `with`" in told


async def test_a_lost_delivery_raises_and_settles_nothing(at: At) -> None:
    queue = at.queue(ttl=30)
    job = await at.taken(queue)
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
    record = await queue.stats()
    assert (record.done, record.dead) == (1, 0)


@pytest.mark.parametrize("failure", [LockLost, KeyError])
async def test_a_body_over_a_lost_delivery_raises_the_loss_or_its_own_failure(
    at: At, failure: type[Exception]
) -> None:
    async def body() -> None:
        async with await at.taken(at.queue(ttl=30)) as job:
            job._lease.deadline = 0.0
            if failure is KeyError:
                raise KeyError("before its body ended")

    with pytest.raises(failure, match="before its body ended"):
        await body()


async def test_closing_a_client_releases_its_deliveries(at: At) -> None:
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
    assert await watch.ack_many(again) == [True, True]
    with pytest.raises(StoreUnavailable, match="is closed"):
        await queue.take(timeout=0)


def test_a_forked_child_has_no_delivery_and_settles_nothing() -> None:
    with Client("memory://fork-of-queues") as client:
        queue = client.queue("q")
        queue.put("a", group="g")
        (job,) = queue.take_many(1, timeout=5)
        with Fork(lambda: [job.lost is Loss.FORKED, job.ack(), job.remaining()]) as child:
            assert child.result() == [True, False, 0]
        job.check()
        assert job.ack()


def test_a_forked_child_has_its_own_producer() -> None:
    with Client("memory://fork-of-lanes") as client:
        queue = client.queue("q")
        queue.put("a")
        (lane,) = queue._lanes
        with Fork(lambda: [queue.put("b").duplicate, queue._lanes[-1].id]) as child:
            assert lane.id not in child.result()


async def test_hundreds_of_deliveries_are_kept_in_batches(at: At) -> None:
    queue, flaky = at.flaky(ttl=3)
    await queue.put_many([{"payload": n, "group": str(n)} for n in range(600)])
    jobs = await queue.take_many(600, timeout=5)
    sizes: list[int] = []
    inner = flaky.verbs

    async def counted(extends: Any, within: float) -> Any:
        sizes.append(len(extends))
        return await inner.extend(extends, within)

    flaky.verbs = Overlaid(inner, extend=counted)
    await at.until(lambda: sum(sizes) >= 1200, "all were renewed twice")
    for job in jobs:
        job.check()
    assert sum(sizes) / len(sizes) > 50, sizes
    assert await queue.ack_many(jobs) == [True] * 600


async def test_one_delivery_that_cannot_be_renewed_leaves_the_others_alone(at: At) -> None:
    queue, flaky = at.flaky(ttl=4.0)
    await queue.put_many([{"payload": n, "group": str(n)} for n in range(3)])
    jobs = await queue.take_many(3, timeout=5)
    inner = flaky.verbs

    async def broken(extends: Any, within: float) -> Any:
        answers = await inner.extend([one for one in extends if one.group != "1"], within)
        found = iter(answers)
        return [OSError("planted") if one.group == "1" else next(found) for one in extends]

    flaky.verbs = Overlaid(inner, extend=broken)
    await at.until(lambda: jobs[1].lost is not None, "the one is lost")
    jobs[0].check()
    jobs[2].check()
    assert await queue.ack_many(jobs) == [True, False, True]
    again = await at.queue().take(timeout=10)
    assert (again.payload, again.attempt) == (1, 2)
    assert await again.ack()


async def test_removed_jobs_block_no_other_jobs(at: At) -> None:
    queue = at.queue()
    await queue.put_many([{"payload": n, "id": f"p{n}"} for n in range(3)])
    await queue.put_many([{"payload": n, "id": f"g{n}"} for n in range(3)], group="g")
    assert await queue.purge(ids=["p0", "g0", "g2"]) == 3
    assert sorted([job.id async for job in queue.consume(timeout=0)]) == ["g1", "p1", "p2"]


async def test_a_delivery_that_is_lost_in_its_last_attempt_is_given_up(at: At) -> None:
    # Given a job in its last attempt, whose worker loses it before the store's lease ends
    queue = at.queue(ttl=30, max_attempts=1)
    job = await at.taken(queue)
    undo = job._lease.undo(Loss.UNREACHABLE)
    # When its client releases it
    await job._ctx.withdraw(undo, 5.0)
    # Then it is a dead letter, as if the lease had ended
    assert await queue.take(timeout=0) is None
    assert (await queue.stats()).dead == 1
    job._forgo()


def test_deliveries_that_cannot_be_renewed_are_released_without_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(thread: DaemonThread) -> None:
        raise RuntimeError("can't start new thread")

    with Client("memory://no-keeper") as client:
        queue = client.queue("q")
        queue.put_many([{"payload": number, "group": str(number)} for number in range(3)])
        with monkeypatch.context() as patched, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            patched.setattr(DaemonThread, "start", refused)
            with pytest.raises(HoldfastError, match="then take from it again"):
                queue.take_many(3, 0)
            gc.collect()
        with client.lock("other").acquire():  # the next call passes warnings on
            assert [str(one.message) for one in caught] == []
        assert not client._ctx.orphans
        record = queue.stats()
        assert (record.waiting, record.taken) == (3, 0)


async def test_a_take_that_is_answered_after_the_close_of_its_client_delivers_nothing(
    at: At,
) -> None:
    queue, flaky = at.flaky(ttl=60)
    await queue.put("a")
    flaky.after["take"] = at._clients[0].close
    with pytest.raises(StoreUnavailable, match="is closed"):
        await queue.take(timeout=5)
    await at.stands(taken=0, waiting=1)


async def test_a_loop_over_a_lost_delivery_takes_no_other_job(at: At) -> None:
    queue, flaky = at.flaky(ttl=30)
    await queue.put_many(["a", "b"])
    loop = queue.consume(timeout=5)
    job = await anext(loop)
    job._lease.deadline = 0.0
    with pytest.raises(LockLost):
        await anext(loop)
    assert flaky.calls["take"] == 1


@pytest.mark.parametrize("named", [True, False])
async def test_a_job_whose_last_lease_has_ended_can_be_retried(at: At, named: bool) -> None:
    queue = at.queue(ttl=30, max_attempts=1)
    job = await at.taken(queue)
    at.pass_(60)
    assert await queue.retry_dead([job.id] if named else None) == 1
    assert (await at.queue().take(timeout=5)).attempt == 1


async def test_a_loop_that_does_not_wait_sends_one_take_for_each_job_and_one_more(at: At) -> None:
    queue, flaky = at.flaky(ttl=60)
    await queue.put_many(["a", "b"], group="g")
    assert [job.payload async for job in queue.consume(timeout=0)] == ["a", "b"]
    assert (flaky.calls["take"], flaky.calls["settle"]) == (3, 2)
    # And one take is repeated for a moment if its reply is lost
    await queue.put("c")
    flaky.lost["take"] = 1
    assert (await queue.take(timeout=0)).payload == "c"


async def test_a_purge_of_dead_letters_by_id_removes_no_others(at: At) -> None:
    queue = at.queue(max_attempts=1)
    await queue.put_many([{"payload": n, "id": f"{n}"} for n in range(3)])
    for number in range(3):
        assert await (await queue.take(timeout=5)).dead_letter(f"{number}")
    await queue.put("x", id="x")
    assert await queue.purge("dead", ids=["0", "x"]) == 1
    assert [one.id for one in await queue.jobs()] == ["1", "2", "x"]
    assert await queue.purge("dead") == 2
    assert [one.id for one in await queue.jobs()] == ["x"]
