"""Serial queues that an operator repairs by hand, while other clients work on them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, cast

from ....core.policy import REQUEST_S
from ....core.queue import mending
from ....core.queue.model import Pace, Patience, Settle, Take, Verdict
from ..arena import Arena
from ..registry import case
from ..struck import Overlaid, queues_of

if TYPE_CHECKING:
    from ....core.queue.ports import Queues

#: A lease that doesn't expire even on a busy machine, seconds.
LEASE_S = 60.0


@case("queue")
async def what_dies_again_while_dead_letters_are_revived_is_not_revived_again(at: Arena) -> None:
    queue, struck = at.queue(), queues_of(at.client())
    await queue.put_many([{"payload": n, "group": f"g{n % 20}"} for n in range(40)])
    await queue.put_many(range(100))

    async def bury(most: int) -> int:
        """Take up to ``most`` jobs and make them dead letters, by two requests in all."""
        take = Take(at.name, uuid.uuid4().hex, most, LEASE_S, "host:1:kit", Pace(), Patience())
        jobs = (await struck.verbs.take(take, REQUEST_S)).deliveries
        wanted = [Settle(at.name, j.group, j.seq, take.id, Verdict.DEAD, reason="no") for j in jobs]
        for answer in await struck.verbs.settle(wanted, REQUEST_S):
            assert answer is True
        return len(jobs)

    while await bury(100):
        pass
    assert (await queue.stats()).dead == 140
    again = 0
    revive = struck.verbs.revive

    async def beside(*given: object) -> object:
        nonlocal again
        found = await revive(*given)
        assert again < 500, "it never ends"
        again += await bury(100)
        return found

    struck.verbs = Overlaid(struck.verbs, revive=beside)
    assert await mending.revive(cast("Queues", struck), at.name, None, batch=100) == 140
    record = await queue.stats()
    assert again > 0
    assert (record.dead, record.waiting) == (again, 140 - again)
    assert await queue.purge() == 140


@case("queue")
async def a_purge_during_puts_comes_to_an_end(at: Arena) -> None:
    queue, client = at.queue(), at.client()
    other, struck = client.queue(at.name), queues_of(client)
    await queue.put_many(range(10))
    purge = struck.verbs.purge
    rounds = 0

    async def beside(*given: object) -> object:
        nonlocal rounds
        found = await purge(*given)
        rounds += 1
        assert rounds < 5, "it never ends"
        await queue.put_many(range(10))
        return found

    struck.verbs = Overlaid(struck.verbs, purge=beside)
    assert await other.purge() == 10
    assert await queue.purge() == 10


@case("queue")
async def a_purge_of_one_state_removes_no_more_than_stood_so(at: Arena) -> None:
    # Given five waiting jobs, five deliveries and five dead letters, and a client that adds more
    queue, client = at.queue(), at.client()
    other, struck = client.queue(at.name), queues_of(client)
    purge = struck.verbs.purge

    async def bury() -> None:
        for job in await queue.take_many(5, timeout=5):
            assert await job.dead_letter("never")

    async def beside(*given: object) -> object:
        found = await purge(*given)
        await queue.put_many(range(10))
        await bury()
        return found

    await queue.put_many(range(15))
    await bury()
    loans = await queue.take_many(5, timeout=5)
    struck.verbs = Overlaid(struck.verbs, purge=beside)
    # When the jobs of one state are removed
    assert await other.purge("waiting") == 5
    record = await queue.stats()
    assert (record.waiting, record.taken, record.dead) == (5, 5, 10)
    assert await other.purge("dead") == 10
    # Then the jobs that were added during the purge and the jobs in delivery are left
    record = await queue.stats()
    assert (record.waiting, record.taken, record.dead) == (10, 5, 5)
    assert await queue.ack_many(loans) == [True] * 5
    assert await queue.purge() == 15


@case("queue")
async def a_group_that_a_dead_letter_holds_back_is_seen_to_wait(at: Arena) -> None:
    queue = at.queue(on_dead="block")
    await queue.put_many(["bad", "behind"], group="g")
    job = await queue.take(timeout=5)
    assert job is not None
    assert await job.dead_letter("never")
    await at.sleep(0.3)
    record = await queue.stats()
    assert (record.waiting, record.dead) == (1, 1)
    assert record.oldest >= 0.3 - 0.01
    assert await queue.purge() == 2


@case("queue")
async def a_purge_leaves_what_is_put_before_its_first_request(at: Arena) -> None:
    # Given grouped and ungrouped jobs, and a client that puts more jobs after the purge has counted
    # the jobs
    queue, client = at.queue(), at.client()
    other, struck = client.queue(at.name), queues_of(client)
    survey = struck.verbs.survey

    async def then_puts(*given: object, **more: object) -> object:
        found = await survey(*given, **more)
        await queue.put_many([{"payload": "new", "group": "ba"[n % 2]} for n in range(20)])
        await queue.put_many(["new"] * 480)
        return found

    for state in ("waiting", None):
        await queue.put_many([{"payload": "old", "group": "abc"[n]} for n in range(3)])
        await queue.put_many(["old"] * 2)
        # When the jobs are purged
        struck.verbs = Overlaid(struck.verbs, survey=then_puts)
        assert await other.purge(state) == 5
        # Then all jobs that were put after the count are left
        left = await queue.jobs(limit=1000)
        assert [job.payload[-3:] for job in left] == [b"new"] * 500
        struck.verbs = Overlaid(struck.verbs, survey=survey)
        assert await queue.purge() == 500
