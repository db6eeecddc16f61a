"""A worker: its stop, its drain, its work during an outage and next to other workers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client
from holdfast.core.queue import settling, silence, taking
from holdfast.core.queue.queue import QueueBase
from holdfast.testing.promise import promised
from tests.queues.conftest import At, Case

Run = Callable[[Case], None]


def test_a_worker_continues_after_an_outage_of_the_store(
    run: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "SILENCE_S", 0.1)
    monkeypatch.setattr(silence, "FIRST_S", 0.1)
    monkeypatch.setattr(silence, "AGAIN_S", 0.3)
    caplog.set_level("INFO", "holdfast")

    async def case(at: At) -> None:
        queue, flaky = at.flaky(ttl=30)
        for verb in ("take", "settle", "extend"):
            flaky.down[verb] = 10**9
        seen = []

        async def handle(job: Any) -> None:
            seen.append(job.payload)

        worker = queue.worker(handle, concurrency=2)
        running = at.start(worker.run)
        await at.queue().put_many([{"payload": n, "group": "g"} for n in range(3)])

        async def said() -> bool:
            return sum("keeps trying" in one.getMessage() for one in caplog.records) == 2

        await at.until(said, "the worker has said it, and repeats it")
        assert not running.finished
        flaky.down.clear()
        await at.stands(done=3, taken=0)
        worker.stop()
        await running.result()
        assert seen == [0, 1, 2]
        assert worker.done == 3
        assert sum("answers again" in one.getMessage() for one in caplog.records) == 1

    run(case)


def test_a_job_that_arrives_after_the_stop_of_a_worker_is_released(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def case(at: At) -> None:
        queue, _ = at.flaky(ttl=30)
        seen = []

        async def handle(job: Any) -> None:
            seen.append(job.payload)

        worker = queue.worker(handle)
        inner = QueueBase._take

        async def take(*given: Any) -> Any:  # it was under way when the signal came
            found = await inner(*given)
            worker.stop()
            return found

        await at.queue().put("x", group="g")
        with monkeypatch.context() as during:
            during.setattr(QueueBase, "_take", take)
            await at.start(worker.run).result()
        with promised("a worker that was told to stop begins nothing"):
            assert seen == []
        await at.stands(waiting=1, taken=0, done=0)
        again = await at.queue().take(timeout=0)
        assert again is not None
        assert again.attempt == 1
        assert await again.ack()

    run(case)


@pytest.mark.parametrize("ends_well", [True, False])
def test_what_was_done_while_the_store_was_away_is_not_done_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, ends_well: bool
) -> None:
    monkeypatch.setattr(settling, "REQUEST_S", 0.05)  # a request to settle goes on for so long

    async def case(at: At) -> None:
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

    run(case)


def test_stop_finishes_what_runs_and_takes_no_more(run: Run) -> None:
    async def case(at: At) -> None:
        queue = at.queue()
        await queue.put_many([{"payload": n, "group": "g"} for n in range(3)])
        begun, go = at.face.flag(), at.face.flag()

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

    run(case)


def test_drain_ends_when_nothing_is_due(run: Run) -> None:
    async def case(at: At) -> None:
        queue = at.queue()
        await queue.put_many([{"payload": n, "group": str(n % 3)} for n in range(30)])
        await queue.put("late", delay=60)

        async def handle(job: Any) -> None:
            await at.face.sleep(0.001)

        worker = queue.worker(handle, concurrency=4, drain=True)
        await worker.run()
        record = await queue.stats()
        assert (record.done, record.waiting, worker.done) == (30, 1, 30)

    run(case)


def test_a_handler_may_settle_by_itself(run: Run) -> None:
    async def case(at: At) -> None:
        queue = at.queue(retry_delay=0, retry_delay_max=0)
        await queue.put_many(["dead", "back", "retry", "done"], group="g")
        seen: list[tuple[str, int]] = []

        async def handle(job: Any) -> None:
            seen.append((job.payload, job.attempt))
            if job.payload == "dead":
                await job.dead_letter("never")
            elif job.payload == "back" and len(seen) == 2:
                await job.release()
            elif job.payload == "retry" and job.attempt == 1:
                await job.retry(0)

        await queue.worker(handle, drain=True).run()
        assert seen == [
            ("dead", 1),
            ("back", 1),
            ("back", 1),
            ("retry", 1),
            ("retry", 2),
            ("done", 1),
        ]
        assert [one.payload for one in await queue.jobs()] == [b"tdead"]

    run(case)


def test_a_dead_worker_delays_only_its_group_by_the_lease(run: Run) -> None:
    async def case(at: At) -> None:
        dying, queue = at.queue(ttl=60), at.queue()
        await queue.put_many([{"payload": f"{g}{n}", "group": g} for n in range(2) for g in "ab"])
        lost = await dying.take(timeout=5)
        assert lost.payload == "a0"
        lost._ctx.keeper.drop(lost._lease)
        got = [job.payload async for job in queue.consume(timeout=0)]
        assert got == ["b0", "b1"]
        at.pass_(61)
        got = [(job.payload, job.attempt) async for job in queue.consume(timeout=0)]
        assert got == [("a0", 2), ("a1", 1)]
        assert not await lost.ack()

    run(case)


def test_no_hot_group_and_no_ungrouped_jobs_starve_the_others(run: Run) -> None:
    async def case(at: At) -> None:
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

    run(case)


def test_eight_workers_keep_order_and_never_two_in_a_group() -> None:
    inside: dict[str, int] = {}
    order: dict[str, list[int]] = {}
    wrong: list[str] = []
    guard = threading.Lock()

    def handle(job: Any) -> None:
        with guard:
            if inside.get(job.group):
                wrong.append(f"two at once in {job.group}")
            inside[job.group] = 1
            order.setdefault(job.group, []).append(job.payload)
        with guard:
            inside[job.group] = 0

    with Client("memory://eight-workers") as client, Client("memory://eight-workers") as other:
        client.queue("q").put_many(
            [{"payload": n, "group": f"g{g}"} for n in range(40) for g in range(25)]
        )
        with (
            client.queue("q").worker(handle, concurrency=4) as one,
            other.queue("q").worker(handle, concurrency=4) as two,
        ):
            while client.queue("q").stats().done < 1000:
                threading.Event().wait(0.01)
    with promised("one at a time in a group, and in order"):
        assert wrong == []
        assert order == {f"g{g}": list(range(40)) for g in range(25)}
    assert one.done + two.done == 1000
