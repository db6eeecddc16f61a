"""Serial queues whose store refuses to settle: no unsettled job is recorded as done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ....errors import ConfigError
from ..arena import KEPT_S, Arena, raises
from ..registry import case
from ..struck import queues_of

#: Pairs of the error that the store raises for a settle, and the call that sends the settle.
REFUSED: tuple[tuple[Exception, Callable[[Any, Any], Awaitable[Any]]], ...] = (
    (ConfigError("planted"), lambda queue, job: job.ack()),
    (OSError("planted"), lambda queue, job: job.ack()),
    (ConfigError("planted"), lambda queue, job: job.retry()),
    (ConfigError("planted"), lambda queue, job: queue.ack_many([job])),
)


@case("queue")
async def what_could_not_be_settled_is_renewed_and_may_be_settled_again(at: Arena) -> None:
    client = at.client()
    queue, struck = client.queue(at.name, ttl=KEPT_S), queues_of(client)
    for wrong, settle in REFUSED:
        await queue.put("x")
        job: Any = await queue.take(timeout=5)
        struck.odd["settle"] = wrong
        for _ in range(2):
            with raises(type(wrong), "planted"):
                await settle(queue, job)
            assert not job.settled
            assert job.lost is None
        await at.renewed(job)
        struck.odd.clear()
        assert await job.ack() is True
        assert job.settled
    assert (await queue.stats()).done == len(REFUSED)


@case("queue")
async def what_is_settled_answers_yes_to_the_verb_that_settled_it_and_to_no_other(
    at: Arena,
) -> None:
    client = at.client()
    queue, verbs = client.queue(at.name, ttl=KEPT_S), ("ack", "retry", "dead_letter", "release")
    for verb in verbs:
        await queue.put(verb)
        job: Any = await queue.take(timeout=5)
        first: Any = {"in_": 3600} if verb == "retry" else {}
        assert await getattr(job, verb)(**first) is True
        for other in verbs:
            assert await getattr(job, other)() is (other == verb), f"{other} after {verb}"
        assert await queue.ack_many([job]) == [verb == "ack"]
        assert job.settled
        if verb == "release":
            again: Any = await queue.take(timeout=5)
            assert await again.ack() is True
    assert (await queue.stats()).done == 2  # the job acked above, and the released job


async def _consumed(queue: Any, kept: list[Any]) -> None:
    async for job in queue.consume(timeout=5):
        kept[:] = [job]  # keeps the job alive after the loop, as a loop's variable does


async def _left(queue: Any, kept: list[Any]) -> None:
    async with await queue.take(timeout=5) as job:
        kept.append(job)


async def _failed(queue: Any, kept: list[Any]) -> None:
    async with await queue.take(timeout=5) as job:
        kept.append(job)
        raise ConfigError("planted")


async def _worked(queue: Any, kept: list[Any]) -> None:
    async def note(job: Any) -> None:
        kept.append(job)

    await queue.worker(note).run()


@case("queue")
async def what_a_loop_or_a_body_could_not_settle_comes_again(at: Arena) -> None:
    for number, work in enumerate((_consumed, _left, _failed, _worked)):
        client, name = at.client(), at.fresh(f"{number}")
        queue, struck = client.queue(name, ttl=KEPT_S), queues_of(client)
        kept: list[Any] = []
        await queue.put("x", group="g")
        struck.odd["settle"] = ConfigError("planted")
        with raises(ConfigError, "planted"):
            await work(queue, kept)
        (job,) = kept
        assert not job.settled
        assert job.lost is not None
        again = await at.others.queue(name).take(timeout=10 * KEPT_S)
        assert again is not None, "it is renewed, though no worker can settle it"
        assert (again.id, again.attempt) == (job.id, 2)
        assert await again.ack()
