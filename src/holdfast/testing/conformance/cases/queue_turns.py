"""The due time of a job of a serial queue, and the order in which groups are served."""

from __future__ import annotations

from ..arena import KEPT_S, Arena
from ..registry import case
from ..struck import queues_of


@case("queue")
async def an_id_is_free_again_after_its_window(at: Arena) -> None:
    queue = at.queue(dedup_window=0.2)
    assert not (await queue.put("first", id="a")).duplicate
    await at.sleep(0.4)
    assert (await queue.put("still there", id="a")).duplicate
    job = await queue.take(timeout=5)
    assert job is not None
    assert await job.ack()
    assert not (await queue.put("again", id="a")).duplicate


@case("queue")
async def a_delayed_job_comes_later_and_holds_back_its_group(at: Arena) -> None:
    queue = at.queue()
    await queue.put("late", group="g", delay=KEPT_S)
    await queue.put("behind", group="g")
    await queue.put("other", group="h")
    first = await queue.take(timeout=5)
    assert first is not None
    assert first.payload == "other"
    assert await first.ack()
    assert await queue.take(timeout=0) is None
    for expected in ("late", "behind"):
        job = await queue.take(timeout=5)
        assert job is not None
        assert job.payload == expected
        assert job.age >= (KEPT_S - 0.01 if expected == "late" else 0)
        assert await job.ack()


@case("queue")
async def the_interval_counts_from_the_end_of_the_last_execution(at: Arena) -> None:
    queue, other = at.queue(min_interval=KEPT_S), at.rival_queue(min_interval=KEPT_S)
    await queue.put_many([1, 2], group="g")
    first = await queue.take(timeout=5)
    assert first is not None
    await at.sleep(0.3)
    assert await first.ack()
    assert await other.take(timeout=0.2) is None
    second = await other.take(timeout=5)
    assert second is not None
    assert second.age >= 0.3 + KEPT_S - 0.01
    assert await second.ack()


@case("queue")
async def the_interval_may_count_from_the_take(at: Arena) -> None:
    queue = at.queue(min_interval=KEPT_S, interval_from="take")
    await queue.put_many([1, 2], group="g")
    first = await queue.take(timeout=5)
    assert first is not None
    await at.sleep(KEPT_S + 0.1)
    assert await first.ack()
    second = await queue.take(timeout=0)
    assert second is not None
    assert await second.ack()
    await queue.put(3, group="g")
    assert await queue.take(timeout=0.1) is None
    third = await queue.take(timeout=5)
    assert third is not None
    assert await third.ack()


@case("queue")
async def a_rate_holds_for_the_whole_queue(at: Arena) -> None:
    queue, other = at.queue(rate=1 / KEPT_S), at.rival_queue(rate=1 / KEPT_S)
    await queue.put_many(range(3))
    (first,) = await queue.take_many(3, timeout=5)
    assert await other.take(timeout=0) is None
    assert await first.ack()
    got = []
    for one in (other, queue):
        job = await one.take(timeout=5)
        assert job is not None
        got.append(job.age)
        assert await job.ack()
    assert got[-1] >= 2 * KEPT_S - 0.05


@case("queue")
async def a_busy_group_does_not_starve_the_others(at: Arena) -> None:
    queue = at.queue()
    await queue.put_many(["hot"] * 20, group="hot")
    await queue.put("quiet", group="quiet")
    seen = []
    # The group that has waited longest is first, except on a cluster, where takes ask one shard
    # after another
    for _ in range(3):
        job = await queue.take(timeout=5)
        assert job is not None
        seen.append(job.payload)
        assert await job.ack()
    assert "quiet" in seen


@case("queue")
async def neither_groups_nor_ungrouped_jobs_starve(at: Arena) -> None:
    queue = at.queue()
    await queue.put_many(["plain"] * 10)
    await queue.put_many(["grouped"] * 10, group="g")
    seen = []
    for _ in range(6):
        job = await queue.take(timeout=5)
        assert job is not None
        seen.append(job.payload)
        assert await job.ack()
    assert sorted(seen) == ["grouped"] * 3 + ["plain"] * 3


async def _returned(at: Arena, groups: list[str | None], take_turns: bool) -> None:
    """Put jobs one by one, take and release jobs, and check that each of them is delivered."""
    queue = at.queue(interval_from="take" if take_turns else "ack")
    for number, group in enumerate(groups):
        await queue.put(number, group=group)
        await at.sleep(0.02)  # without a pause all jobs would be due at the same moment
    seen = []
    for _ in range(3 * len(groups)):
        job = await queue.take(timeout=5)
        assert job is not None
        assert job.attempt == 1
        seen.append(job.payload)
        assert await job.release()
    assert set(seen) == set(range(len(groups))), f"returned jobs starve others: {seen}"
    assert await queue.purge() == len(groups)


@case("queue")
async def a_returned_ungrouped_job_comes_after_the_jobs_that_were_due(at: Arena) -> None:
    await _returned(at, [None] * 4, take_turns=False)


@case("queue")
async def a_returned_job_of_a_group_comes_behind_those_of_other_groups(at: Arena) -> None:
    await _returned(at, ["a", "b", "c", "d"], take_turns=False)


@case("queue")
async def so_it_does_where_the_interval_counts_from_the_take(at: Arena) -> None:
    await _returned(at, ["a", "b", "c", "d"], take_turns=True)


@case("queue")
async def a_job_that_a_take_releases_comes_after_the_jobs_that_were_due(at: Arena) -> None:
    queue, client = at.queue(), at.client()
    other, struck = client.queue(at.name), queues_of(client)
    for number in range(4):
        await queue.put(number, group=str(number))
        await at.sleep(0.02)
    seen = []
    for _ in range(3):  # the first reply is lost, so the client can't know which job it got
        struck.lost["take"] = 1
        struck.odd["settle_and_take"] = AssertionError("not asked for")
        jobs = await other.take_many(1, timeout=5)
        struck.down["settle"] = 0
        seen += [job.payload for job in jobs]
        for job in jobs:
            assert await job.release()
    assert len(set(seen)) == 3, f"returned jobs starve others: {seen}"
    assert await queue.purge() == 4


@case("queue")
async def an_idle_worker_is_woken_by_a_put(at: Arena) -> None:
    queue = at.queue()

    async def wait() -> object:
        job = await queue.take(timeout=10)
        assert job is not None
        assert await job.ack()
        return job.payload

    waiting = at.start(wait)
    await at.sleep(0.3)
    assert not waiting.finished
    await at.rival_queue().put("now", group="g")
    assert await waiting.result() == "now"
