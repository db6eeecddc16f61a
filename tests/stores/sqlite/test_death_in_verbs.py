"""A process dies or is interrupted at any point of a verb, or a task is cancelled: the verb took
effect as a whole or not at all, nothing stays locked, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncClient, Client
from holdfast.core.guard.model import EntryState
from holdfast.sync.queue import Queue
from holdfast.testing.faults import Strike, dice
from tests.fenced.process import Child
from tests.servers.process import until
from tests.stores.sqlite.books import audit
from tests.stores.sqlite.products import LONG_S, die, never
from tests.torture.scale import times

INSIDE = ("holdfast.stores.sqlite.blocking",)
#: Texts of this length don't fit into the table of lone claims, so SQLite writes the claim.
LONG = "x" * 400


def jobs(client: Client) -> Queue:
    return client.queue("q")


def values(client: Client) -> Any:
    return client.guard("g", ttl=LONG_S, lease=LONG_S)


def whole(path: Path) -> None:
    """Check that the database of values passes SQLite's integrity check."""
    with contextlib.closing(sqlite3.connect(f"{path}-values", timeout=10)) as books:
        assert books.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def drain(queue: Queue) -> list[tuple[str, int]]:
    """Take and ack all jobs; return the payload and the attempt of each."""
    found = []
    while (job := queue.take(timeout=0)) is not None:
        found.append((job.payload, job.attempt))
        assert job.ack()
    return found


# -- kill -9 ---------------------------------------------------------------------------------------

Verb = Callable[[Client, Any], object]


def fails(client: Client, _: object) -> None:
    def vain() -> str:
        raise LookupError("no value")

    with contextlib.suppress(LookupError):
        values(client).get(vain)


#: Verbs of queues: whether a job is taken before, and the jobs that can be left after a kill, with
#: payload and attempt.
JOBS: dict[str, tuple[Verb, bool, list[list[tuple[str, int]]]]] = {
    "put": (
        lambda client, _: jobs(client).put_many(["new 1", "new 2"], group="g"),
        False,
        [[("old", 1)], [("old", 1), ("new 1", 1), ("new 2", 1)]],
    ),
    "take": (lambda client, _: jobs(client).take(timeout=0), False, [[("old", 1)], [("old", 2)]]),
    "ack": (lambda _, job: job.ack(), True, [[("old", 2)], []]),
    "retry": (lambda _, job: job.retry(in_=0), True, [[("old", 2)]]),
}
#: Verbs of guards: the value before, if there is one, and the values that the next caller can get.
VALUES: dict[str, tuple[Verb, str, tuple[str, ...]]] = {
    "compute": (lambda client, _: values(client).get(lambda: "new"), "", ("new", "ours")),
    "invalidate": (lambda client, _: values(client).invalidate(), "old", ("old", "ours")),
    "fail": (fails, "", ("ours",)),
}


def killed(url: str, verb: Verb, number: int, prepare: Callable[[Client], object]) -> int:
    """Run the verb in a process that dies at this point; return the number of points if it passes
    none of this number."""

    def dies(child: Child) -> None:
        theirs = Client(url)
        given = prepare(theirs)
        with Strike(number, die, within=INSIDE) as strike:
            verb(theirs, given)
        child.say(strike.points)

    with Child(dies) as child:
        said = child.rest()
        assert child.end() == (0 if said else -signal.SIGKILL)
    return int(said[0]) if said else 0


def at_points(once: Callable[[int], int]) -> None:
    """Call with zero for the number of points, and then with some of these points."""
    chance, points = dice("kills"), once(0)
    print(f"{points} points")
    for _ in range(times(300, 10)):
        once(chance.randint(1, points))


@pytest.mark.usual(4)
@pytest.mark.parametrize("verb", JOBS)
def test_kill_9_at_any_point_of_a_verb_of_queues_leaves_it_whole_or_undone(
    path: Path, url: str, client: Client, verb: str
) -> None:
    act, taken, left = JOBS[verb]

    def prepare(theirs: Client) -> object:
        jobs(theirs).stats()
        return jobs(theirs).take(timeout=0) if taken else None

    def once(number: int) -> int:
        jobs(client).put("old", group="g")
        points = killed(url, act, number, prepare)
        audit(path)
        assert drain(jobs(client)) in left
        assert audit(path) == {"q": (0, 0, 0)}
        return points

    at_points(once)


@pytest.mark.usual(3)
@pytest.mark.parametrize("verb", VALUES)
def test_kill_9_at_any_point_of_a_verb_of_guards_leaves_it_whole_or_undone(
    path: Path, url: str, client: Client, verb: str
) -> None:
    act, before, after = VALUES[verb]
    ours = values(client)

    def once(number: int) -> int:
        ours.invalidate()
        if before:
            assert ours.get(lambda: before) == before
        points = killed(url, act, number, lambda theirs: values(theirs).inspect())
        whole(path)
        # The next caller gets a value immediately, although the refresh lease is long.
        found = ours.get(lambda: "ours", timeout=5)
        assert found in after
        with Client(url) as late:
            assert values(late).get(never) == found
        return points

    at_points(once)


# -- Ctrl-C ----------------------------------------------------------------------------------------


def lock_and_release(client: Client) -> None:
    client.lock(LONG).acquire(timeout=5).release()


def put_and_ack(client: Client) -> None:
    jobs(client).put("x", group="g")
    if (job := jobs(client).take(timeout=0)) is not None:
        job.ack()


def store_and_read(client: Client) -> None:
    values(client).invalidate()
    for _ in range(2):
        values(client).get(lambda: "value")


def judge_locks(ours: Client, theirs: Client, path: Path) -> None:
    until(lambda: not theirs.inspect(LONG), "nothing is held", 5.0)
    theirs.lock(LONG).acquire(timeout=0).release()


def judge_jobs(ours: Client, theirs: Client, path: Path) -> None:
    until(lambda: not jobs(theirs).stats().taken, "no job is delivered", 5.0)
    audit(path)
    drain(jobs(theirs))
    stats = jobs(theirs).stats()
    assert stats.accepted == stats.done


def judge_values(ours: Client, theirs: Client, path: Path) -> None:
    until(lambda: not values(theirs).inspect().owner, "nothing is computed", 5.0)
    found = values(theirs).get(lambda: "theirs", timeout=5)
    assert values(ours).get(never, timeout=5) == found
    assert values(theirs).invalidate() == 1
    assert values(ours).inspect().state is EntryState.MISSING
    whole(path)


INTERRUPTED = {
    "lock": (lock_and_release, judge_locks),
    "job": (put_and_ack, judge_jobs),
    "value": (store_and_read, judge_values),
}


@pytest.mark.usual(3)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("product", INTERRUPTED)
def test_an_interrupt_at_any_point_leaves_nothing_locked_and_nothing_taken(
    path: Path, client: Client, other: Client, product: str
) -> None:
    work, judge = INTERRUPTED[product]
    chance = dice("interrupts")
    with Strike(0, within=INSIDE) as strike:
        work(client)
    for _ in range(times(1000, 60)):
        # When Ctrl-C arrives anywhere in a verb
        with (
            contextlib.suppress(KeyboardInterrupt),
            Strike(chance.randint(1, strike.points), within=INSIDE),
        ):
            work(client)
        # Then the other client gets the file mutex, soon finds nothing taken, and all works
        judge(client, other, path)


# -- cancelled tasks -------------------------------------------------------------------------------


def moments() -> Iterator[float]:
    """Yield random times, in seconds, after which a task is cancelled."""
    chance = dice("cancellations")
    for _ in range(times(500, 40)):
        yield chance.choice([0, 0.0003, 0.001, 0.004]) * chance.random()


def test_what_a_cancelled_task_may_have_taken_comes_back(path: Path, url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as client:
            queue = client.queue("q")
            await queue.put_many(range(5), group="g")
            for moment in moments():
                task = asyncio.create_task(queue.take(timeout=5))
                await asyncio.sleep(moment)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await (await task).release()  # type: ignore[union-attr]
            for payload in range(5):
                job = await queue.take(timeout=5)
                assert job is not None
                assert (job.payload, job.attempt) == (payload, 1)
                await job.ack()

    asyncio.run(main())
    assert audit(path) == {"q": (0, 0, 0)}


def test_a_cancelled_task_leaves_no_refresh_lease(url: str) -> None:
    async def work() -> int:
        await asyncio.sleep(0.001)
        return 1

    async def main() -> None:
        async with AsyncClient(url) as client:
            guard = client.guard("g", ttl=60, lease=LONG_S)
            for moment in moments():
                task = asyncio.create_task(guard.get(work))
                await asyncio.sleep(moment)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                assert await guard.get(work, timeout=5) == 1
                await guard.invalidate()
            assert not (await guard.inspect()).owner

    asyncio.run(main())
