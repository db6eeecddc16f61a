"""Workers die or are interrupted at any point: no accepted job is lost, no acked job comes
again."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import AsyncClient, Client, Loss
from holdfast.sync.queue import Delivery, Queue
from holdfast.testing import lag
from holdfast.testing.faults import Strike
from tests.fenced.process import Child
from tests.stores.sqlite.books import audit
from tests.torture.scale import times

lag.watch()
INSIDE = ("holdfast.stores.sqlite.blocking",)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def drain(queue: Queue) -> list[tuple[str, int]]:
    """Take and ack all jobs; return the payload and the attempt of each."""
    found = []
    while (job := queue.take(timeout=0)) is not None:
        found.append((job.payload, job.attempt))
        assert job.ack()
    return found


def put(queue: Queue, _: Delivery | None) -> None:
    queue.put_many(["new 1", "new 2"], group="g")


def take(queue: Queue, _: Delivery | None) -> None:
    queue.take(timeout=0)


def ack(_: Queue, job: Delivery | None) -> None:
    assert job is not None
    assert job.ack()


def retry(_: Queue, job: Delivery | None) -> None:
    assert job is not None
    assert job.retry(in_=0)


#: For each verb, the jobs that can be left after a kill: payload and attempt.
VERBS: dict[Callable[..., None], list[list[tuple[str, int]]]] = {
    put: [[("old", 1)], [("old", 1), ("new 1", 1), ("new 2", 1)]],
    take: [[("old", 1)], [("old", 2)]],
    ack: [[("old", 2)], []],
    retry: [[("old", 2)]],
}


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: str(verb.__name__))
def test_kill_9_at_any_point_of_a_verb_leaves_it_whole_or_undone(
    path: Path, verb: Callable[..., None]
) -> None:
    dice = random.Random(seed := random.randrange(1 << 32))
    print(f"seed {seed}")
    with Client(f"sqlite://{path}") as client:
        queue = client.queue("q")

        def dies(child: Child, number: int) -> None:
            theirs = Client(f"sqlite://{path}").queue("q")
            theirs.stats()
            job = theirs.take(timeout=0) if verb in (ack, retry) else None
            with Strike(number, die, within=INSIDE) as strike:
                verb(theirs, job)
            child.say(strike.points)

        def once(number: int) -> list[str]:
            queue.put("old", group="g")
            with Child(lambda child: dies(child, number)) as child:
                said = child.rest()
                assert child.end() == (0 if said else -signal.SIGKILL)
            audit(path)
            assert drain(queue) in VERBS[verb]
            assert audit(path) == {"q": (0, 0, 0)}
            return said

        (points,) = once(0)
        print(f"{points} points")
        for _ in range(times(300, 10)):
            once(dice.randint(1, int(points)))


def test_an_interrupt_at_any_point_leaves_no_lock_and_no_delivery(path: Path) -> None:
    dice = random.Random(seed := random.randrange(1 << 32))
    print(f"seed {seed}")
    with Client(f"sqlite://{path}") as client, Client(f"sqlite://{path}") as other:
        queue, theirs = client.queue("q"), other.queue("q")

        def work() -> None:
            queue.put("x", group="g")
            job = queue.take(timeout=0)
            if job is not None:
                job.ack()

        with Strike(0, within=INSIDE) as strike:
            work()
        for _ in range(times(1000, 60)):
            # When Ctrl-C arrives anywhere in a verb
            with (
                contextlib.suppress(KeyboardInterrupt),
                Strike(dice.randint(1, strike.points), within=INSIDE),
            ):
                work()
            # Then other clients get the file mutex immediately, and soon find no delivered job
            begun = time.monotonic()
            while theirs.stats().taken:
                assert time.monotonic() - begun < 5.0 + lag.since(begun)
                time.sleep(0.005)
            audit(path)
            drain(theirs)
        assert theirs.stats().accepted == theirs.stats().done


def test_a_dead_worker_is_noticed_long_before_its_lease_ends(path: Path) -> None:
    def holds(child: Child) -> None:
        job = Client(f"sqlite://{path}").queue("q", ttl=600).take(timeout=5)
        assert job is not None
        child.say(job.fence)
        signal.pause()

    with Client(f"sqlite://{path}") as client:
        queue = client.queue("q", ttl=600)
        queue.put_many(["first", "second"], group="g")
        with Child(holds) as child:
            fence = int(child.hear())
            assert queue.take(timeout=0) is None
            child.send(signal.SIGKILL)
            child.end()
            job = queue.take(timeout=30)
            assert job is not None
            assert (job.payload, job.attempt) == ("first", 2)
            assert job.fence > fence
            assert job.ack()


def test_a_stopped_worker_is_not_dead(path: Path) -> None:
    def holds(child: Child) -> None:
        job = Client(f"sqlite://{path}").queue("q", ttl=600).take(timeout=5)
        child.say(job)
        signal.pause()

    with Client(f"sqlite://{path}") as client:
        queue = client.queue("q", ttl=600)
        queue.put_many(["first", "second"], group="g")
        with Child(holds) as child:
            child.hear()
            child.send(signal.SIGSTOP)
            assert queue.take(timeout=1.5) is None


def test_a_child_of_a_fork_has_nothing_of_its_parents_and_takes_nothing_from_it(
    path: Path,
) -> None:
    with Client(f"sqlite://{path}") as client:
        queue = client.queue("q", ttl=600)
        queue.put_many(["ours", "behind"], group="g")
        queue.put_many(["theirs", "more"], group="h")
        job = queue.take(timeout=0)
        assert job is not None

        def works(child: Child) -> None:
            # When a forked child uses the same objects
            assert job.lost is Loss.FORKED
            assert not job.ack()
            mine = queue.take(timeout=0)
            assert mine is not None
            assert mine.group != job.group
            assert mine.ack()
            queue.put("of the child")
            child.say("worked")
            client.close()

        for _ in range(2):
            with Child(works) as child:
                assert child.hear() == "worked"
                assert child.end() == 0
        # Then the parent has lost nothing
        job.check()
        assert job.ack()
        left = [payload for payload, _ in drain(queue)]
        assert "ours" not in left
        assert "behind" in left


def test_a_living_child_does_not_keep_its_dead_parents_deliveries(path: Path) -> None:
    def holds(child: Child) -> None:
        job = Client(f"sqlite://{path}").queue("q", ttl=600).take(timeout=5)
        assert job is not None
        if not os.fork():
            child.say(os.getpid())
        signal.pause()

    with Client(f"sqlite://{path}") as client:
        queue = client.queue("q", ttl=600)
        queue.put("x", group="g")
        with Child(holds) as parent:
            orphan = int(parent.hear())
            parent.send(signal.SIGKILL)
            parent.end()
        try:
            assert drain(queue) == [("x", 2)]
        finally:
            os.kill(orphan, signal.SIGKILL)


def test_what_a_cancelled_task_may_have_taken_comes_back(path: Path) -> None:
    dice = random.Random(seed := random.randrange(1 << 32))
    print(f"seed {seed}")

    async def main() -> None:
        async with AsyncClient(f"sqlite://{path}") as client:
            queue = client.queue("q")
            await queue.put_many(range(5), group="g")
            for _ in range(times(500, 40)):
                task = asyncio.create_task(queue.take(timeout=5))
                await asyncio.sleep(dice.choice([0, 0.0003, 0.001]) * dice.random())
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    job = await task
                    assert job is not None
                    await job.release()
            seen = []
            while (job := await queue.take(timeout=5 if len(seen) < 5 else 0)) is not None:
                assert job.attempt == 1
                seen.append(job.payload)
                await job.ack()
            assert seen == list(range(5))

    asyncio.run(main())
    assert audit(path) == {"q": (0, 0, 0)}


# -- many workers, and kills among them -----------------------------------------------------------

GROUPS = times(1000, 8)
JOBS = times(100_000, 320)
WORKERS = times(8, 3)
INTERVAL_S = 0.01
KILL_EVERY_S = times(100, 15) / 100


class Bank:
    """A log of executions with one file for each account; it detects overlapping and early
    executions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def execute(self, account: str, number: int, fence: int) -> None:
        """Record one execution, which takes a while."""
        with open(self._folder / account, "a+", encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                (self._folder / "TWO AT ONCE").write_text(account)
                raise
            file.write(f"begin {number} {fence} {time.monotonic()}\n")
            file.flush()
            time.sleep(0.001)
            file.write(f"end {number} {fence} {time.monotonic()}\n")

    def judge(self, account: str, jobs: int, killed: bool) -> None:
        """Check that each job was executed, in order, with rising fences and at least the interval
        apart."""
        begun: list[tuple[int, int]] = []
        ended = 0.0
        for line in (self._folder / account).read_text().splitlines():
            kind, number, fence, moment = line.split()
            if kind == "begin":
                begun.append((int(number), int(fence)))
                # A killed execution writes no end; then the last recorded end counts.
                assert float(moment) >= ended + INTERVAL_S, (account, line)
            else:
                ended = float(moment)
        numbers = [number for number, _ in begun]
        assert numbers == sorted(numbers), account
        assert set(numbers) == set(range(jobs)), account
        assert killed or len(numbers) == jobs, f"{account}: executed twice without a crash"
        fences = [fence for _, fence in begun]
        assert fences == sorted(set(fences)), account


@pytest.mark.parametrize("kills", [False, True], ids=["nobody dies", "kill -9 among them"])
def test_many_workers_keep_the_order_and_the_interval(
    path: Path, tmp_path: Path, kills: bool
) -> None:
    dice = random.Random(seed := random.randrange(1 << 32))
    print(f"seed {seed}")
    (folder := tmp_path / "bank").mkdir()
    url, bank = f"sqlite://{path}", Bank(folder)

    def works(_: Child) -> None:
        with Client(url) as client:
            queue = client.queue("q", min_interval=INTERVAL_S, max_attempts=1000, ttl=30)

            def handle(job: Delivery) -> None:
                assert job.group is not None
                bank.execute(job.group, job.payload, job.fence)

            queue.worker(handle, concurrency=2).run()

    each = JOBS // GROUPS
    with Client(url) as client, contextlib.ExitStack() as stack:
        queue = client.queue("q")
        workers = [stack.enter_context(Child(works)) for _ in range(WORKERS)]
        for start in range(0, each, 5):
            for group in range(GROUPS):
                some = range(start, min(start + 5, each))
                queue.put_many(some, group=f"account {group}")
        begun, killed = time.monotonic(), 0
        struck = begun - KILL_EVERY_S  # the first at once, as little may be left to be done
        while (stands := queue.stats()).waiting + stands.taken:
            assert time.monotonic() - begun < 60.0 + JOBS * 0.02 + lag.since(begun), stands
            time.sleep(0.02)
            if kills and time.monotonic() > struck + KILL_EVERY_S:
                struck = time.monotonic()
                killed += 1
                victim = dice.randrange(WORKERS)
                workers[victim].send(signal.SIGKILL)
                workers[victim].end()
                workers[victim] = stack.enter_context(Child(works))
        assert not kills or killed
        took = time.monotonic() - begun
        print(f"{JOBS} jobs, {JOBS / took:.0f} per second, {killed} workers killed")
        assert queue.stats().dead == 0
    assert not (folder / "TWO AT ONCE").exists()
    for group in range(GROUPS):
        bank.judge(f"account {group}", each, kills)
    audit(path)
