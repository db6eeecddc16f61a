"""Workers: a worker continues after any fault of its handler, and the attempt counts."""

from __future__ import annotations

from typing import Any

from ....errors import ConfigError
from ...faces import now
from ..arena import Arena, raises
from ..misdeeds import misdeeds, wrong_kinds
from ..registry import case
from ..struck import queues_of

#: A queue counts as idle after this number of seconds without a change of its numbers.
STILL_S = 4.0


def bare(queue: Any) -> Any:
    """Return the real queue without its ``Twin``, so that its worker gets the handler unchanged."""
    return getattr(queue, "_thing", queue)


async def run(at: Arena, worker: Any) -> None:
    """Run a worker of either face."""
    found = worker.run()
    if at.face.name == "aio":
        await found


async def settled(at: Arena, queue: Any, dead: int, done: int) -> Any:
    """Wait until ``dead`` and ``done`` are as given, or the queue is idle; return its numbers."""
    last, since, record = None, now(), await queue.stats()
    while now() - since < STILL_S:
        record = await queue.stats()
        if (record.dead, record.done) == (dead, done):
            break
        seen = (record.waiting, record.taken, record.dead, record.done)
        if seen != last:
            last, since = seen, now()
        await at.sleep(0.02)
    return record


@case("queue")
async def whatever_a_handler_does_the_worker_continues_and_the_attempt_counts(at: Arena) -> None:
    queue = at.queue(max_attempts=2, retry_delay=0, retry_delay_max=0)
    deeds = misdeeds(at.face.name == "aio")
    await queue.put_many([{"payload": name, "group": name} for name in deeds])
    await queue.put_many([{"payload": "work", "group": f"{n}"} for n in range(10)])
    calls: list[tuple[str, int]] = []

    def handle(job: Any) -> Any:
        calls.append((job.payload, job.attempt))
        return None if job.payload == "work" else deeds[job.payload](job)

    worker = bare(queue).worker(handle, concurrency=3)
    running = at.start(lambda: run(at, worker))
    try:
        record = await settled(at, queue, len(deeds), 10)
        assert not running.finished, f"the worker ended: {await running.result()}, {record}"
        await queue.put("work")  # the worker still takes jobs
        await settled(at, queue, len(deeds), 11)
    finally:
        worker.stop()
    await running.result()
    record = await queue.stats()
    assert (record.waiting, record.taken, record.dead, record.done) == (0, 0, len(deeds), 11)
    expected = sorted([(name, n) for name in deeds for n in (1, 2)] + [("work", 1)] * 11)
    assert sorted(calls) == expected
    assert (worker.done, worker.failed) == (11, 2 * len(deeds))
    letters = await queue.jobs("dead", limit=1000)
    assert {one.group for one in letters} == set(deeds)
    unsaid = [one.group for one in letters if one.attempts != 2 or not one.reason]
    assert not unsaid


@case("queue")
async def a_handler_of_the_wrong_kind_is_refused_at_once(at: Arena) -> None:
    queue = at.queue()
    await queue.put("x")
    for name, handler in wrong_kinds(at.face.name == "aio").items():
        try:
            worker = bare(queue).worker(handler, drain=True)
        except ConfigError:
            continue
        raise AssertionError(f"{name} was taken for a handler: {worker}")
    record = await queue.stats()
    assert (record.waiting, record.done) == (1, 0)
    assert await queue.purge() == 1


@case("queue")
async def a_handler_that_hangs_delays_only_its_group(at: Arena) -> None:
    queue = at.queue()
    await queue.put_many(["hangs", "behind"], group="a")
    await queue.put_many(["other"] * 5, group="b")
    go = at.flag()

    async def handle(job: Any) -> None:
        if job.payload == "hangs":
            await go.wait(30.0)

    worker = queue.worker(handle, concurrency=2)
    running = at.start(worker.run)
    for _ in range(500):
        if (await queue.stats()).done == 5:
            break
        await at.sleep(0.02)
    record = await queue.stats()
    assert (record.done, record.taken, record.waiting) == (5, 1, 1)
    worker.stop()
    assert not await worker.join(0.1)
    go.set()
    await running.result()
    assert await worker.join(5)
    assert (await queue.stats()).done == 6
    assert await queue.purge() == 1


@case("queue")
async def a_worker_names_the_reason_of_its_end(at: Arena) -> None:
    client = at.client()
    queue, struck = client.queue(at.name), queues_of(client)
    await queue.put("x")
    struck.odd["take"] = OSError("planted")
    worker = queue.worker(_nothing, concurrency=3)
    with raises(OSError, "planted"):
        await worker.run()
    struck.odd.clear()
    assert await queue.purge() == 1


@case("queue")
async def a_worker_that_was_asked_to_stop_takes_no_more(at: Arena) -> None:
    queue = at.queue()
    worker = queue.worker(_nothing, concurrency=2)
    running = at.start(worker.run)
    await at.sleep(0.3)
    worker.stop()
    await queue.put("late")
    await running.result()
    assert (await queue.stats()).waiting == 1
    assert await queue.purge() == 1


async def _nothing(job: Any) -> None:
    """Do nothing."""
