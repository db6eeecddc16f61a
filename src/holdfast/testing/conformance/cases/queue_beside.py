"""Several threads settle one delivery at the same time: one succeeds, the others see no loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.policy import REQUEST_S
from ....errors import LockLost
from ...promise import promised
from ..arena import Arena, raises
from ..registry import case
from ..struck import Overlaid, Struck, queues_of


def _meeting(at: Arena, struck: Struck, job: Any, first: bool) -> Callable[[], int]:
    """Make the next two settles of this job overlap; return a function that counts the settles.

    The store handles both settles before either gets its reply. With ``first``, the settle that
    succeeded gets its reply first; otherwise the settle that found nothing gets its reply first.
    """
    inner = struck.verbs
    arrived: list[bool] = []
    out: list[bool] = []

    async def meet(answer: bool) -> None:
        arrived.append(answer)
        await at.until(lambda: len(arrived) >= 2)
        if answer is not first:
            await at.until((lambda: job.settled) if first else (lambda: out))
            await at.sleep(0.02)
        out.append(answer)

    async def settle(settles: Any, within: float) -> Any:
        answers = await inner.settle(settles, within)
        await meet(answers[0])
        return answers

    async def settle_and_take(settles: Any, take: Any, within: float) -> Any:
        answers, taken = await inner.settle_and_take(settles, take, within)
        await meet(answers[0])
        return answers, taken

    others: dict[str, Callable[..., Any]] = {"settle": settle}
    if hasattr(inner, "settle_and_take"):
        others["settle_and_take"] = settle_and_take
    struck.verbs = Overlaid(inner, **others)
    return lambda: len(arrived)


def _of_a_client(at: Arena) -> tuple[Any, Struck]:
    """Return the queue of a separate client, and the verbs that this client sends."""
    at.queue()  # a store without queues refuses here
    client = at.client()
    struck = queues_of(client)
    return client.queue(at.name), struck


async def _taken(at: Arena, first: bool) -> tuple[Any, Any, Callable[[], int]]:
    """Return a queue, the delivery of its one job, and a function that counts its settles."""
    queue, struck = _of_a_client(at)
    await queue.put("work", group=f"g{first}")
    job = await queue.take(timeout=5)
    assert job is not None
    return queue, job, _meeting(at, struck, job, first)


async def _done(at: Arena, job: Any) -> None:
    with promised("a job that was settled by one of two is not called lost"):
        assert (job.settled, job.lost) == (True, None)
    assert await at.queue().jobs("taken") == []


@case("queue")
async def two_acks_at_once_both_say_that_it_is_done(at: Arena) -> None:
    for first in (True, False):
        _, job, _ = await _taken(at, first)
        both = [at.start(job.ack) for _ in range(2)]
        assert [await one.result() for one in both] == [True, True]
        await _done(at, job)
        assert await job.ack()


@case("queue")
async def of_an_ack_and_a_retry_at_once_one_counts(at: Arena) -> None:
    for first in (True, False):
        queue, job, _ = await _taken(at, first)
        both = at.start(job.ack), at.start(job.retry, 0)
        acked, again = [await one.result() for one in both]
        with promised("one of two verbs counts"):
            assert acked is not again
        await _done(at, job)
        assert (await job.ack(), await job.retry()) == (acked, again)
        if again:
            assert await queue.purge() == 1


@case("queue")
async def an_ack_under_way_at_the_end_of_a_body_is_no_loss(at: Arena) -> None:
    for first in (True, False):
        _, job, arrived = await _taken(at, first)
        async with job:
            under_way = at.start(job.ack)
            await at.until(arrived)
        assert await under_way.result() is True
        await _done(at, job)


@case("queue")
async def an_ack_under_way_as_a_loop_asks_for_the_next_job_is_no_loss(at: Arena) -> None:
    for first in (True, False):
        queue, struck = _of_a_client(at)
        await queue.put("work", group=f"g{first}")
        done: list[tuple[Any, Any]] = []
        async for job in queue.consume(timeout=0.5):
            arrived = _meeting(at, struck, job, first)
            under_way = at.start(job.ack)
            await at.until(arrived)
            done.append((job, under_way))
        ((job, under_way),) = done
        assert await under_way.result() is True
        await _done(at, job)


@case("queue")
async def many_acked_together_with_one_of_them_are_all_done(at: Arena) -> None:
    for first in (True, False):
        queue, job, _ = await _taken(at, first)
        both = at.start(queue.ack_many, [job]), at.start(job.ack)
        assert [await one.result() for one in both] == [[True], True]
        await _done(at, job)


@case("queue")
async def a_body_that_fails_during_an_ack_is_not_called_lost(at: Arena) -> None:
    for first in (True, False):
        queue, job, arrived = await _taken(at, first)

        under_way = []
        with raises(ValueError):
            async with job:
                under_way.append(at.start(job.ack))
                await at.until(arrived)
                raise ValueError("the body fails")
        assert await under_way[0].result() is True
        await _done(at, job)
        assert await queue.jobs() == []


@case("queue")
async def of_two_acks_of_a_job_that_is_lost_none_counts(at: Arena) -> None:
    _, job, _ = await _taken(at, False)
    ours = job._ack_request()
    job._lease.take = job._lease.take._replace(id="0" * 32)  # as if another worker held it
    both = [at.start(job.ack) for _ in range(2)]
    with promised("no ack of another worker's job counts"):
        assert [await one.result() for one in both] == [False, False]
    assert job.lost is not None
    assert not job.settled
    with raises(LockLost):
        job.check()
    assert await job._ctx.store.queues.settle([ours], REQUEST_S) == [True]
