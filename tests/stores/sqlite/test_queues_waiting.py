"""A waiter is woken when a job becomes due, and leaves no files after its wait."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncClient, Client
from holdfast.testing import lag
from holdfast.testing.faults import Strike
from tests.fenced.process import Child
from tests.torture.scale import figures, times

lag.watch()


def idle(path: Path) -> list[str]:
    return os.listdir(f"{path}-queues.d/idle")


def test_an_idle_worker_in_another_process_begins_at_once(path: Path) -> None:
    count = times(300, 30)

    def works(child: Child) -> None:
        with Client(f"sqlite://{path}") as client:
            queue = client.queue("q")
            for _ in range(count):
                child.say("waits")
                job = queue.take(timeout=30)
                begun = time.monotonic()
                assert job is not None
                child.say(begun - job.payload)
                job.ack()

    with Client(f"sqlite://{path}") as client, Child(works) as child:
        queue = client.queue("q")
        spans = []
        for number in range(count):
            assert child.hear() == "waits"
            time.sleep(0.02)
            queue.put(time.monotonic(), group=f"g{number % 3}")
            spans.append(float(child.hear()))
        print(figures("from put to the start in another process", spans))
        # The wake-up is what makes it fast: with polls alone the median would be half a second
        assert statistics.median(spans) < 0.1


def test_one_job_wakes_one_waiter_and_several_jobs_wake_several(path: Path) -> None:
    with Client(f"sqlite://{path}") as client:
        queue = client.queue("q")
        queue.stats()
        got: list[Any] = []

        def waits() -> None:
            job = queue.take(timeout=30)
            assert job is not None
            got.append(job.payload)
            job.ack()

        threads = [threading.Thread(target=waits) for _ in range(3)]
        for thread in threads:
            thread.start()
        begun = time.monotonic()
        while len(idle(path)) < 3:
            assert time.monotonic() < begun + 10 + lag.since(begun)
            time.sleep(0.001)
        with Client(f"sqlite://{path}") as other:
            # All of this happens before the waiters poll again, which they do once a second
            other.queue("elsewhere").put("x")
            assert len(idle(path)) == 3
            other.queue("q").put("one")
            assert len(idle(path)) == 2
            other.queue("q").put_many(["two", "three", "four"])
        for thread in threads:
            thread.join(10)
        assert len(got) == 3
        assert idle(path) == []


def test_a_waiter_that_died_costs_the_next_one_nothing(path: Path) -> None:
    def waits(child: Child) -> None:
        child.say("waits")
        Client(f"sqlite://{path}").queue("q").take(timeout=60)

    with Client(f"sqlite://{path}") as client, Client(f"sqlite://{path}") as other:
        queue = client.queue("q")
        queue.stats()
        other.queue("q").stats()  # before, as whoever opens the files clears up
        with Child(waits) as dead:
            dead.hear()
            begun = time.monotonic()
            while not idle(path):
                assert time.monotonic() < begun + 10 + lag.since(begun)
                time.sleep(0.001)
            dead.send(signal.SIGKILL)
            dead.end()
        # The dead waiter's file is still there, and it is the first waiter that a put wakes
        assert len(idle(path)) == 1
        payload: list[Any] = []
        thread = threading.Thread(target=lambda: payload.append(queue.take(timeout=30)))
        thread.start()
        while len(idle(path)) < 2:
            time.sleep(0.001)
        other.queue("q").put("x")
        assert idle(path) == []
        thread.join(10)
        assert payload[0].ack()


def test_a_waiter_is_woken_although_its_session_file_was_deleted(path: Path) -> None:
    with Client(f"sqlite://{path}") as client, Client(f"sqlite://{path}") as other:
        queue = client.queue("q")
        got: list[Any] = []
        thread = threading.Thread(target=lambda: got.append(queue.take(timeout=60)))
        queue.stats()
        thread.start()
        begun = time.monotonic()
        while not (before := idle(path)):
            assert time.monotonic() < begun + 10 + lag.since(begun)
            time.sleep(0.001)
        # When the file on which the waiter listens is deleted
        for file in Path(f"{path}-queues.d/sessions").iterdir():
            file.unlink()
        # Then it listens on a new file after its next poll
        while not (now := idle(path)) or now == before:
            assert time.monotonic() < begun + 30 + lag.since(begun)
            time.sleep(0.001)
        other.queue("q").put("x")
        assert idle(path) == []
        thread.join(10)
        assert got[0].ack()


def test_a_timed_out_or_cancelled_wait_leaves_no_file(path: Path) -> None:
    async def main() -> None:
        async with AsyncClient(f"sqlite://{path}") as client:
            queue = client.queue("q")
            for span in (0.0, 0.02):
                assert await queue.take(timeout=span) is None
            task = asyncio.create_task(queue.take(timeout=60))
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await queue.put("x")
            job = await queue.take(timeout=5)
            assert job is not None
            await job.ack()
            assert idle(path) == []

    asyncio.run(main())
    with Client(f"sqlite://{path}") as client:
        assert client.queue("q").take(timeout=0.02) is None
        assert idle(path) == []
    assert os.listdir(f"{path}-queues.d/sessions") == []


@pytest.mark.parametrize("face", ["sync", "aio"])
def test_without_sockets_waiters_poll(path: Path, face: str) -> None:
    url = f"sqlite://{path}?wake=poll"

    async def waits() -> Any:
        async with AsyncClient(url) as client:
            job = await client.queue("q").take(timeout=30)
            assert job is not None
            await job.ack()
            return job.payload

    def puts() -> None:
        with Client(url) as client:
            client.queue("q").put("x")

    if face == "aio":
        threading.Timer(0.1, puts).start()
        assert asyncio.run(waits()) == "x"
        return
    with Client(url) as client:
        threading.Timer(0.1, puts).start()
        job = client.queue("q").take(timeout=30)
        assert job is not None
        assert job.ack()


def test_a_wait_interrupted_at_its_beginning_leaves_no_waiter(path: Path) -> None:
    begins = tuple(f"holdfast.stores.sqlite.blocking.{one}" for one in ("annex", "ears"))
    with Client(f"sqlite://{path}") as client:
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
