"""Waiters for jobs: as many are woken as jobs become due, and none leaves a file after its wait."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import threading
from pathlib import Path
from typing import Any

from holdfast import AsyncClient, Client
from holdfast.core.queue.model import Job, Pace, Patience, Put, Take
from holdfast.runtime.blocking import run_sync
from holdfast.stores.sqlite.blocking.queues.port import ThreadJobs
from holdfast.testing.faults import Strike
from holdfast.url import find
from tests.fenced.process import Child
from tests.servers.process import until
from tests.stores.sqlite.products import idle


class Taker(threading.Thread):
    """A thread that waits for one job, and acks it."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self.acked = False
        self._queue = client.queue("q")
        self.start()

    def run(self) -> None:
        job = self._queue.take(timeout=30)
        self.acked = job is not None and job.ack()


def waiting(path: Path, count: int) -> None:
    """Wait until there are this many waiters."""
    until(lambda: len(idle(path)) == count, f"{count} wait")


def test_one_job_wakes_one_waiter_and_several_jobs_wake_several(
    path: Path, client: Client, other: Client
) -> None:
    client.queue("q").stats()
    takers = [Taker(client) for _ in range(3)]
    waiting(path, 3)
    # All of this happens before the waiters poll again, which they do once a second
    other.queue("elsewhere").put("x")
    assert len(idle(path)) == 3
    other.queue("q").put("one")
    assert len(idle(path)) == 2
    other.queue("q").put_many(["two", "three", "four"])
    for taker in takers:
        taker.join(10)
        assert taker.acked
    assert idle(path) == []


def test_a_waiter_that_died_costs_the_next_one_nothing(
    path: Path, url: str, client: Client, other: Client
) -> None:
    client.queue("q").stats()
    other.queue("q").stats()  # before the test, because the first opening cleans up
    with Child(lambda _: Client(url).queue("q").take(timeout=60)) as dead:
        waiting(path, 1)
        dead.send(signal.SIGKILL)
        dead.end()
    # The dead waiter's file is still there, and it is the first waiter that a put wakes
    assert len(idle(path)) == 1
    taker = Taker(client)
    waiting(path, 2)
    other.queue("q").put("x")
    assert idle(path) == []
    taker.join(10)
    assert taker.acked


def test_a_waiter_is_woken_although_its_session_file_was_deleted(
    path: Path, client: Client, other: Client
) -> None:
    client.queue("q").stats()
    taker = Taker(client)
    waiting(path, 1)
    before = idle(path)
    # When the file on which the waiter listens is deleted
    for file in Path(f"{path}-queues.d/sessions").iterdir():
        file.unlink()
    # Then it listens on a new file after its next poll
    until(lambda: idle(path) not in ([], before), "it listens again")
    other.queue("q").put("x")
    assert idle(path) == []
    taker.join(10)
    assert taker.acked


def test_a_timed_out_or_cancelled_wait_leaves_no_file(path: Path, url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as client:
            queue: Any = client.queue("q")
            for span in (0.0, 0.02):
                assert await queue.take(timeout=span) is None
            task = asyncio.create_task(queue.take(timeout=60))
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await queue.put("x")
            assert await (await queue.take(timeout=5)).ack()
            assert idle(path) == []

    asyncio.run(main())
    with Client(url) as client:
        assert client.queue("q").take(timeout=0.02) is None
        assert idle(path) == []
    assert os.listdir(f"{path}-queues.d/sessions") == []


def test_a_wait_interrupted_at_its_beginning_leaves_no_waiter(path: Path, client: Client) -> None:
    begins = tuple(f"holdfast.stores.sqlite.blocking.{one}" for one in ("annex", "ears"))
    queue = client.queue("q")
    queue.take(0.01)
    struck, number = True, 0
    while struck:
        number += 1
        with contextlib.suppress(KeyboardInterrupt), Strike(number, within=begins) as strike:
            queue.take(0.01)
        struck = bool(strike.where)
        assert idle(path) == [], strike.where
    assert number > 10


def test_a_waiter_is_woken_although_its_wake_up_is_interrupted(url: str) -> None:
    ours, theirs = (ThreadJobs(find(f"{url}?sync=none")[1]) for _ in "12")
    ours.engine.put(Put("q", "lane", 1, (Job("one", "", b"1"),), 0.0), 5.0)
    for number in itertools.count(1):
        # Given a waiter for a job that another worker has taken
        takes = (f"{who}-{number}" for who in ("given", "waits"))
        given, waits = (Take("q", one, 1, 60.0, "me", Pace(), Patience(), True) for one in takes)
        assert ours.engine.take(given, 5.0).deliveries
        assert theirs.engine.take(waits, 5.0).deliveries == ()
        # When the job is released, and the release is interrupted
        strike = Strike(number, within=("holdfast.stores.sqlite",))
        with contextlib.suppress(KeyboardInterrupt), strike:
            ours.engine.give_back(given, 5.0)
        # Then the job isn't released, or this verb or the next one has woken the waiter
        (record,) = ours.engine.survey("q", True, 5.0)
        assert not record.waiting or run_sync(theirs.sleep(waits.id, 2.0)), strike.where
        theirs.unlisten(waits.id)
        ours.engine.give_back(given, 5.0)
        if not strike.where:
            break
    assert number > 20
    ours.close()
    theirs.close()
