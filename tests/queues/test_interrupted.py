"""An interrupt of a take or a settle, at any point: no job is lost, none stays delivered."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import signal
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from holdfast import Client
from holdfast.core.queue.ports import queues_of
from holdfast.stores.memory import blocking as memory
from holdfast.testing.promise import promised
from tests.faced import At, Flaky
from tests.torture.scale import times

#: Upper bound for the awaits of a take or settle.
STEPS = 60


async def struck(work: Awaitable[Any], step: int) -> tuple[bool, Any]:
    """Cancel a task at its step number ``step``.

    Return whether the task ended before that, and its result.
    """
    task = asyncio.ensure_future(work)
    for _ in range(step):
        await asyncio.sleep(0)
    task.cancel()
    try:
        return True, await task
    except asyncio.CancelledError:
        return False, None


def afresh(aio: At) -> tuple[Any, Flaky]:
    """Return a queue in another store, whose requests pause."""
    aio.space += "'"
    queue, flaky = aio.flaky(ttl=30)
    flaky.pauses = True
    return queue, flaky


async def test_a_take_that_is_cancelled_at_any_await_leaves_the_job_where_it_was(aio: At) -> None:
    queue, flaky = afresh(aio)
    await queue.put("a", group="g")
    for step in range(STEPS):
        ended, job = await struck(queue.take(timeout=5), step)
        if ended:
            assert step > 1
            assert (job.payload, job.attempt) == ("a", 1)
            assert await job.ack()
            break
        await aio.stands(taken=0, waiting=1)
    else:
        raise AssertionError("it never ended by itself")
    assert flaky.calls["give_back"] >= 2


async def test_a_cancellation_during_the_undo_of_an_empty_take_is_raised(aio: At) -> None:
    # Given a take with a lost first reply that finds nothing: a copy can still be under way
    queue, flaky = afresh(aio)
    flaky.lost["take"] = 1
    task = asyncio.ensure_future(queue.take(timeout=0.3))
    # When it is cancelled during its give_back, then the cancellation is raised
    flaky.arrived = lambda verbs: task.cancel() if "give_back" in verbs else None
    with pytest.raises(asyncio.CancelledError):
        await task
    assert flaky.calls["give_back"] >= 1


async def test_ctrl_c_during_the_undo_of_an_empty_take_is_not_swallowed(sync: At) -> None:
    queue, flaky = sync.flaky(ttl=30)
    flaky.lost["take"] = 1

    def strike(verbs: Any) -> None:
        if "give_back" in verbs and flaky.calls["give_back"] == 1:
            raise KeyboardInterrupt

    flaky.arrived = strike
    with pytest.raises(KeyboardInterrupt):
        await queue.take(timeout=0.3)
    # And the renewer repeats the give_back
    await sync.until(lambda: flaky.calls["give_back"] >= 2, "it is released")


async def test_a_take_that_is_cancelled_while_it_waits_leaves_the_list(aio: At) -> None:
    queue = aio.queue()
    task = asyncio.ensure_future(queue.take(timeout=30))
    await asyncio.sleep(0.05)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    # Otherwise the only wake-up for a job would go to this take
    assert not memory.space(aio.space).queues["q"].idle
    # And the client keeps no state of the take
    assert not queues_of(queue._ctx.store)._boxes  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["ack", "retry", "dead_letter", "release"])
async def test_a_settle_that_is_cancelled_at_any_await_is_carried_out(aio: At, how: str) -> None:
    stands = {
        "ack": {"done": 1, "waiting": 0, "dead": 0},
        "retry": {"done": 0, "waiting": 1, "dead": 0},
        "dead_letter": {"done": 0, "waiting": 0, "dead": 1},
        "release": {"done": 0, "waiting": 1, "dead": 0},
    }[how]
    for step in range(1, STEPS):
        queue, _ = afresh(aio)
        job = await aio.taken(queue)
        ended, kept = await struck(getattr(job, how)(), step)
        await aio.stands(taken=0, **stands)
        if ended:
            assert kept
            break
    else:
        raise AssertionError("it never ended by itself")


async def test_a_loop_that_is_cancelled_between_two_jobs_has_done_one_and_not_the_other(
    aio: At,
) -> None:
    for step in range(1, STEPS):
        queue, _ = afresh(aio)
        await queue.put_many(["a", "b"], group="g")
        loop = queue.consume(timeout=5)
        assert (await anext(loop)).payload == "a"
        ended, job = await struck(anext(loop), step)
        if ended:
            assert job.payload == "b"
            await loop.aclose()
            break
        # The ack is carried out, and the job that came with its reply is released as if never taken
        await aio.stands(done=1, taken=0, waiting=1)
        assert [one.attempts for one in await queue.jobs()] == [0]
    else:
        raise AssertionError("it never ended by itself")
    assert step > 1


async def test_a_worker_that_is_cancelled_between_two_jobs_has_done_one_and_not_the_other(
    aio: At,
) -> None:
    for step in range(STEPS):
        queue, flaky = afresh(aio)
        await queue.put_many(["a", "b"], group="g")
        over = asyncio.Event()

        async def handle(job: Any, over: asyncio.Event = over) -> None:
            if over.is_set():
                await asyncio.sleep(30)
            over.set()

        task = asyncio.ensure_future(queue.worker(handle).run())
        await over.wait()
        cancelled, _ = await struck(task, step)
        assert not cancelled
        await aio.stands(done=1, taken=0, waiting=1)
        assert [one.attempts for one in await queue.jobs()] == [0]
        if flaky.calls["take"] >= 2 and step > 20:
            break


async def test_a_body_that_is_cancelled_returns_its_job_and_one_that_fails_does_not(
    aio: At,
) -> None:
    queue = aio.queue(retry_delay=0, retry_delay_max=0)
    await queue.put("a", group="g")

    async def body(failure: Exception | None) -> None:
        async with await queue.take(timeout=5):
            if failure is not None:
                raise failure
            await asyncio.sleep(30)

    task = asyncio.ensure_future(body(None))
    await aio.stands(taken=1)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert [one.attempts for one in await queue.jobs("waiting")] == [0]
    with pytest.raises(ValueError, match="bad"):
        await body(ValueError("bad"))
    (one,) = await queue.jobs("waiting")
    assert (one.attempts, one.reason) == (1, "ValueError: bad")


async def test_a_put_that_is_cancelled_is_accepted_once_or_not(aio: At) -> None:
    queue, flaky = afresh(aio)
    seen = set()
    for step in range(STEPS):
        ended, _ = await struck(queue.put(step, id=str(step)), step)
        again = await queue.put(step, id=str(step))
        seen.add(again.duplicate)
        assert (await queue.stats()).accepted == step + 1
        if ended:
            break
    assert seen == {False, True}
    # A producer that was given up is not used again
    late = [await copy() for name, copy in flaky.sent[:2] if name == "put"]
    assert all(isinstance(one, list) for one in late)


async def test_a_worker_that_is_cancelled_returns_what_it_works_on(aio: At) -> None:
    queue = aio.queue()
    await queue.put_many([{"payload": n, "group": str(n)} for n in range(4)])

    async def handle(job: Any) -> None:
        await asyncio.sleep(60)

    task = asyncio.ensure_future(queue.worker(handle, concurrency=3).run())
    await aio.stands(taken=3)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await aio.stands(taken=0, waiting=4)
    assert [one.attempts for one in await queue.jobs()] == [0] * 4


def _taken(queue: Any) -> Iterator[Any]:
    job = queue.take(timeout=5)
    if job is not None:
        yield job
        job.ack()


def _consumed(queue: Any) -> Iterator[Any]:
    yield from queue.consume(timeout=0)  # one request acks a job and takes the next


@pytest.mark.parametrize(
    "work, jobs, tries, met",
    [(_taken, 1, times(1000, 150), 0.25), (_consumed, 2, times(1000, 60), 0.1)],
)
# An interrupt between making a coroutine and its first step does nothing, so nothing is lost.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
# An interrupt in a finalizer is only reported.
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_anywhere_loses_no_job_and_doubles_none(
    work: Callable[[Any], Iterator[Any]], jobs: int, tries: int, met: float
) -> None:
    """Send real signals at random moments of put, take and settle, on the face for threads."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance, interrupted = random.Random(seed), 0

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    space = f"memory://ctrl-c-{seed}"
    try:
        with Client(space) as look, Client(space) as client, warnings.catch_warnings():
            # A delivery is forgotten if the interrupt comes between take and its first use.
            warnings.simplefilter("ignore", ResourceWarning)
            watch = look.queue("q")
            # The ttl is the delay after an interrupt at the worst moment
            queue = client.queue("q", ttl=0.1, retry_delay=0.0, retry_delay_max=0.0)
            for number in range(tries):
                expected = [f"{number}-{part}" for part in range(jobs)]
                watch.put_many(expected, group="g")
                seen: list[Any] = []
                job = None
                try:
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 1.5e-3))
                    for job in work(queue):
                        seen += [job.payload]
                    time.sleep(0.002)
                except KeyboardInterrupt:
                    interrupted += 1
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                job = None
                # Then it is done, or is delivered again; and it is delivered in its order
                while (record := watch.stats()).waiting or record.taken:
                    gc.collect()  # a traceback can keep the interrupted object
                    again = watch.take(timeout=0.2)
                    if again is not None:
                        seen.append(again.payload)
                        assert again.ack()
                with promised("each job is executed, in order, and none is lost or doubled"):
                    assert list(dict.fromkeys(seen)) == expected, seen
                    assert record.done == jobs * (number + 1), record
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupted > tries * met
