"""A worker: its stop, its drain, its work during an outage and next to other workers."""

from __future__ import annotations

import time
from typing import Any

import pytest

from holdfast import Client
from holdfast.core.queue import settling, silence, taking
from holdfast.core.queue.queue import QueueBase
from holdfast.testing.conformance.struck import FOREVER
from holdfast.testing.promise import promised
from tests.faced import At


async def test_a_worker_continues_after_an_outage_of_the_store(
    at: At, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "SILENCE_S", 0.1)
    monkeypatch.setattr(silence, "FIRST_S", 0.1)
    monkeypatch.setattr(silence, "AGAIN_S", 0.3)
    caplog.set_level("INFO", "holdfast")
    queue, flaky = at.flaky(ttl=30)
    flaky.down.update(take=FOREVER, settle=FOREVER, extend=FOREVER)
    seen = []

    async def handle(job: Any) -> None:
        seen.append(job.payload)

    def said(words: str) -> int:
        return sum(words in one.getMessage() for one in caplog.records)

    worker = queue.worker(handle, concurrency=2)
    running = at.start(worker.run)
    await at.queue().put_many([{"payload": n, "group": "g"} for n in range(3)])
    await at.until(lambda: said("keeps trying") == 2, "the worker has logged it, and repeats it")
    assert not running.finished
    flaky.down.clear()
    await at.stands(done=3, taken=0)
    worker.stop()
    await running.result()
    assert seen == [0, 1, 2]
    assert worker.done == 3
    assert said("answers again") == 1


async def test_a_job_that_arrives_after_the_stop_of_a_worker_is_released(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, inner = at.queue(ttl=30), QueueBase._take
    seen = []

    async def handle(job: Any) -> None:
        seen.append(job.payload)

    async def take(*given: Any) -> Any:  # it was under way when the signal came
        found = await inner(*given)
        worker.stop()
        return found

    worker = queue.worker(handle)
    await queue.put("x", group="g")
    with monkeypatch.context() as during:
        during.setattr(QueueBase, "_take", take)
        await at.start(worker.run).result()
    with promised("a worker that was asked to stop begins nothing"):
        assert seen == []
    again = await at.queue().take(timeout=5)
    assert again.attempt == 1
    assert await again.ack()


@pytest.mark.parametrize("ends_well", [True, False])
async def test_what_was_done_while_the_store_was_away_is_not_done_again(
    at: At, monkeypatch: pytest.MonkeyPatch, ends_well: bool
) -> None:
    monkeypatch.setattr(settling, "REQUEST_S", 0.05)  # the duration of a request to settle
    queue, flaky = at.flaky(ttl=30, max_attempts=1)
    await queue.put("a", group="g")
    seen = []

    async def handle(job: Any) -> None:
        seen.append(job.attempt)
        flaky.down["settle"] = 10
        if not ends_well:
            raise ValueError("planted")

    worker = queue.worker(handle)
    running = at.start(worker.run)
    await at.stands(taken=0, waiting=0, done=int(ends_well), dead=int(not ends_well))
    worker.stop()
    await running.result()
    assert seen == [1]
    assert flaky.down["settle"] == 0


async def test_stop_finishes_what_runs_and_takes_no_more(at: At) -> None:
    queue = at.queue()
    await queue.put_many([{"payload": n, "group": "g"} for n in range(3)])
    begun, go = at.flag(), at.flag()

    async def handle(job: Any) -> None:
        begun.set()
        await go.wait()

    worker = queue.worker(handle)
    running = at.start(worker.run)
    await begun.wait()
    worker.stop()
    worker.stop()
    assert not await worker.join(0.05)
    go.set()
    await running.result()
    assert await worker.join(5)
    record = await queue.stats()
    assert (record.done, record.waiting, record.taken) == (1, 2, 0)


async def test_a_handler_may_settle_by_itself(at: At) -> None:
    queue = at.queue(retry_delay=0, retry_delay_max=0)
    await queue.put_many(["dead", "back", "retry", "done"], group="g")
    seen: list[str] = []

    async def handle(job: Any) -> None:
        seen.append(f"{job.payload} {job.attempt}")
        if job.payload == "dead":
            await job.dead_letter("never")
        elif job.payload == "back" and len(seen) == 2:
            await job.release()
        elif seen[-1] == "retry 1":
            await job.retry(0)

    await queue.worker(handle, drain=True).run()
    assert seen == ["dead 1", "back 1", "back 1", "retry 1", "retry 2", "done 1"]
    assert [one.payload for one in await queue.jobs()] == [b"tdead"]


async def test_a_dead_worker_delays_only_its_group_by_the_lease(at: At) -> None:
    dying, queue = at.queue(ttl=60), at.queue()
    await queue.put_many([{"payload": f"{g}{n}", "group": g} for n in range(2) for g in "ab"])
    lost = await dying.take(timeout=5)
    assert lost.payload == "a0"
    lost._ctx.keeper.drop(lost._lease)
    assert [job.payload async for job in queue.consume(timeout=0)] == ["b0", "b1"]
    at.pass_(61)
    got = [(job.payload, job.attempt) async for job in queue.consume(timeout=0)]
    assert got == [("a0", 2), ("a1", 1)]
    assert not await lost.ack()


async def test_no_hot_group_and_no_ungrouped_jobs_starve_the_others(at: At) -> None:
    queue = at.queue()
    await queue.put_many(range(500), group="hot")
    await queue.put_many(range(500))
    await queue.put_many([{"payload": g, "group": f"quiet-{g}"} for g in range(20)])
    order = []
    async for job in queue.consume(timeout=0):
        order.append(job.group)
        if len(order) == 100:
            await job.ack()
            break
    last = max(place for place, group in enumerate(order) if (group or "").startswith("quiet"))
    assert sum((group or "").startswith("quiet") for group in order) == 20
    assert last < 50, order


def test_eight_workers_keep_order_and_never_two_in_a_group() -> None:
    inside: set[str] = set()
    order: dict[str, list[int]] = {}
    wrong: list[str] = []

    def handle(job: Any) -> None:
        if job.group in inside:
            wrong.append(f"two at once in {job.group}")
        inside.add(job.group)
        order.setdefault(job.group, []).append(job.payload)
        time.sleep(0)
        inside.discard(job.group)

    with Client("memory://eight-workers") as client, Client("memory://eight-workers") as other:
        queues = client.queue("q"), other.queue("q")
        queues[0].put_many([{"payload": n, "group": f"g{g}"} for n in range(40) for g in range(25)])
        one, two = (queue.worker(handle, concurrency=4) for queue in queues)
        with one, two:
            while queues[0].stats().done < 1000:
                time.sleep(0.01)
    with promised("one at a time in a group, and in order"):
        assert wrong == []
        assert order == {f"g{g}": list(range(40)) for g in range(25)}
    assert one.done + two.done == 1000


async def test_a_worker_reports_that_a_job_was_lost_during_its_work(
    at: At, caplog: pytest.LogCaptureFixture
) -> None:
    queue, jobs = at.queue(ttl=30), []

    async def handle(job: Any) -> None:
        jobs.append(job)
        at.pass_(60)
        assert await (await at.queue().take(timeout=5)).ack()
        worker.stop()

    worker = queue.worker(handle)
    await queue.put("a", group="g")
    await worker.run()
    assert not jobs[0].settled
    assert "the job is delivered again" in caplog.text
