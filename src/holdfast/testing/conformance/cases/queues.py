"""Serial queues: accepted, executed in order, one at a time per group, never lost."""

from __future__ import annotations

from ....errors import ConfigError
from ...promise import promised
from ..arena import KEPT_S, Arena, raises
from ..registry import case


@case("queue")
async def a_job_is_delivered_unchanged(at: Arena) -> None:
    queue = at.queue()
    tree = {"order": 42, "lines": [1, 2.5, None, True]}
    payloads = ["text \N{SNOWMAN}", b"\0\xff", tree, "", [], 7]
    for one in payloads:
        receipt = await queue.put(one, group="g")
        assert not receipt.duplicate
        job = await queue.take(timeout=5)
        assert job is not None
        assert job.payload == one
        assert type(job.payload) is type(one)
        assert (job.id, job.group, job.queue, job.attempt) == (receipt.id, "g", at.name, 1)
        assert await job.ack()
    assert await queue.take(timeout=0) is None


@case("queue")
async def jobs_of_a_group_come_in_order_one_at_a_time(at: Arena) -> None:
    queue, other = at.queue(), at.rival_queue()
    await queue.put_many(range(3), group="g")
    await other.put(3, group="g")
    for number in range(4):
        job = await (queue, other)[number % 2].take(timeout=5)
        assert job is not None
        with promised("the jobs of a group come in order, one at a time"):
            assert job.payload == number
            assert await queue.take(timeout=0) is None
            assert await other.take(timeout=0) is None
        assert await job.ack()


@case("queue")
async def different_groups_and_ungrouped_jobs_run_side_by_side(at: Arena) -> None:
    queue = at.queue()
    await queue.put_many([0, 1], group="a")
    await queue.put_many([2, 3], group="b")
    await queue.put_many([4, 5])
    jobs = await queue.take_many(10, timeout=5)
    assert sorted(job.payload for job in jobs) == [0, 2, 4, 5]
    assert await queue.take(timeout=0) is None
    for job in jobs:
        assert await job.ack()
    rest = await queue.take_many(10, timeout=5)
    assert sorted(job.payload for job in rest) == [1, 3]
    for job in rest:
        assert await job.ack()


@case("queue")
async def many_are_acked_at_once(at: Arena) -> None:
    queue = at.queue()
    await queue.put_many(range(5))
    jobs = await queue.take_many(5, timeout=5)
    assert await jobs[0].ack()
    assert await queue.ack_many([*jobs, jobs[1]]) == [True] * 6
    assert all(job.settled for job in jobs)
    assert await queue.jobs() == []


@case("queue")
async def a_duplicate_is_dropped_and_reported(at: Arena) -> None:
    queue, other = at.queue(dedup_window=60), at.rival_queue(dedup_window=60)
    assert not (await queue.put("first", id="order:1", group="g")).duplicate
    assert (await other.put("second", id="order:1", group="g")).duplicate
    receipts = await other.put_many(
        [
            {"payload": 1, "id": "order:1"},
            {"payload": 2, "id": "order:2"},
            {"payload": 3, "id": "order:2"},
        ]
    )
    assert [one.duplicate for one in receipts] == [True, False, True]
    for _ in range(2):
        job = await queue.take(timeout=5)
        assert job is not None
        assert job.payload in ("first", 2)
        assert await job.ack()
    # The id of a job that is done is refused, too, until the dedup window has passed
    assert (await queue.put("late", id="order:1")).duplicate
    assert await queue.take(timeout=0) is None


@case("queue")
async def a_failed_job_comes_again_before_those_behind_it(at: Arena) -> None:
    queue = at.queue(retry_delay=KEPT_S, retry_delay_max=KEPT_S)
    await queue.put_many(["bad", "good"], group="g")
    fences = []
    job = await queue.take(timeout=5)
    assert job is not None
    fences.append(job.fence)
    assert await job.retry()
    assert await queue.take(timeout=0) is None
    for attempt, expected in ((2, "bad"), (3, "bad"), (1, "good")):
        job = await queue.take(timeout=5)
        assert job is not None
        assert (job.payload, job.attempt) == (expected, attempt)
        fences.append(job.fence)
        assert await (job.retry(in_=0) if attempt == 2 else job.ack())
    assert fences == sorted(set(fences))


@case("queue")
async def the_pause_of_a_failed_job_lasts_however_often_it_is_asked_for(at: Arena) -> None:
    queue = at.queue()
    for group in ("g", None):
        await queue.put("bad", group=group)
        job = await queue.take(timeout=5)
        assert job is not None
        assert await job.retry(in_=60)
    for turn in range(20):
        assert await queue.take(timeout=0) is None
        if turn % 5 == 4:  # a new job of the group doesn't make the failed job due
            await queue.put("behind", group="g", delay=turn)
    failed = [one for one in await queue.jobs() if one.attempts]
    assert [one.due_in > 30 for one in failed] == [True, True]


@case("queue")
async def a_group_may_be_called_anything_and_is_called_so_everywhere(at: Arena) -> None:
    names = ["bank:4001/é ü%21!", "..", "%41", "g" * 200, "é" * 80]
    queue = at.queue(max_attempts=1)
    await queue.put_many([{"payload": name, "group": name} for name in names])
    assert {one.group for one in await queue.jobs()} == set(names)
    for _ in names:
        job = await queue.take(timeout=5)
        assert job is not None
        assert job.group == job.payload
        (taken,) = await queue.jobs("taken", group=job.group)
        assert taken.group == job.group
        assert await job.retry(reason="no")
    assert {one.group for one in await queue.jobs("dead")} == set(names)
    assert await queue.retry_dead() == len(names)
    for _ in names:
        job = await queue.take(timeout=5)
        assert job is not None
        assert job.group == job.payload
        assert await job.release()
        again = await queue.take(timeout=5)
        assert again is not None
        assert again.group == again.payload
        assert await again.ack()


@case("queue")
async def after_the_last_attempt_it_is_a_dead_letter_and_the_group_continues(at: Arena) -> None:
    queue = at.queue(max_attempts=2, retry_delay=0, retry_delay_max=0)
    await queue.put_many(["bad", "good"], group="g")
    for _ in range(2):
        job = await queue.take(timeout=5)
        assert job is not None
        assert job.payload == "bad"
        assert await job.retry(reason="no such account")
    job = await queue.take(timeout=5)
    assert job is not None
    assert job.payload == "good"
    (letter,) = await queue.jobs("dead")
    assert (letter.group, letter.attempts, letter.reason) == ("g", 2, "no such account")
    assert await job.ack()
    # When the dead letter is revived
    assert await queue.retry_dead([letter.id]) == 1
    job = await queue.take(timeout=5)
    assert job is not None
    assert (job.payload, job.attempt) == ("bad", 1)
    assert await job.ack()
    assert await queue.jobs() == []


@case("queue")
async def dead_letters_come_back_in_the_order_in_which_they_died(at: Arena) -> None:
    async def bury(payloads: list[int]) -> None:
        for payload in payloads:
            job = await queue.take(timeout=5)
            assert job is not None
            assert job.payload == payload
            assert await job.dead_letter("never")

    queue, order = at.queue(), list(range(11))
    await queue.put_many(order, group="g")
    await bury(order[:1])
    assert await queue.retry_dead() == 1  # it is now behind the jobs that were accepted after it
    order = [*order[1:], 0]
    await bury(order)
    assert await queue.take(timeout=0) is None
    assert await queue.retry_dead() == len(order)
    await bury(order)


@case("queue")
async def a_job_behind_a_delayed_one_that_is_removed_is_due_at_once(at: Arena) -> None:
    queue = at.queue()
    await queue.put("late", group="g", delay=3600.0)
    await queue.put("next", group="g")
    assert await queue.take(timeout=0) is None
    assert await queue.purge("delayed") == 1
    job = await queue.take(timeout=0)
    assert job is not None
    assert job.payload == "next"
    assert await job.ack()


@case("queue")
async def a_dead_letter_may_hold_back_its_group(at: Arena) -> None:
    queue = at.queue(on_dead="block")
    await queue.put_many(["bad", "good"], group="g")
    job = await queue.take(timeout=5)
    assert job is not None
    assert await job.dead_letter("never")
    assert await queue.take(timeout=0) is None
    assert await queue.retry_dead() == 1
    job = await queue.take(timeout=5)
    assert job is not None
    assert job.payload == "bad"
    assert await job.dead_letter("never")
    assert await queue.purge("dead") == 1
    job = await queue.take(timeout=5)
    assert job is not None
    assert job.payload == "good"
    assert await job.ack()


@case("queue")
async def a_lost_delivery_comes_again_and_a_late_ack_is_refused(at: Arena) -> None:
    dying = at.client(label="dying").queue(at.name, ttl=0.5)
    queue = at.queue(ttl=5)
    await queue.put_many(["first", "second"], group="g")
    lost = await dying.take(timeout=5)
    assert lost is not None
    lost._lease.renewing = False  # as if the process of this delivery were stopped
    again = await queue.take(timeout=5)
    assert again is not None
    assert (again.payload, again.attempt) == ("first", 2)
    with promised("a later delivery has a greater fence, and a lost delivery does not count"):
        assert again.fence > lost.fence
        assert not await lost.ack()
    again.check()
    assert await again.ack()
    # And a job that is lost in its last attempt becomes a dead letter, and its group continues
    await queue.put("third", group="g")
    last = await at.client(label="dying").queue(at.name, ttl=0.5, max_attempts=1).take(timeout=5)
    assert last is not None
    assert last.payload == "second"
    last._lease.orphan = True  # neither renewed nor released, as if its process were stopped
    job = await queue.take(timeout=5)
    assert job is not None
    assert (job.payload, job.attempt) == ("third", 1)
    (letter,) = await queue.jobs("dead")
    assert (letter.attempts, "lease" in letter.reason) == (1, True)
    assert await job.ack()


@case("queue")
async def a_lease_is_kept_alive_as_long_as_the_work_takes(at: Arena) -> None:
    queue, other = at.queue(ttl=KEPT_S), at.rival_queue()
    await queue.put("long", group="g")
    job = await queue.take(timeout=5)
    assert job is not None
    assert await other.take(timeout=1.3 * KEPT_S) is None
    job.check()
    assert job.remaining() > 0
    assert await job.ack()


@case("queue")
async def a_released_job_comes_at_once_and_the_attempt_does_not_count(at: Arena) -> None:
    queue, other = at.queue(), at.rival_queue()
    await queue.put("x", group="g")
    job = await queue.take(timeout=5)
    assert job is not None
    assert await job.release()
    again = await other.take(timeout=5)
    assert again is not None
    assert again.attempt == 1
    assert await again.ack()


@case("queue")
async def a_worker_calls_its_handler_and_settles_by_what_comes_of_it(at: Arena) -> None:
    queue = at.queue(max_attempts=2, retry_delay=0, retry_delay_max=0)
    await queue.put_many(["good", "bad", "good"], group="g")
    await queue.put_many(["good", "bad"])
    seen: list[str] = []

    async def handle(job: object) -> None:
        seen.append(job.payload)  # type: ignore[attr-defined]
        if seen[-1] == "bad":
            raise ValueError("no good")

    worker = queue.worker(handle, concurrency=2)
    running = at.start(worker.run)

    async def over() -> bool:
        record = await queue.stats()
        return (record.waiting, record.taken, record.dead) == (0, 0, 2)

    for _ in range(500):
        if await over():
            break
        await at.sleep(0.02)
    worker.stop()
    await running.result()
    assert sorted(seen) == ["bad"] * 4 + ["good"] * 3
    assert (worker.done, worker.failed) == (3, 4)
    assert {one.reason for one in await queue.jobs("dead")} == {"ValueError: no good"}


@case("queue")
async def a_loop_acks_what_it_has_done(at: Arena) -> None:
    queue = at.queue(retry_delay=0, retry_delay_max=0)
    await queue.put_many([1, 2, 3], group="g")
    seen = [job.payload async for job in queue.consume(timeout=0)]
    assert seen == [1, 2, 3]
    record = await queue.stats()
    assert (record.waiting, record.taken, record.done) == (0, 0, 3)


@case("queue")
async def stats_count_the_jobs_in_each_state(at: Arena) -> None:
    queue = at.queue()
    await queue.put_many([1, 2, 3], group="g")
    await queue.put("later", group="h", delay=60)
    await queue.put("plain", id="known")
    await at.sleep(0.1)
    job = await queue.take(timeout=5)
    assert job is not None
    record = await queue.stats()
    assert (record.name, record.waiting, record.taken, record.dead) == (at.name, 4, 1, 0)
    assert record.accepted == 5
    assert record.oldest >= 0.1 - 0.01
    assert [one.state for one in await queue.jobs(group="h")] == ["delayed"]
    (taken,) = await queue.jobs("taken")
    assert taken.owner == at.locks.owner
    assert await job.ack()
    assert await queue.purge("delayed") == 1
    assert await queue.purge() == 3
    assert (await queue.stats()).waiting == 0
    assert await queue.take(timeout=0) is None


@case("queue")
async def a_removed_job_is_never_delivered_and_delays_no_other(at: Arena) -> None:
    queue = at.queue()
    await queue.put_many([{"payload": n, "id": f"g{n}"} for n in range(3)], group="g")
    await queue.put_many([{"payload": n, "id": f"p{n}"} for n in range(3)])
    # Remove the first job of a group, the next one, some ungrouped jobs, and an unknown id
    assert await queue.purge(ids=["g0", "g1", "p0", "p2", "none"]) == 4
    jobs = await queue.take_many(10, timeout=5)
    assert sorted(job.id for job in jobs) == ["g2", "p1"]
    assert await queue.take(timeout=0) is None
    # Jobs in delivery stay
    assert await queue.purge() == 0
    for job in jobs:
        assert await job.ack()
    assert not (await queue.put("again", id="fresh", group="g")).duplicate
    last = await queue.take(timeout=5)
    assert last is not None
    assert await last.ack()


@case("queue")
async def bad_input_is_refused_with_the_remedy(at: Arena) -> None:
    queue = at.queue()
    with raises(ConfigError, "payload", "JSON"):
        await queue.put({1, 2})
    with raises(ConfigError, "bytes", "at most"):
        await queue.put(b"x" * 300_000)
    with raises(ConfigError, "group"):
        await queue.put(1, group="")
    with raises(ConfigError, "delay"):
        await queue.put(1, delay=-1)
    with raises(ConfigError, "'paylod'"):
        await queue.put_many([{"paylod": 1}])
    with raises(ConfigError, "min_interval"):
        at.queue(min_interval=-1)
    with raises(ConfigError, "interval_from"):
        at.queue(interval_from="end")
    assert await queue.jobs() == []
